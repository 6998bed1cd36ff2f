//! A batch on the device: the tokens of all rows one after another, on the CPU without padding between them.
//!
//! Everything but attention and pooling works on single tokens, so `[t, h]` is all that it needs, where `t` counts the
//! tokens of all rows. Attention and pooling work on *runs*: neighbouring rows of one length, a view `[rows, s, h]` of
//! the same memory. Batches are sorted by length, so runs are few, and no mask is needed.
//!
//! On a GPU rows of like lengths are one run ([`padded_runs`]), and a padding mask tells which tokens are real.

use std::ops::Range;

use tch::{Device, Kind, TchError, Tensor};

use super::exec::Exec;
use super::product::Padding;
pub(crate) use super::runs::LengthRun;
use super::runs::{padded_runs, runs};
use crate::tokenize::TokenBatch;

/// The padding mask of a run.
#[derive(Debug)]
pub(crate) struct Mask {
    /// `[rows, 1]`: tokens of each row, whole numbers.
    lengths: Tensor,
    /// `[1, s]`: the position of each token.
    positions: Tensor,
    /// `[rows, 1, 1, s]`, f32: 0, and minus infinity for what is padding; to be added to the scores of attention.
    scores: Tensor,
}

impl Mask {
    fn new(lengths: &Tensor, tokens: i64) -> Result<Self, TchError> {
        let lengths = lengths.f_unsqueeze(1)?;
        let positions = Tensor::f_arange(tokens, (Kind::Int64, lengths.device()))?.f_unsqueeze(0)?;
        let padding = positions.f_ge_tensor(&lengths)?;
        let scores = Tensor::f_zeros(padding.size(), (Kind::Float, padding.device()))?;
        let scores = scores
            .f_masked_fill(&padding, f64::NEG_INFINITY)?
            .f_unsqueeze(1)?
            .f_unsqueeze(1)?;
        Ok(Self {
            lengths,
            positions,
            scores,
        })
    }

    pub(crate) fn scores(&self) -> &Tensor {
        &self.scores
    }

    pub(super) fn positions(&self) -> &Tensor {
        &self.positions
    }

    /// `[rows, 1]`: the position of each row's first token after `skipped` ones; of its last one where it has no more.
    pub(super) fn first(&self, skipped: i64) -> Result<Tensor, TchError> {
        self.last()?.f_clamp_max(skipped)
    }

    /// `[rows, 1]`: the position of each row's last token.
    pub(super) fn last(&self) -> Result<Tensor, TchError> {
        self.lengths.f_sub_scalar(1)
    }

    /// `[rows, s]`: whether a token is real, from [`Self::first`] on.
    pub(super) fn kept(&self, skipped: i64) -> Result<Tensor, TchError> {
        self.positions
            .f_lt_tensor(&self.lengths)?
            .f_logical_and(&self.positions.f_ge_tensor(&self.first(skipped)?)?)
    }
}

/// Token ids and their positions.
#[derive(Debug)]
pub(crate) struct Packed {
    /// `[t]`, whole numbers.
    pub(crate) ids: Tensor,
    /// `[t]`: the position of each token in its row, from 0; -1 for one that has none.
    pub(crate) positions: Tensor,
    /// `[t]`: 1 for the tokens of the second text of a pair; `None` where all are 0.
    pub(crate) types: Option<Tensor>,
    pub(crate) runs: Vec<LengthRun>,
    /// Tokens of each row, most first.
    pub(crate) lengths: Vec<i64>,
    /// The mask of each run with padding; empty where no run has any.
    pub(crate) masks: Vec<Option<Mask>>,
    /// Tokens at the end that belong to no row: no run has them, and nothing reads what becomes of them.
    pub(crate) filler: i64,
    /// Tokens of each row that belong to the prompt.
    pub(crate) prompt: i64,
    /// In each row, the tokens that get a vector of their own; nothing where each row has one vector.
    pub(crate) spans: Vec<Vec<Range<usize>>>,
    /// How it is computed.
    pub(crate) exec: Exec,
}

