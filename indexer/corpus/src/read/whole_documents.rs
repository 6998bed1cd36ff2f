//! The documents that the passages of a corpus were cut from, in a file of their own: each once, and not once per passage.
//!
//! A passage says by its metadata where it stands: `document`, the key of its document, and `start` and `end`, in characters (Unicode code points, as
//! Python counts them). The text there has to be the passage's, but for white space.

use std::collections::HashMap;

use serde_json::Value;

use super::place::PassagePlace;
use crate::document::{Document, Located};
use crate::error::Error;
use crate::problem::Problem;

/// Texts of documents by their keys, in memory.
#[derive(Debug, Default)]
pub(super) struct WholeDocuments {
    by_key: HashMap<String, PassagePlace>,
}

impl WholeDocuments {
    /// Of documents that were read.
    pub(super) fn of(documents: impl Iterator<Item = Result<Located<Document>, Error>>) -> Result<Self, Error> {
        let mut by_key = HashMap::new();
        for document in documents {
            let document = document?.value;
            by_key.insert(document.key, PassagePlace::whole(&document.text));
        }
        Ok(Self { by_key })
    }

    /// The place of a passage.
    pub(super) fn place(&self, passage: &Document) -> Result<PassagePlace, Problem> {
        let metadata = passage.metadata.as_ref().map_or("{}", |metadata| metadata.as_json());
        let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
        let wrong = |expected: &str, got: String| Problem::Place { expected: expected.to_owned(), got };
        let Some(key) = metadata.get("document").and_then(Value::as_str) else {
            return Err(wrong("metadata `document`, the key of its document", "none".to_owned()));
        };
        let Some(whole) = self.by_key.get(key) else {
            return Err(wrong("a document of `--documents`", format!("`{}`", key.escape_debug())));
        };
        let number = |field: &str| metadata.get(field).and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok());
        let (Some(start), Some(end)) = (number("start"), number("end")) else {
            return Err(wrong("metadata `start` and `end`, characters of the document", "others".to_owned()));
        };
        let text = whole.document();
        // The end of the text is a place too.
        let mut places = text.char_indices().map(|(byte, _)| byte).chain([text.len()]);
        let first = places.nth(start);
        let last = if end > start { places.nth(end - start - 1) } else { None };
        let (Some(first), Some(last)) = (first, last) else {
            let characters = text.chars().count();
            return Err(wrong(
                &format!("`start` and `end` within {characters} characters"),
                format!("{start} and {end}"),
            ));
        };
        let there = text.get(first..last).unwrap_or_default();
        if !there.split_whitespace().eq(passage.text.split_whitespace()) {
            let shown: String = there.chars().take(60).collect();
            return Err(wrong("its text at that place of its document", format!("`{}`", shown.escape_debug())));
        }
        Ok(whole.part(first..last))
    }
}
