//! How the rows of a batch are cut into runs: those of one length each, or on a GPU rows of like lengths, padded to
//! their longest.
//!
//! On a GPU each run costs launches, in every layer and again on the way back, and a batch of 64 questions has some
//! twenty lengths.

/// Neighbouring rows of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LengthRun {
    /// The first token of its first row.
    pub(crate) first: i64,
    pub(crate) rows: i64,
    /// Tokens of each row, padding included.
    pub(crate) tokens: i64,
}

/// What a run of MiniLM's size costs, in tokens. Inference launches some 5 kernels for each run and layer, training
/// some 15, of a few microseconds each; a token takes about 0.02 and 0.05 microseconds in a layer of 384 values.
const TOKENS_OF_A_RUN: i64 = 1024;
const HIDDEN: i64 = 384;
const FEWEST_TOKENS_OF_A_RUN: i64 = 64;

/// Padded rows have a multiple of this many tokens: the alignment that kernels of attention need of their masks.
const ROW_STEP: i64 = 8;

/// Biases of a run with padding at most, where they are laid out for each row: 64 MiB in bf16.
const MOST_BIASES: i64 = 1 << 25;

/// What padding and runs cost a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunCosts {
    /// A run, in tokens.
    run: i64,
    /// Heads whose scores have biases by relative position.
    biased_heads: Option<i64>,
}

impl RunCosts {
    /// For token vectors of this size; `biased_heads` where attention adds biases by relative position.
    pub(crate) fn of(hidden: usize, biased_heads: Option<usize>) -> Self {
        // A token's work grows with the square of the size, a launch does not.
        let run = (TOKENS_OF_A_RUN * HIDDEN * HIDDEN / (hidden.max(1) as i64).saturating_pow(2))
            .clamp(FEWEST_TOKENS_OF_A_RUN, TOKENS_OF_A_RUN);
        Self {
            run,
            biased_heads: biased_heads.map(|heads| heads as i64),
        }
    }

    /// Whether rows of different lengths may be one run.
    fn allow(self, rows: i64, tokens: i64) -> bool {
        let biases = |heads: i64| rows.saturating_mul(heads).saturating_mul(tokens.saturating_pow(2));
        self.biased_heads.is_none_or(|heads| biases(heads) <= MOST_BIASES)
    }
}

/// Runs of rows of one length, where rows have these lengths.
pub(super) fn runs(lengths: &[i64]) -> Vec<LengthRun> {
    let mut first = 0;
    let of_one_length = lengths.chunk_by(|a, b| a == b).map(|run| {
        let (rows, tokens) = (run.len() as i64, run.first().copied().unwrap_or(0));
        let run = LengthRun { first, rows, tokens };
        first += rows * tokens;
        run
    });
    of_one_length.collect()
}

/// Runs of rows padded to their longest, cut so that their tokens and the cost of each run are the fewest; rows come
/// longest first.
pub(super) fn padded_runs(lengths: &[i64], costs: RunCosts) -> Vec<LengthRun> {
    let of_one_length = runs(lengths);
    // The cheapest way to each length: its cost, and where its last run begins.
    let mut best: Vec<(i64, usize)> = vec![(0, 0)];
    for end in 1..=of_one_length.len() {
        let mut rows = 0;
        let mut cheapest = (i64::MAX, end - 1);
        for (start, run) in of_one_length.iter().enumerate().take(end).rev() {
            rows += run.rows;
            let tokens = padded(&of_one_length, start, end);
            if start + 1 < end && !costs.allow(rows, tokens) {
                break;
            }
            let before = best.get(start).map_or(0, |&(cost, _)| cost);
            let cost = before
                .saturating_add(costs.run)
                .saturating_add(rows.saturating_mul(tokens));
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
        let run = LengthRun {
            first,
            rows,
            tokens: padded(&of_one_length, start, end),
        };
        first += run.rows * run.tokens;
        Some(run)
    });
    joined.collect()
}

