//! The documents that the passages of a corpus were cut from, in a file of their own: each once, and not once per
//! passage.
//!
//! A passage says by its metadata where it stands: `document`, the key of its document, and `start` and `end`, in
//! characters (Unicode code points, as Python counts them). The text there has to be the passage's, but for white
//! space. Where it is not, they are counted once more with every run of white space as one character, as sources have
//! it whose documents were cleaned before they were cut.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;

use crate::document::{Document, Located};
use crate::error::Error;
use crate::place::{PassagePlace, PassageSpan};
use crate::problem::CorpusProblem;

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
        Self {
            place: PassagePlace::whole(text),
            bytes,
            characters: text.chars().count(),
        }
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

/// The bytes of some characters of a text whose white space is folded: a run of it is one character, and none at both
/// ends.
fn folded(text: &str, start: usize, end: usize) -> Option<Range<usize>> {
    let trimmed = text.trim();
    let before = text.len() - text.trim_start().len();
    let (mut first, mut number, mut in_space) = (None, 0, false);
    for (byte, letter) in trimmed.char_indices() {
        let is_space = letter.is_whitespace();
        if is_space && in_space {
            continue;
        }
        in_space = is_space;
        if number == start {
            first = Some(before + byte);
        }
        if number == end {
            return Some(first?..before + byte);
        }
        number += 1;
    }
    (number == end).then_some(first?..before + trimmed.len())
}

impl WholeDocuments {
    /// Of documents that were read.
    pub(super) fn collect(documents: impl Iterator<Item = Result<Located<Document>, Error>>) -> Result<Self, Error> {
        let mut by_key = HashMap::new();
        for document in documents {
            let document = document?.value;
            by_key.insert(document.key, WholeDocument::new(&document.text));
        }
        Ok(Self { by_key })
    }

    /// The place of a passage of a corpus, by its metadata.
    pub(super) fn place(&self, passage: &Document) -> Result<PassagePlace, CorpusProblem> {
        let metadata = passage.metadata.as_ref().map_or("{}", |metadata| metadata.as_json());
        let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
        let Some(document) = metadata.get("document").and_then(PassageSpan::key_of) else {
            return Err(wrong("metadata `document`, the key of its document", "none".to_owned()));
        };
        let span = Value::as_object(&metadata).and_then(|fields| PassageSpan::of_fields(document.clone(), fields));
        match span {
            Some(span) => self.place_of(&span, &passage.text),
            None if !self.by_key.contains_key(&document) => Err(unknown(&document)),
            None => Err(wrong(
                "metadata `start` and `end`, characters of the document",
                "others".to_owned(),
            )),
        }
    }

    /// The place of a passage with this text.
    pub fn place_of(&self, span: &PassageSpan, text: &str) -> Result<PassagePlace, CorpusProblem> {
        let PassageSpan { document, start, end } = span;
        let Some(whole) = self.by_key.get(document) else {
            return Err(unknown(document));
        };
        let places = whole
            .byte(*start)
            .zip(whole.byte(*end))
            .filter(|(first, last)| first < last);
        let Some((first, last)) = places else {
            let expected = format!("`start` and `end` within {} characters", whole.characters);
            return Err(wrong(&expected, format!("{start} and {end}")));
        };
        let document = whole.place.document();
        let is_there = |bytes: &Range<usize>| {
            let there = document.get(bytes.clone()).unwrap_or_default();
            there.split_whitespace().eq(text.split_whitespace())
        };
        let as_counted = Some(first..last).filter(|bytes| is_there(bytes));
        let place = as_counted.or_else(|| folded(document, *start, *end).filter(|bytes| is_there(bytes)));
        let Some(bytes) = place else {
            let shown: String = document.get(first..last).unwrap_or_default().chars().take(60).collect();
            return Err(wrong(
                "its text at that place of its document",
                format!("`{}`", shown.escape_debug()),
            ));
        };
        Ok(whole.place.part(bytes).unwrap_or_else(|| whole.place.clone()))
    }
}

fn unknown(document: &str) -> CorpusProblem {
    wrong(
        "a document of `--documents` (of a training `data.documents`)",
        format!("`{}`", document.escape_debug()),
    )
}

fn wrong(expected: &str, got: String) -> CorpusProblem {
    CorpusProblem::Place {
        expected: expected.to_owned(),
        got,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_white_space_counts_as_one_character_and_at_the_ends_as_none() {
        let text = "\n  na\u{ef}ve \t kings.  Water.\n";
        let plain: Vec<char> = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
        for start in 0..plain.len() {
            for end in start + 1..=plain.len() {
                let expected: String = plain[start..end].iter().collect();
                let bytes = folded(text, start, end).unwrap();
                let got: String = text[bytes].split_whitespace().collect::<Vec<_>>().join(" ");
                assert_eq!(got, expected.trim(), "{start} {end}");
            }
        }
        assert_eq!((folded(text, 0, plain.len() + 1), folded("", 0, 1)), (None, None));
    }
}
