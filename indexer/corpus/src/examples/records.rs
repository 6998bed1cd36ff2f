//! JSON values of a file: one per line, or the elements of one array.
use serde_json::Value;

use super::array::Elements;
use super::format::Arrangement;
use crate::error::Error;
use crate::problem::CorpusProblem;
use crate::read::{InputLines, InputStream, explained};

/// Longest record that is read.
const MAX_RECORD_BYTES: usize = 16 << 20;
/// Longest article of SQuAD.
const MAX_ARTICLE_BYTES: usize = 64 << 20;

/// The values of one file in its order.
#[derive(Debug)]
pub(super) enum ExampleRecords {
    Lines(InputLines),
    Array(Elements),
}

impl ExampleRecords {
    pub(super) fn from_stream(input: InputStream, arrangement: Arrangement) -> Self {
        match arrangement {
            Arrangement::Lines => Self::Lines(InputLines::from_stream(input, MAX_RECORD_BYTES / 8)),
            Arrangement::Array => Self::Array(Elements::from_stream(input, None, MAX_RECORD_BYTES)),
            Arrangement::Data => Self::Array(Elements::from_stream(input, Some("data"), MAX_ARTICLE_BYTES)),
        }
    }

    /// The next value, read by `parse`.
    pub(super) fn advance<T>(
        &mut self,
        parse: impl FnOnce(Value) -> Result<T, CorpusProblem>,
    ) -> Result<Option<T>, Error> {
        let next = match self {
            Self::Lines(lines) => lines.advance()?,
            Self::Array(elements) => elements.advance()?,
        };
        let Some((_, text)) = next else { return Ok(None) };
        let value = serde_json::from_str(text).map_err(|error| {
            let below = (error.line() as u64).saturating_sub(1);
            (
                below,
                CorpusProblem::Record {
                    message: explained(text, &error),
                },
            )
        });
        value
            .and_then(|value| parse(value).map_err(|problem| (0, problem)))
            .map(Some)
            .map_err(|(below, problem)| match self {
                Self::Lines(lines) => lines.refuse(problem),
                Self::Array(elements) => elements.refuse(below, problem),
            })
    }

    /// An error at the current value.
    pub(super) fn refuse(&self, problem: CorpusProblem) -> Error {
        match self {
            Self::Lines(lines) => lines.refuse(problem),
            Self::Array(elements) => elements.refuse(0, problem),
        }
    }

    pub(super) fn bytes_read(&self) -> u64 {
        match self {
            Self::Lines(lines) => lines.bytes_read(),
            Self::Array(elements) => elements.input().consumed(),
        }
    }

    pub(super) fn total_bytes(&self) -> Option<u64> {
        match self {
            Self::Lines(lines) => lines.total_bytes(),
            Self::Array(elements) => elements.input().total_bytes,
        }
    }
}
