//! A batch on the device: the tokens of all rows one after another, without padding between them.
//!
//! Everything but attention and pooling works on single tokens, so `[t, h]` is all that it needs, where `t` counts the
//! tokens of all rows. Attention and pooling work on *runs*: neighbouring rows of one length, a view `[rows, s, h]` of the
//! same memory. Batches are sorted by length, so runs are few, and no mask is needed anywhere.

use tch::{Device, Kind, TchError, Tensor};

use super::exec::Exec;
use super::product::Padding;
use crate::tokenize::Batch;

/// Neighbouring rows of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first token of its first row.
    pub(crate) first: i64,
    pub(crate) rows: i64,
    /// Tokens of each row.
    pub(crate) tokens: i64,
}

/// Token ids and their positions.
#[derive(Debug)]
pub(crate) struct Packed {
    /// `[t]`, whole numbers.
    pub(crate) ids: Tensor,
    /// `[t]`: the place of each token in its row, from 0.
    pub(crate) positions: Tensor,
    /// `[t]`: 1 for the tokens of the second text of a pair; `None` where all are 0.
    pub(crate) types: Option<Tensor>,
    pub(crate) runs: Vec<Run>,
    /// Tokens at the end that belong to no row: no run has them, and nothing reads what becomes of them.
    pub(crate) filler: i64,
    /// Tokens of each row that belong to the prompt.
    pub(crate) prompt: i64,
    /// How it is computed.
    pub(crate) exec: Exec,
}

impl Packed {
    pub(crate) fn new(batch: &Batch, device: Device, padding: Padding, exec: Exec) -> Result<Self, TchError> {
        let lengths = batch.lengths();
        let mut positions: Vec<i64> = lengths.iter().flat_map(|length| 0..*length).collect();
        let mut ids = batch.ids().to_vec();
        let tokens = padding.up(ids.len());
        let filler = tokens.saturating_sub(ids.len()) as i64;
        ids.resize(tokens, 0);
        positions.resize(tokens, 0);
        let types = batch.types().map(|mut types| {
            types.resize(tokens, 0);
            on(device, &types)
        });
        Ok(Self {
            ids: on(device, &ids)?,
            types: types.transpose()?,
            filler,
            positions: on(device, &positions)?,
            runs: runs(lengths),
            prompt: batch.prompt_tokens() as i64,
            exec,
        })
    }

    /// `[t, h]` to `[rows, tokens, h]` of each run, views.
    ///
    /// Cut at once: the way back then lays the gradients of all runs side by side, where that of a view of its own for each
    /// would be as large as the whole.
    pub(crate) fn runs_of(&self, packed: &Tensor) -> Result<Vec<Tensor>, TchError> {
        let mut sizes: Vec<i64> = self.runs.iter().map(|run| run.rows * run.tokens).collect();
        if self.filler > 0 {
            sizes.push(self.filler);
        }
        let parts =
            if let [_] = sizes[..] { vec![packed.shallow_clone()] } else { packed.f_split_with_sizes(sizes, 0)? };
        parts.iter().zip(&self.runs).map(|(part, run)| part.f_view([run.rows, run.tokens, -1])).collect()
    }

    /// Tokens of the longest row.
    pub(crate) fn longest(&self) -> i64 {
        self.runs.iter().map(|run| run.tokens).max().unwrap_or(0)
    }
}

/// Numbers on a device. A GPU copies from pinned memory while this thread goes on; torch keeps the memory until it has.
fn on(device: Device, values: &[i64]) -> Result<Tensor, TchError> {
    let values = Tensor::f_from_slice(values)?;
    if !device.is_cuda() {
        return Ok(values);
    }
    values.f_pin_memory(device)?.f_to_device_(device, Kind::Int64, true, false)
}

fn runs(lengths: &[i64]) -> Vec<Run> {
    let mut first = 0;
    let of_one_length = lengths.chunk_by(|a, b| a == b).map(|run| {
        let (rows, tokens) = (run.len() as i64, run.first().copied().unwrap_or(0));
        let run = Run { first, rows, tokens };
        first += rows * tokens;
        run
    });
    of_one_length.collect()
}

/// One result per run, side by side along the first dimension.
pub(crate) fn joined(parts: Vec<Tensor>) -> Result<Tensor, TchError> {
    match <[Tensor; 1]>::try_from(parts) {
        Ok([only]) => Ok(only),
        Err(parts) => Tensor::f_cat(&parts, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_length_are_a_run() {
        let run = |first, rows, tokens| Run { first, rows, tokens };
        assert_eq!(runs(&[5, 5, 3, 1, 1, 1]), [run(0, 2, 5), run(10, 1, 3), run(13, 3, 1)]);
        assert!(runs(&[]).is_empty());
    }
}