impl Packed {
    /// `uncounted` is a token that has no position where it stands in a text, nor moves those after it on: RoBERTa's
    /// padding.
    pub(crate) fn new(
        batch: &TokenBatch,
        device: Device,
        padding: Padding,
        exec: Exec,
        uncounted: Option<i64>,
    ) -> Result<Self, TchError> {
        let lengths = batch.lengths();
        if lengths.last().is_some_and(|&shortest| shortest < 1) {
            return Err(TchError::Shape(
                "expected one token or more in each text, got: a text without".to_owned(),
            ));
        }
        let runs = if let Padding::Rows(costs) = padding {
            padded_runs(lengths, costs)
        } else {
            runs(lengths)
        };
        let used: i64 = runs.iter().map(|run| run.rows * run.tokens).sum();
        let tokens = padding.up(used as usize);
        let filler = tokens as i64 - used;
        let spread = |values: &[i64]| on(device, &spread(values, lengths, &runs, tokens));
        let positions = positions(batch.ids(), lengths, uncounted);
        Ok(Self {
            ids: spread(batch.ids())?,
            types: batch.types().map(|types| spread(&types)).transpose()?,
            positions: spread(&positions)?,
            masks: masks(lengths, &runs, device)?,
            lengths: lengths.to_vec(),
            runs,
            filler,
            prompt: batch.prompt_tokens() as i64,
            spans: batch.spans().to_vec(),
            exec,
        })
    }

    /// `[t, h]` to `[rows, tokens, h]` of each run, views.
    ///
    /// Cut at once: the way back then lays the gradients of all runs side by side, where that of a view of its own for
    /// each would be as large as the whole.
    pub(crate) fn runs_of(&self, packed: &Tensor) -> Result<Vec<Tensor>, TchError> {
        let mut sizes: Vec<i64> = self.runs.iter().map(|run| run.rows * run.tokens).collect();
        if self.filler > 0 {
            sizes.push(self.filler);
        }
        let parts = if let [_] = sizes[..] {
            vec![packed.shallow_clone()]
        } else {
            packed.f_split_with_sizes(sizes, 0)?
        };
        parts
            .iter()
            .zip(&self.runs)
            .map(|(part, run)| part.f_view([run.rows, run.tokens, -1]))
            .collect()
    }

    /// The mask of a run, if it has padding.
    pub(crate) fn mask(&self, run: usize) -> Option<&Mask> {
        self.masks.get(run)?.as_ref()
    }

    /// Whether any row is padded.
    pub(crate) fn is_padded(&self) -> bool {
        self.masks.iter().any(Option::is_some)
    }

    /// First token of each row and the number of its tokens.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (i64, i64)> {
        let firsts = self
            .runs
            .iter()
            .flat_map(|run| (0..run.rows).map(|row| run.first + row * run.tokens));
        firsts.zip(self.lengths.iter().copied())
    }

    /// Tokens of the longest row.
    pub(crate) fn longest(&self) -> i64 {
        self.runs.iter().map(|run| run.tokens).max().unwrap_or(0)
    }
}

/// The position of each token in its row.
fn positions(ids: &[i64], lengths: &[i64], uncounted: Option<i64>) -> Vec<i64> {
    let Some(uncounted) = uncounted.filter(|uncounted| ids.contains(uncounted)) else {
        return lengths.iter().flat_map(|length| 0..*length).collect();
    };
    let mut positions = Vec::with_capacity(ids.len());
    let mut ids = ids.iter();
    for length in lengths {
        let mut next = 0;
        for id in ids.by_ref().take(*length as usize) {
            if *id == uncounted {
                positions.push(-1);
            } else {
                positions.push(next);
                next += 1;
            }
        }
    }
    positions
}

/// Numbers on a device.
pub(crate) fn on(device: Device, values: &[i64]) -> Result<Tensor, TchError> {
    // Not from pinned memory, of which torch warns in each call: copies of up to 64 KiB do not wait for the device
    // anyway.
    Tensor::f_from_slice(values)?.f_to_device_(device, Kind::Int64, true, false)
}

