//! Where a passage stands in its document.

use std::ops::Range;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

/// A passage as a part of its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassagePlace {
    text: Arc<str>,
    bytes: Range<usize>,
    digest: u128,
}

impl PassagePlace {
    /// All of a document, of which [`Self::part`] are passages.
    pub(super) fn whole(text: &str) -> Self {
        Self { text: text.into(), bytes: 0..text.len(), digest: xxh3_128(text.as_bytes()) }
    }

    /// A passage of the same document; its bytes have to be at boundaries of characters.
    pub(super) fn part(&self, bytes: Range<usize>) -> Self {
        Self { bytes, ..self.clone() }
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
