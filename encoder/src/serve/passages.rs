//! Passages in their documents: late chunking in a request.

use std::ops::Range;

use crate::config::Tower;
use crate::error::Error;
use crate::tokenize::{ContextTokens, PassageBytes, PassagesOfDocument, Tokenizer, add_weighted};

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
    fn passages_of(&self) -> PassagesOfDocument<'_> {
        let bytes_of = |passage: &ReadPassage| PassageBytes { number: passage.text, bytes: passage.bytes.clone() };
        PassagesOfDocument { document: &self.text, passages: self.passages.iter().map(bytes_of).collect() }
    }

    /// Bytes that its windows have at most, by window: one for each passage, and no more than there are tokens for.
    pub(super) fn at_most(&self, longest: usize) -> impl Iterator<Item = usize> {
        // Windows overlap by a quarter of their length.
        let windows = (2 * self.text.len() / longest.max(1) + 1).min(self.passages.len());
        std::iter::repeat_n(self.text.len(), windows)
    }
}

/// The tokens of the documents of so many texts.
pub(super) fn context_tokens(
    tokenizer: &Tokenizer,
    tower: Tower,
    documents: &[ReadDocument],
    texts: usize,
) -> Result<ContextTokens, Error> {
    let documents: Vec<PassagesOfDocument<'_>> = documents.iter().map(ReadDocument::passages_of).collect();
    tokenizer.contexts(tower, &documents, texts)
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
        for (own, row) in own.chunks_exact_mut(dim).zip(&self.rows) {
            add_weighted(own, late.get(row * dim..(row + 1) * dim).unwrap_or_default(), self.weight);
        }
        vectors.truncate(self.rows.len() * dim);
    }
}