/// Tokens of each row where the runs from `start` up to `end` are one.
fn padded(runs: &[LengthRun], start: usize, end: usize) -> i64 {
    let longest = runs.get(start).map_or(0, |run| run.tokens);
    if end - start > 1 {
        (longest + ROW_STEP - 1) / ROW_STEP * ROW_STEP
    } else {
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: i64, rows: i64, tokens: i64) -> LengthRun {
        LengthRun { first, rows, tokens }
    }

    #[test]
    fn neighbours_of_one_length_are_a_run() {
        assert_eq!(runs(&[5, 5, 3, 1, 1, 1]), [run(0, 2, 5), run(10, 1, 3), run(13, 3, 1)]);
        assert!(runs(&[]).is_empty());
    }

    /// The cheapest of all ways to cut, one by one.
    fn slow(runs: &[LengthRun], costs: RunCosts) -> i64 {
        let cuts = runs.len().saturating_sub(1);
        let cost = |ways: u32| {
            let mut bounds = vec![0];
            bounds.extend((1..runs.len()).filter(|&bound| ways & (1 << (bound - 1)) != 0));
            bounds.push(runs.len());
            let parts = bounds.windows(2).map(|bounds| {
                let part = &runs[bounds[0]..bounds[1]];
                let rows = part.iter().map(|run| run.rows).sum::<i64>();
                let tokens = if part.len() > 1 {
                    (part[0].tokens + 7) / 8 * 8
                } else {
                    part[0].tokens
                };
                let refused = part.len() > 1 && !costs.allow(rows, tokens);
                if refused { None } else { Some(costs.run + tokens * rows) }
            });
            parts.sum::<Option<i64>>()
        };
        (0..1_u32 << cuts).filter_map(cost).min().unwrap()
    }

    #[test]
    fn rows_are_padded_where_another_run_costs_more() {
        let small = RunCosts::of(384, None);
        let few: Vec<i64> = (1..=64).rev().map(|length| length / 3 + 1).collect();
        assert_eq!(padded_runs(&few, small), [run(0, 64, 24)]);
        assert_eq!(padded_runs(&[9; 64], small), [run(0, 64, 9)], "nothing to pad");
        let many: Vec<i64> = [256; 100]
            .into_iter()
            .chain([250; 30])
            .chain([40; 900])
            .chain([7; 900])
            .collect();
        assert_eq!(
            padded_runs(&many, small),
            [run(0, 130, 256), run(33_280, 900, 40), run(69_280, 900, 7)]
        );
        assert!(padded_runs(&[], small).is_empty());
        assert_eq!(RunCosts::of(768, None).run, 256);
        assert_eq!((RunCosts::of(1 << 20, None).run, RunCosts::of(0, None).run), (64, 1024));
        // 64 heads would lay out 64 * 64 * 24 * 24 biases, and a million too many.
        assert_eq!(padded_runs(&few, RunCosts::of(384, Some(64))), [run(0, 64, 24)]);
        assert_eq!(padded_runs(&few, RunCosts::of(384, Some(1_000_000))), runs(&few));
        for seed in 1..40_i64 {
            let mut lengths: Vec<i64> = (0..seed * 37)
                .map(|row| (row * row * 31 + seed * 17 + row * 7) % (seed % 9 + 2) * 19 + 1)
                .collect();
            lengths.sort_by_key(|length| -length);
            for costs in [small, RunCosts::of(768, None), RunCosts::of(384, Some(12))] {
                let cut = padded_runs(&lengths, costs);
                assert_eq!(cut.iter().map(|run| run.rows).sum::<i64>(), lengths.len() as i64);
                let cost: i64 = cut.iter().map(|run| costs.run + run.rows * run.tokens).sum();
                assert_eq!(cost, slow(&runs(&lengths), costs), "{lengths:?}");
            }
        }
    }
}
