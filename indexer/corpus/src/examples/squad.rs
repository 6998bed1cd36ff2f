//! SQuAD's articles (Rajpurkar et al. 2016, 2018): `data[].paragraphs[]` of `context` and `qas[]`.
use serde::Deserialize;
use serde_json::Value;

use crate::problem::CorpusProblem;
use crate::read::message;

/// One article.
#[derive(Debug, Deserialize)]
pub(super) struct Article {
    pub(super) paragraphs: Vec<Paragraph>,
}

/// A paragraph and its questions, which are read one by one, so that a malformed one does not affect the others.
#[derive(Debug, Deserialize)]
pub(super) struct Paragraph {
    pub(super) context: String,
    #[serde(default)]
    pub(super) qas: Vec<Value>,
}

/// One question.
#[derive(Debug, Deserialize)]
pub(super) struct SquadQuestion {
    pub(super) id: Option<String>,
    #[serde(rename = "question")]
    pub(super) text: String,
    #[serde(default)]
    pub(super) answers: Vec<Span>,
    /// SQuAD 2.
    #[serde(default)]
    pub(super) is_impossible: bool,
}

/// An answer.
#[derive(Debug, Deserialize)]
pub(super) struct Span {
    pub(super) text: String,
    /// Where the answer begins, in characters from the beginning of the paragraph.
    pub(super) answer_start: usize,
}

/// Reads a value as one of the above.
pub(super) fn read<T: for<'de> Deserialize<'de>>(value: Value) -> Result<T, CorpusProblem> {
    serde_json::from_value(value).map_err(|error| CorpusProblem::Record {
        message: message(&error),
    })
}

impl Span {
    /// Byte range of the answer in the paragraph; where the stated offset is wrong, the nearest occurrence.
    pub(super) fn bytes(&self, context: &str) -> Result<std::ops::Range<usize>, CorpusProblem> {
        let given = context
            .char_indices()
            .nth(self.answer_start)
            .map_or(context.len(), |(at, _)| at);
        if !self.text.is_empty() && context.get(given..).is_some_and(|rest| rest.starts_with(&self.text)) {
            return Ok(given..given + self.text.len());
        }
        let text = self.text.trim();
        let places = context
            .match_indices(text)
            .map(|(at, _)| at)
            .filter(|_| !text.is_empty());
        let nearest = places.min_by_key(|at| at.abs_diff(given));
        nearest
            .map(|at| at..at + text.len())
            .ok_or_else(|| CorpusProblem::UnknownSpan {
                text: self.text.clone(),
            })
    }
}
