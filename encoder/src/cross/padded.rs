//! Packed tokens to rows of one length, and back.
//!
//! Pairs have two lengths, so runs of equal ones would be almost as many as pairs. Only the attention itself is padded:
//! all maps and the feed-forward block work on packed tokens.

use tch::{TchError, Tensor};

use crate::nn::{Output, on};

/// Positions of the tokens of some texts in padded rows, in the order of the texts.
#[derive(Debug)]
pub(super) struct Padded {
    texts: i64,
    longest: i64,
    /// `[texts, longest]`: a row of the packed tokens; 0 where a text has ended.
    packed: Tensor,
    /// `[texts, 1, 1, longest]`: whether there is a token.
    present: Tensor,
    /// `[t]`: the place of each packed token (arbitrary for padding) among `texts * longest`.
    places: Tensor,
}

impl Padded {
    pub(super) fn new(states: &Output) -> Result<Self, TchError> {
        let (rows, device) = (states.rows(), states.tokens().device());
        let texts = rows.len() as i64;
        let longest = rows.iter().map(|&(_, length)| length).max().unwrap_or(0);
        let row = |&(first, length): &(i64, i64)| (0..longest).map(move |at| if at < length { first + at } else { 0 });
        let packed: Vec<i64> = rows.iter().flat_map(row).collect();
        let present: Vec<bool> = rows
            .iter()
            .flat_map(|&(_, length)| (0..longest).map(move |at| at < length))
            .collect();
        // The batch's own padding gets the first place's values: nothing reads them.
        let mut places = vec![0; usize::try_from(states.tokens().size2()?.0).unwrap_or(0)];
        for (&(first, length), start) in rows
            .iter()
            .zip((0..).step_by(usize::try_from(longest.max(1)).unwrap_or(1)))
        {
            let own = usize::try_from(first).unwrap_or(usize::MAX)..usize::try_from(first + length).unwrap_or(0);
            for (place, at) in places.get_mut(own).unwrap_or_default().iter_mut().zip(start..) {
                *place = at;
            }
        }
        Ok(Self {
            texts,
            longest,
            packed: on(device, &packed)?.f_view([texts, longest])?,
            present: Tensor::f_from_slice(&present)?
                .f_view([texts, 1, 1, longest])?
                .f_to_device(device)?,
            places: on(device, &places)?,
        })
    }

    /// `[t, heads * size]` packed to `[texts, heads, longest, size]`.
    pub(super) fn heads(&self, tokens: &Tensor, heads: i64) -> Result<Tensor, TchError> {
        // As a table: the way back of `embedding` adds rows up in parallel, that of `index_select` one at a time.
        let rows = Tensor::f_embedding(tokens, &self.packed, -1, false, false)?;
        rows.f_view([self.texts, self.longest, heads, -1])?.f_transpose(1, 2)
    }

    /// `[texts, heads, longest, size]` to `[t, heads * size]` packed.
    pub(super) fn pack(&self, heads: &Tensor) -> Result<Tensor, TchError> {
        let rows = heads.f_transpose(1, 2)?.f_reshape([self.texts * self.longest, -1])?;
        Tensor::f_embedding(&rows, &self.places, -1, false, false)
    }

    pub(super) fn present(&self) -> &Tensor {
        &self.present
    }
}
