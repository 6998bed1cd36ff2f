//! The documents that the passages of a corpus were cut from, in a file of their own: each once, and not once per passage.
//!
//! A passage says by its metadata where it stands: `document`, the key of its document, and `start` and `end`, in characters (Unicode code points, as
//! Python counts them). The text there has to be the passage's, but for white space.

use std::collections::HashMap;

use serde_json::Value;

use crate::document::{Document, Located};
use crate::error::Error;
use crate::place::{PassagePlace, PassageSpan};
use crate::problem::Problem;

/// Texts of documents by their keys, in memory.
#[derive(Debug, Default)]
pub struct WholeDocuments {
    by_key: HashMap<String, WholeDocument>,
}

/// Characters between two whose bytes are kept.
const STEP: usize = 1_024;

#[derive(Debug)]
struct WholeDocument {
    place: PassagePlace,
    /// The byte of every [`STEP`]-th character, and the number of characters.
    bytes: Vec<usize>,
    characters: usize,
}

impl WholeDocument {
    fn new(text: &str) -> Self {
        let bytes = text.char_indices().step_by(STEP).map(|(byte, _)| byte).collect();
        Self { place: PassagePlace::whole(text), bytes, characters: text.chars().count() }
    }

    /// Where a character begins; the end of the text after its last one.
    fn byte(&self, character: usize) -> Option<usize> {
        let text = self.place.document();
        if character == self.characters {
            return Some(text.len());
        }
        let near = *self.bytes.get(character / STEP)?;
        let (further, _) = text.get(near..)?.char_indices().nth(character % STEP)?;
        Some(near + further)
    }
}

impl WholeDocuments {
    /// Of documents that were read.
    pub(super) fn of(documents: impl Iterator<Item = Result<Located<Document>, Error>>) -> Result<Self, Error> {
        let mut by_key = HashMap::new();
        for document in documents {
            let document = document?.value;
            by_key.insert(document.key, WholeDocument::new(&document.text));
        }
        Ok(Self { by_key })
    }

    /// The place of a passage of a corpus, by its metadata.
    pub(super) fn place(&self, passage: &Document) -> Result<PassagePlace, Problem> {
        let metadata = passage.metadata.as_ref().map_or("{}", |metadata| metadata.as_json());
        let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
        let Some(document) = metadata.get("document").and_then(Value::as_str) else {
            return Err(wrong("metadata `document`, the key of its document", "none".to_owned()));
        };
        let span = Value::as_object(&metadata).and_then(|fields| PassageSpan::of_fields(document, fields));
        match span {
            Some(span) => self.place_of(&span, &passage.text),
            None if !self.by_key.contains_key(document) => Err(unknown(document)),
            None => Err(wrong("metadata `start` and `end`, characters of the document", "others".to_owned())),
        }
    }

    /// The place of a passage with this text.
    pub fn place_of(&self, span: &PassageSpan, text: &str) -> Result<PassagePlace, Problem> {
        let PassageSpan { document, start, end } = span;
        let Some(whole) = self.by_key.get(document) else { return Err(unknown(document)) };
        let places = whole.byte(*start).zip(whole.byte(*end)).filter(|(first, last)| first < last);
        let Some((first, last)) = places else {
            let expected = format!("`start` and `end` within {} characters", whole.characters);
            return Err(wrong(&expected, format!("{start} and {end}")));
        };
        let there = whole.place.document().get(first..last).unwrap_or_default();
        if !there.split_whitespace().eq(text.split_whitespace()) {
            let shown: String = there.chars().take(60).collect();
            return Err(wrong("its text at that place of its document", format!("`{}`", shown.escape_debug())));
        }
        Ok(whole.place.part(first..last).unwrap_or_else(|| whole.place.clone()))
    }
}

fn unknown(document: &str) -> Problem {
    wrong("a document of `--documents`", format!("`{}`", document.escape_debug()))
}

fn wrong(expected: &str, got: String) -> Problem {
    Problem::Place { expected: expected.to_owned(), got }
}
