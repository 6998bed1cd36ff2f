//! A batch on the device: the tokens of all rows one after another, on the CPU without padding between them.
//!
//! Everything but attention and pooling works on single tokens, so `[t, h]` is all that it needs, where `t` counts the
//! tokens of all rows. Attention and pooling work on *runs*: neighbouring rows of one length, a view `[rows, s, h]` of the
//! same memory. Batches are sorted by length, so runs are few, and no mask is needed.
//!
//! On a GPU each run costs launches, in every layer and again on the way back, and a batch of 64 questions has some twenty lengths. There
//! rows of like lengths are one run, padded to the longest ([`padded_runs`]), and a mask says which tokens are there.

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

/// Which tokens of a run are there.
#[derive(Debug)]
pub(crate) struct Mask {
    /// `[rows, 1]`: tokens of each row, whole numbers.
    lengths: Tensor,
    /// `[1, s]`: the place of each token.
    places: Tensor,
    /// `[rows, 1, 1, s]`, f32: 0, and minus infinity for what is padding; to be added to the scores of attention.
    scores: Tensor,
}

impl Mask {
    fn new(lengths: &Tensor, tokens: i64) -> Result<Self, TchError> {
        let lengths = lengths.f_unsqueeze(1)?;
        let places = Tensor::f_arange(tokens, (Kind::Int64, lengths.device()))?.f_unsqueeze(0)?;
        let absent = places.f_ge_tensor(&lengths)?;
        let scores = Tensor::f_zeros(absent.size(), (Kind::Float, absent.device()))?;
        let scores = scores.f_masked_fill(&absent, f64::NEG_INFINITY)?.f_unsqueeze(1)?.f_unsqueeze(1)?;
        Ok(Self { lengths, places, scores })
    }

    pub(crate) fn scores(&self) -> &Tensor {
        &self.scores
    }

    pub(super) fn places(&self) -> &Tensor {
        &self.places
    }

    /// `[rows, 1]`: the place of each row's first token after `skipped` ones; its last one where it has no more.
    pub(super) fn first(&self, skipped: i64) -> Result<Tensor, TchError> {
        self.last()?.f_clamp_max(skipped)
    }

    /// `[rows, 1]`: the place of each row's last token.
    pub(super) fn last(&self) -> Result<Tensor, TchError> {
        self.lengths.f_sub_scalar(1)
    }

