//! The output of a forward pass: the vectors of a batch, and the token vectors that they are made from.

use tch::{TchError, Tensor};

use super::packed::{Packed, on};
use crate::tokenize::TokenBatch;

/// A batch of one tower after its network, with its tape.
#[derive(Debug)]
pub struct Output {
    /// `[t, h]`, packed: the tokens of all texts one after another, longest text first, on a GPU with padding.
    tokens: Tensor,
    #[cfg_attr(not(feature = "train"), expect(dead_code, reason = "read by training"))]
    packed: Packed,
    /// Vectors in the order of the texts; a text with spans has one for each span.
    vectors: Tensor,
    /// First row of each text in `tokens`, and its number of tokens.
    rows: Vec<(i64, i64)>,
    /// Place of each text in the batch.
    #[cfg_attr(not(feature = "train"), expect(dead_code, reason = "read by training"))]
    places: Tensor,
}

impl Output {
    /// `vectors` in the order of the batch.
    pub(crate) fn new(tokens: Tensor, packed: Packed, vectors: &Tensor, batch: &TokenBatch) -> Result<Self, TchError> {
        let places = batch.places();
        let by_place: Vec<(i64, i64)> = packed.rows().collect();
        let at = |place: &i64| by_place.get(*place as usize).copied().unwrap_or((0, 0));
        let rows = places.iter().map(at).collect();
        let vectors = vectors.f_index_select(0, &on(vectors.device(), &batch.vector_places())?)?;
        let places = on(vectors.device(), &places)?;
        Ok(Self {
            tokens,
            packed,
            vectors,
            rows,
            places,
        })
    }

    /// Number of texts.
    pub fn texts(&self) -> usize {
        self.rows.len()
    }

    /// Vectors `[texts, dim]` in f32, in the order of the texts.
    pub fn vectors(&self) -> &Tensor {
        &self.vectors
    }

    /// [`Self::vectors`] alone.
    pub fn into_vectors(self) -> Tensor {
        self.vectors
    }

    /// Token vectors `[s, h]` of a text; `None` if there are fewer texts.
    pub fn tokens_of(&self, text: usize) -> Option<Result<Tensor, TchError>> {
        let &(first, length) = self.rows.get(text)?;
        Some(self.tokens.f_narrow(0, first, length))
    }
}

/// For the cross-encoder branch, which continues from the token vectors.
#[cfg(feature = "train")]
impl Output {
    /// `[t, h]`, packed.
    pub(crate) fn tokens(&self) -> &Tensor {
        &self.tokens
    }

    pub(crate) fn packed(&self) -> &Packed {
        &self.packed
    }

    /// First row of each text in [`Self::tokens`], and its number of tokens.
    pub(crate) fn rows(&self) -> &[(i64, i64)] {
        &self.rows
    }

    /// Reorders `[texts, ..]` from the order of the batch to the order of the texts.
    pub(crate) fn in_order_of_texts(&self, batch: &Tensor) -> Result<Tensor, TchError> {
        batch.f_index_select(0, &self.places)
    }
}
