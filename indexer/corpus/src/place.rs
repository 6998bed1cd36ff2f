//! Where a passage stands in its document.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_128;

/// Where a passage stands, as its record says it: the text of the document is elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PassageSpan {
    /// The key of its document.
    pub document: String,
    /// Its first character in the document: Unicode code points, as Python counts them.
    pub start: usize,
    /// The character after its last one.
    pub end: usize,
}

impl PassageSpan {
    /// The key that a field has: a text, or a whole number, as keys of documents are.
    pub(crate) fn key_of(value: &Value) -> Option<String> {
        match value {
            Value::String(key) => Some(key.clone()),
            Value::Number(number) if !number.is_f64() => Some(number.to_string()),
            _ => None,
        }
    }

    /// In the document with this key, by the fields `start` and `end`; nothing where one is not there, or no number of
    /// a character.
    pub(crate) fn of_fields(document: String, fields: &Map<String, Value>) -> Option<Self> {
        let number = |field: &str| fields.get(field)?.as_u64().and_then(|at| usize::try_from(at).ok());
        Some(Self {
            document,
            start: number("start")?,
            end: number("end")?,
        })
    }
}

/// A passage as a part of its document.
#[derive(Debug, Clone)]
pub struct PassagePlace {
    text: Arc<str>,
    bytes: Range<usize>,
    digest: u128,
}

/// By the digests of the documents: these are long, and have many passages.
impl PartialEq for PassagePlace {
    fn eq(&self, other: &Self) -> bool {
        (self.digest, &self.bytes) == (other.digest, &other.bytes)
    }
}

impl Eq for PassagePlace {}

impl PassagePlace {
    /// All of a document, of which [`Self::part`] are passages.
    pub fn whole(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        Self {
            bytes: 0..text.len(),
            digest: xxh3_128(text.as_bytes()),
            text,
        }
    }

    /// A passage of the same document; nothing where its bytes are not those of characters of the document.
    pub fn part(&self, bytes: Range<usize>) -> Option<Self> {
        self.text.get(bytes.clone())?;
        Some(Self { bytes, ..self.clone() })
    }

    /// The text of the document.
    pub fn document(&self) -> &str {
        &self.text
    }

    /// The bytes of the passage in it.
    pub fn bytes(&self) -> Range<usize> {
        self.bytes.clone()
    }

    /// Digest of the document's text.
    pub fn digest(&self) -> u128 {
        self.digest
    }
}
