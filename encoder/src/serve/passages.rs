//! Passages in their documents: late chunking in a request.

use std::ops::Range;

use crate::tokenize::{PassageBytes, PassagesOfDocument, add_contexts};

/// Bytes of a token of usual text, and half as many again: what tokenizing takes is less than embedding.
const BYTES_PER_TOKEN: usize = 8;

/// A document of which texts of a request are passages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadDocument {
    /// Its text.
    pub text: String,
    /// Those of the request's texts that stand in it.
    pub passages: Vec<ReadPassage>,
}

/// Where a text of a request stands in its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPassage {
    /// Number of the text in the request.
    pub text: usize,
    /// Its bytes in the document.
    pub bytes: Range<usize>,
}

impl ReadDocument {
    pub(super) fn passages_of(&self) -> PassagesOfDocument<'_> {
        let bytes_of = |passage: &ReadPassage| PassageBytes {
            number: passage.text,
            bytes: passage.bytes.clone(),
        };
        PassagesOfDocument {
            document: &self.text,
            passages: self.passages.iter().map(bytes_of).collect(),
        }
    }

    /// Bytes of each window that is expected, where the model reads `longest` tokens, and of pieces as long as those
    /// for all of the text, which is tokenized. Passages that overlap may need more windows: these are charged once
    /// they are known.
    pub(super) fn expected(&self, longest: usize) -> impl Iterator<Item = usize> {
        // Windows overlap by a quarter of their length, and a token has some four bytes.
        let windows = (self.text.len() / longest.max(1) + 1).min(self.passages.len());
        let pieces = self.text.len() / (BYTES_PER_TOKEN * longest.max(1)) + 1;
        std::iter::repeat_n(self.text.len(), windows + pieces)
    }
}

/// Of each text of a request, the vector of its tokens in its document, and how much that counts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LateRows {
    /// Of each text, the number of that vector among those after the vectors of the texts.
    pub(crate) rows: Vec<usize>,
    pub(crate) weight: f32,
}

impl LateRows {
    /// Adds to the vector of each text that of its tokens in its document; the latter are left out then.
    pub(super) fn add_to(&self, vectors: &mut Vec<f32>, dim: usize) {
        let (own, late) = vectors.split_at_mut(self.rows.len() * dim);
        add_contexts(own, late, &self.rows, dim, self.weight);
        vectors.truncate(self.rows.len() * dim);
    }
}
