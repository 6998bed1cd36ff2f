//! The documents in which passages stand, each read once for all of its passages.

use std::collections::HashMap;
use std::ops::Range;

use dyad_corpus::PassagePlace;
use rayon::prelude::*;

use super::tokenizer::{Tokenizer, Tokens};
use super::windows::DocumentWindow;
use crate::config::Tower;
use crate::error::Error;

/// A document, and those of its passages that get a vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PassagesOfDocument<'a> {
    pub(crate) document: &'a str,
    pub(crate) passages: Vec<PassageBytes>,
}

/// A passage of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PassageBytes {
    /// The number of the passage among those of all documents.
    pub(crate) number: usize,
    /// The bytes of the passage in the document.
    pub(crate) bytes: Range<usize>,
}

/// Tokens of documents, of which passages get vectors.
#[derive(Debug, Default)]
pub(crate) struct ContextTokens {
    /// The windows of all documents, with a span for each passage.
    pub(crate) contexts: Vec<Tokens>,
    /// Of each passage, the number of its vector among those of the windows.
    pub(crate) rows: Vec<usize>,
    /// Whether a passage is longer than a window.
    pub(crate) cut: Vec<bool>,
}

impl Tokenizer {
    /// The windows of a document.
    pub(crate) fn windows_of(&self, tower: Tower, of: &PassagesOfDocument<'_>) -> Result<Vec<DocumentWindow>, Error> {
        let bytes: Vec<Range<usize>> = of.passages.iter().map(|passage| passage.bytes.clone()).collect();
        self.windows(tower, of.document, &bytes)
    }

    /// The tokens of documents; `passages` is the number of their passages in all.
    pub(crate) fn contexts(
        &self,
        tower: Tower,
        documents: &[PassagesOfDocument<'_>],
        passages: usize,
    ) -> Result<ContextTokens, Error> {
        let windows = documents
            .par_iter()
            .map(|of| self.windows_of(tower, of))
            .collect::<Result<_, _>>()?;
        Ok(ContextTokens::of(documents, windows, passages))
    }

    /// The tokens of the documents in which passages stand.
    pub(crate) fn contexts_of_passages(
        &self,
        tower: Tower,
        passages: &[&PassagePlace],
    ) -> Result<ContextTokens, Error> {
        let mut numbers: HashMap<u128, usize> = HashMap::new();
        let mut documents: Vec<PassagesOfDocument<'_>> = Vec::new();
        for (number, place) in passages.iter().enumerate() {
            let passage = PassageBytes {
                number,
                bytes: place.bytes(),
            };
            let document = *numbers.entry(place.digest()).or_insert(documents.len());
            match documents.get_mut(document) {
                Some(of) => of.passages.push(passage),
                None => documents.push(PassagesOfDocument {
                    document: place.document(),
                    passages: vec![passage],
                }),
            }
        }
        self.contexts(tower, &documents, passages.len())
    }
}

impl ContextTokens {
    /// Of documents with these windows; `passages` is the number of their passages in all.
    pub(crate) fn of(documents: &[PassagesOfDocument<'_>], windows: Vec<Vec<DocumentWindow>>, passages: usize) -> Self {
        let mut found = Self {
            contexts: Vec::new(),
            rows: vec![0; passages],
            cut: vec![false; passages],
        };
        let mut vectors = 0;
        for (of, windows) in documents.iter().zip(windows) {
            for DocumentWindow {
                tokens, passages: held, ..
            } in windows
            {
                for place in &held {
                    let Some(PassageBytes { number, .. }) = of.passages.get(*place) else {
                        continue;
                    };
                    if let Some(row) = found.rows.get_mut(*number) {
                        *row = vectors;
                    }
                    if let Some(cut) = found.cut.get_mut(*number) {
                        // Of several passages none is longer than their window.
                        *cut = tokens.truncated && held.len() == 1;
                    }
                    vectors += 1;
                }
                found.contexts.push(tokens);
            }
        }
        found
    }
}

/// Adds to every row of `own` the vector of its passage in its document: that of `late` whose number `rows` has.
pub(crate) fn add_contexts(own: &mut [f32], late: &[f32], rows: &[usize], dim: usize, weight: f32) {
    for (own, row) in own.chunks_exact_mut(dim).zip(rows) {
        add_weighted(own, late.get(row * dim..(row + 1) * dim).unwrap_or_default(), weight);
    }
}

/// `own + weight * late`, of unit length: the vector of a passage by itself, and the mean of its tokens in its
/// document.
fn add_weighted(own: &mut [f32], late: &[f32], weight: f32) {
    for (value, late) in own.iter_mut().zip(late) {
        *value += weight * late;
    }
    let length = own
        .iter()
        .map(|value| f64::from(*value) * f64::from(*value))
        .sum::<f64>()
        .sqrt()
        .max(1e-12);
    for value in own.iter_mut() {
        *value = (f64::from(*value) / length) as f32;
    }
}