    /// `[rows, s]`: whether there is a token, from [`Self::first`] on.
    pub(super) fn kept(&self, skipped: i64) -> Result<Tensor, TchError> {
        self.places.f_lt_tensor(&self.lengths)?.f_logical_and(&self.places.f_ge_tensor(&self.first(skipped)?)?)
    }
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
    /// Tokens of each row, most first.
    pub(crate) lengths: Vec<i64>,
    /// Of each run with padding; nothing where no run has any.
    pub(crate) masks: Vec<Option<Mask>>,
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
        let runs = if padding == Padding::Rows { padded_runs(lengths) } else { runs(lengths) };
        let used: i64 = runs.iter().map(|run| run.rows * run.tokens).sum();
        let tokens = padding.up(used as usize);
        let filler = tokens as i64 - used;
        let spread = |values: &[i64]| on(device, &spread(values, lengths, &runs, tokens));
        let positions: Vec<i64> = lengths.iter().flat_map(|length| 0..*length).collect();
        Ok(Self {
            ids: spread(batch.ids())?,
            types: batch.types().map(|types| spread(&types)).transpose()?,
            positions: spread(&positions)?,
            masks: masks(lengths, &runs, device)?,
            lengths: lengths.to_vec(),
            runs,
            filler,
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
        let firsts = self.runs.iter().flat_map(|run| (0..run.rows).map(|row| run.first + row * run.tokens));
        firsts.zip(self.lengths.iter().copied())
    }

    /// Tokens of the longest row.
    pub(crate) fn longest(&self) -> i64 {
        self.runs.iter().map(|run| run.tokens).max().unwrap_or(0)
    }
}

/// Numbers on a device.
pub(super) fn on(device: Device, values: &[i64]) -> Result<Tensor, TchError> {
    // Not from pinned memory: of that torch warns in each call, and small copies do not wait for the device anyway.
    Tensor::f_from_slice(values)?.f_to_device_(device, Kind::Int64, true, false)
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

/// What a run costs, in tokens: neighbours of different lengths are padded as long as that costs less. Inference launches some 5 kernels for each run and
/// layer, training some 15, of a few microseconds each; a token of MiniLM takes about 0.02 and 0.05 microseconds in a layer.
const TOKENS_OF_A_RUN: i64 = 1024;

/// Rows with padding have a multiple of this, as the kernels of attention like their masks.
const ROW_STEP: i64 = 8;

/// Cuts rows, longest first, into runs of rows padded to their longest, so that the tokens and [`TOKENS_OF_A_RUN`] for each run are the fewest.
fn padded_runs(lengths: &[i64]) -> Vec<Run> {
    let of_one_length = runs(lengths);
    // The best way up to each length: what it costs, and where its last run begins.
    let mut best: Vec<(i64, usize)> = vec![(0, 0)];
    for end in 1..=of_one_length.len() {
        let mut rows = 0;
        let mut cheapest = (i64::MAX, 0);
        for (start, run) in of_one_length.iter().enumerate().take(end).rev() {
            rows += run.rows;
            let tokens = padded(&of_one_length, start, end);
            let before = best.get(start).map_or(0, |&(cost, _)| cost);
            let cost = before.saturating_add(TOKENS_OF_A_RUN).saturating_add(rows.saturating_mul(tokens));
            cheapest = cheapest.min((cost, start));
        }
        best.push(cheapest);
    }
    let mut bounds = vec![of_one_length.len()];
    while let Some(&end) = bounds.last().filter(|&&end| end > 0) {
        bounds.push(best.get(end).map_or(0, |&(_, start)| start.min(end - 1)));
    }
    bounds.reverse();
    let mut first = 0;
    let joined = bounds.windows(2).filter_map(|bounds| {
        let &[start, end] = bounds else { return None };
        let rows = of_one_length.get(start..end)?.iter().map(|run| run.rows).sum();
        let run = Run { first, rows, tokens: padded(&of_one_length, start, end) };
        first += run.rows * run.tokens;
        Some(run)
    });
    joined.collect()
}

/// Tokens of each row where the runs from `start` up to `end` are one.
fn padded(runs: &[Run], start: usize, end: usize) -> i64 {
    let longest = runs.get(start).map_or(0, |run| run.tokens);
    if end - start > 1 { (longest + ROW_STEP - 1) / ROW_STEP * ROW_STEP } else { longest }
}

/// Values of all tokens with zeros where `runs` have padding, and up to `tokens`.
fn spread(values: &[i64], lengths: &[i64], runs: &[Run], tokens: usize) -> Vec<i64> {
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

fn masks(lengths: &[i64], runs: &[Run], device: Device) -> Result<Vec<Option<Mask>>, TchError> {
    let used: i64 = runs.iter().map(|run| run.rows * run.tokens).sum();
    if lengths.iter().sum::<i64>() == used {
        return Ok(Vec::new());
    }
    let all = on(device, lengths)?;
    let mut first = 0;
    let masks = runs.iter().map(|run| {
        let (start, end) = (first as usize, (first + run.rows) as usize);
        let shorter = lengths.get(start..end).is_some_and(|rows| rows.iter().any(|&length| length < run.tokens));
        let own = all.f_narrow(0, first, run.rows)?;
        first += run.rows;
        if shorter { Mask::new(&own, run.tokens).map(Some) } else { Ok(None) }
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
    use super::*;

    #[test]
    fn neighbours_of_one_length_are_a_run() {
        let run = |first, rows, tokens| Run { first, rows, tokens };
        assert_eq!(runs(&[5, 5, 3, 1, 1, 1]), [run(0, 2, 5), run(10, 1, 3), run(13, 3, 1)]);
        assert!(runs(&[]).is_empty());
    }

    /// The cheapest of all ways to cut, one by one.
    fn slow(runs: &[Run]) -> i64 {
        let cuts = runs.len().saturating_sub(1);
        let cost = |ways: u32| {
            let mut bounds = vec![0];
            bounds.extend((1..runs.len()).filter(|&bound| ways & (1 << (bound - 1)) != 0));
            bounds.push(runs.len());
            bounds
                .windows(2)
                .map(|bounds| {
                    let part = &runs[bounds[0]..bounds[1]];
                    let longest = part[0].tokens;
                    let tokens = if part.len() > 1 { (longest + 7) / 8 * 8 } else { longest };
                    TOKENS_OF_A_RUN + tokens * part.iter().map(|run| run.rows).sum::<i64>()
                })
                .sum::<i64>()
        };
        (0..1_u32 << cuts).map(cost).min().unwrap()
    }

    #[test]
    fn rows_are_padded_where_another_run_costs_more() {
        let few: Vec<i64> = (1..=64).rev().map(|length| length / 3 + 1).collect();
        let run = |first, rows, tokens| Run { first, rows, tokens };
        assert_eq!(padded_runs(&few), [run(0, 64, 24)]);
        assert_eq!(padded_runs(&[9; 64]), [run(0, 64, 9)], "nothing to pad");
        let many: Vec<i64> = [256; 100].into_iter().chain([250; 30]).chain([40; 900]).chain([7; 900]).collect();
        assert_eq!(padded_runs(&many), [run(0, 130, 256), run(33_280, 900, 40), run(69_280, 900, 7)]);
        assert!(padded_runs(&[]).is_empty());
        for seed in 1..40_i64 {
            let mut lengths: Vec<i64> =
                (0..seed * 37).map(|row| (row * row * 31 + seed * 17 + row * 7) % (seed % 9 + 2) * 19 + 1).collect();
            lengths.sort_by_key(|length| -length);
            let cut = padded_runs(&lengths);
            assert_eq!(cut.iter().map(|run| run.rows).sum::<i64>(), lengths.len() as i64);
            let cost: i64 = cut.iter().map(|run| TOKENS_OF_A_RUN + run.rows * run.tokens).sum();
            assert_eq!(cost, slow(&runs(&lengths)), "{lengths:?}");
        }
    }

    #[test]
    fn padding_is_zero_and_masked() {
        let (lengths, runs) =
            ([3, 2, 2, 1], [Run { first: 0, rows: 3, tokens: 4 }, Run { first: 12, rows: 1, tokens: 1 }]);
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
        assert!(super::masks(&[2, 2], &[Run { first: 0, rows: 2, tokens: 2 }], Device::Cpu).unwrap().is_empty());
    }
}