/// Values of all tokens with zeros where `runs` have padding, and up to `tokens`.
fn spread(values: &[i64], lengths: &[i64], runs: &[LengthRun], tokens: usize) -> Vec<i64> {
    let mut spread = Vec::with_capacity(tokens);
    let (mut values, mut lengths) = (values, lengths.iter());
    for run in runs {
        for length in lengths.by_ref().take(run.rows as usize) {
            let (row, rest) = values.split_at_checked(*length as usize).unwrap_or((values, &[]));
            values = rest;
            let end = spread.len() + run.tokens as usize;
            spread.extend_from_slice(row);
            spread.resize(end, 0);
        }
    }
    spread.resize(tokens, 0);
    spread
}

fn masks(lengths: &[i64], runs: &[LengthRun], device: Device) -> Result<Vec<Option<Mask>>, TchError> {
    let used: i64 = runs.iter().map(|run| run.rows * run.tokens).sum();
    if lengths.iter().sum::<i64>() == used {
        return Ok(Vec::new());
    }
    let all = on(device, lengths)?;
    let mut first = 0;
    let masks = runs.iter().map(|run| {
        let (start, end) = (first as usize, (first + run.rows) as usize);
        let shorter = lengths
            .get(start..end)
            .is_some_and(|rows| rows.iter().any(|&length| length < run.tokens));
        let own = all.f_narrow(0, first, run.rows)?;
        first += run.rows;
        if shorter {
            Mask::new(&own, run.tokens).map(Some)
        } else {
            Ok(None)
        }
    });
    masks.collect()
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
    use super::super::runs::RunCosts;
    use super::*;
    use crate::tokenize::Tokens;

    #[test]
    fn a_text_without_a_token_is_refused() {
        let texts = [vec![1, 2], Vec::new()].map(|ids| Tokens {
            ids,
            ..Tokens::default()
        });
        let batch = TokenBatch::new(&texts.iter().collect::<Vec<_>>(), 0);
        for padding in [Padding::No, Padding::Rows(RunCosts::of(384, None))] {
            let message = Packed::new(&batch, Device::Cpu, padding, Exec::ONE_THREAD, None)
                .unwrap_err()
                .to_string();
            assert!(message.contains("got: a text without"), "{message}");
        }
    }

    #[test]
    fn a_token_that_is_not_counted_has_no_position() {
        assert_eq!(positions(&[5, 1, 6, 1, 7], &[4, 1], Some(1)), [0, -1, 1, -1, 0]);
        assert_eq!(positions(&[5, 1, 6, 1, 7], &[4, 1], None), [0, 1, 2, 3, 0]);
        assert_eq!(positions(&[5, 6, 7], &[2, 1], Some(1)), [0, 1, 0]);
    }

    #[test]
    fn padding_is_zero_and_masked() {
        let (lengths, runs) = (
            [3, 2, 2, 1],
            [
                LengthRun {
                    first: 0,
                    rows: 3,
                    tokens: 4,
                },
                LengthRun {
                    first: 12,
                    rows: 1,
                    tokens: 1,
                },
            ],
        );
        let all = spread(&[1, 2, 3, 4, 5, 6, 7, 8], &lengths, &runs, 16);
        assert_eq!(all, [1, 2, 3, 0, 4, 5, 0, 0, 6, 7, 0, 0, 8, 0, 0, 0]);
        let masks = masks(&lengths, &runs, Device::Cpu).unwrap();
        assert!(masks[1].is_none());
        let mask = masks[0].as_ref().unwrap();
        let values = |tensor: Tensor| Vec::<i64>::try_from(tensor.to_kind(Kind::Int64).view([-1])).unwrap();
        assert_eq!(values(mask.kept(0).unwrap()), [1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0, 0]);
        // Of a row that is all prompt, the last token stays.
        assert_eq!(values(mask.kept(2).unwrap()), [0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0]);
        assert_eq!(values(mask.scores().isfinite()), values(mask.kept(0).unwrap()));
        assert!(
            super::masks(
                &[2, 2],
                &[LengthRun {
                    first: 0,
                    rows: 2,
                    tokens: 2
                }],
                Device::Cpu
            )
            .unwrap()
            .is_empty()
        );
    }
}
