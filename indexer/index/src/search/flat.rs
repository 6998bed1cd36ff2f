//! The exact scan: the oracle of every other search, and the mode `exact`.

use super::{Completeness, Cost, ExactRows, NodeSet, RowQuestion, Scored, SearchHits};
use crate::model::Metric;

/// Rows compared between two checks for cancellation.
pub(crate) const ROWS_BETWEEN_CHECKS: u64 = 1024;
/// Most questions to compare in one pass over the rows: they stay in the L1 cache while the rows are streamed.
pub const SCAN_BATCH: usize = 16;
/// Hits kept beyond twice `k` before those below the k-th best are dropped.
const SLACK: usize = 4096;

/// The `k` best rows, best first, *and all rows that tie with the last of them*, so that the caller can break ties by
/// key before it keeps `k`. With `allowed`, only those rows are compared; rows whose score is not a number are never
/// hits.
pub fn flat(
    rows: &(impl ExactRows + ?Sized),
    query: &[f32],
    k: usize,
    metric: Metric,
    allowed: Option<&NodeSet>,
) -> Vec<Scored> {
    exact_scan(rows, &[query], k, metric, allowed, |_| true)
        .pop()
        .unwrap_or_default()
        .hits
}

/// [`flat`] for several questions in one pass over the rows. `should_continue` is called at the start and then at
/// regular intervals, with the row that comes next; once it returns false, the scan is cancelled and returns no hits.
/// Memory does not grow with the number of rows.
pub fn exact_scan(
    rows: &(impl ExactRows + ?Sized),
    queries: &[&[f32]],
    k: usize,
    metric: Metric,
    allowed: Option<&NodeSet>,
    should_continue: impl Fn(u32) -> bool,
) -> Vec<SearchHits<Scored>> {
    let asked: Vec<_> = queries
        .iter()
        .map(|query| RowQuestion::new(rows, query, metric))
        .collect();
    let mut scans: Vec<Scan> = queries.iter().map(|_| Scan::new(k, rows.count(), SLACK)).collect();
    let (mut compared, mut damaged) = (0, false);
    // Compares one row; false where the scan was cancelled.
    let mut offer = |node: u32| {
        if u64::is_multiple_of(compared, ROWS_BETWEEN_CHECKS) && !should_continue(node) {
            return false;
        }
        compared += 1;
        for (question, scan) in asked.iter().zip(&mut scans) {
            let score = question.score(node);
            if score.is_nan() {
                damaged |= !rows.is_valid(node);
            } else if score >= scan.threshold {
                scan.add(Scored { node, score });
            }
        }
        true
    };
    let whole = k == 0
        || match allowed {
            None => (0..rows.count() as u32).all(&mut offer),
            Some(allowed) => allowed
                .iter()
                .filter(|node| (*node as usize) < rows.count())
                .all(&mut offer),
        };
    let completeness = match (whole, damaged) {
        (false, _) => Completeness::Cancelled,
        (true, true) => Completeness::Damaged,
        (true, false) => Completeness::Complete,
    };
    let cost = Cost {
        scored: compared,
        scans: 1,
        ..Cost::default()
    };
    let scans = scans.into_iter();
    scans
        .map(|scan| SearchHits {
            hits: if whole { scan.finish() } else { Vec::new() },
            cost,
            completeness,
        })
        .collect()
}

/// The best hits so far, and more that may be among them.
#[derive(Debug)]
pub(super) struct Scan {
    best: Vec<Scored>,
    k: usize,
    /// The score of the `k`-th best at the last compaction: no hit scores less.
    pub(super) threshold: f32,
    /// Hits beyond twice the kept ones at which the next compaction is due.
    slack: usize,
    compact_at: usize,
}

impl Scan {
    /// Of the `k` best of `rows`; with more `slack` it compacts less often, and its threshold is older.
    pub(super) fn new(k: usize, rows: usize, slack: usize) -> Self {
        Self {
            best: Vec::new(),
            k,
            threshold: f32::NEG_INFINITY,
            slack,
            compact_at: 2 * k.min(rows) + slack,
        }
    }

    /// Adds a hit that is not below the threshold.
    pub(super) fn add(&mut self, hit: Scored) {
        self.best.push(hit);
        if self.best.len() >= self.compact_at {
            self.compact();
            // Many may tie with the k-th best, and ties are kept.
            self.compact_at = 2 * self.best.len() + self.slack;
        }
    }

    /// Hits that are wanted.
    pub(super) fn max_hits(&self) -> usize {
        self.k
    }

    /// Drops all hits that score less than the `k`-th best.
    pub(super) fn compact(&mut self) {
        if self.k < self.best.len() {
            let last = self.best.select_nth_unstable_by(self.k - 1, |a, b| b.cmp(a)).1.score;
            self.best.retain(|hit| hit.score >= last);
            self.threshold = last;
        }
    }

    /// The `k` best, best first, and all that tie with the last of them.
    pub(super) fn finish(mut self) -> Vec<Scored> {
        self.compact();
        self.best.sort_unstable_by(|a, b| b.cmp(a));
        self.best
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use proptest::prelude::*;

    use super::*;
    use crate::rows::DenseRows;

    /// Row `i` has the score `self.0[i]`.
    struct Scores(Vec<f32>);

    impl ExactRows for Scores {
        fn count(&self) -> usize {
            self.0.len()
        }

        fn score(&self, node: u32, _query: &[f32], _metric: Metric) -> f32 {
            self.0[node as usize]
        }

        fn is_valid(&self, node: u32) -> bool {
            !self.0[node as usize].is_nan()
        }

        fn prefetch(&self, _node: u32) {}
    }

    proptest! {
        #[test]
        fn it_finds_what_sorting_all_finds(
            n in prop_oneof![0usize..50, 4_000usize..20_000],
            k in prop_oneof![0usize..5, 0usize..9_000],
            kinds in 1u32..2_000,
            seed: u32,
        ) {
            let number = |at: u32| (at ^ seed).wrapping_mul(0x9e37_79b9) >> 7;
            // The fewer kinds, the more ties; some scores are not numbers.
            let score = |at: u32| if number(at) % 11 == 3 { f32::NAN } else { (number(at) % kinds) as f32 };
            let rows = Scores((0..n as u32).map(score).collect());
            let mut all: Vec<Scored> = (0..n as u32).map(|node| Scored { node, score: score(node) }).collect();
            all.retain(|hit| !hit.score.is_nan());
            all.sort_by(|a, b| b.cmp(a));
            let last = k.checked_sub(1).and_then(|at| all.get(at)).map(|hit| hit.score);
            let as_good = |last: f32| all.iter().filter(|hit| hit.score >= last).count();
            let wanted = if k == 0 { 0 } else { last.map_or(all.len(), as_good) };
            prop_assert_eq!(flat(&rows, &[], k, Metric::Cosine, None), &all[..wanted]);
            let scanned = exact_scan(&rows, &[&[]], k, Metric::Cosine, None, |_| true).pop().unwrap_or_default();
            let damaged = k > 0 && rows.0.iter().any(|score| score.is_nan());
            prop_assert_eq!(scanned.completeness == Completeness::Damaged, damaged);
        }
    }

    #[test]
    fn a_cancelled_scan_ends_at_once_and_finds_nothing() {
        let rows = Scores(vec![1.0; 10_000]);
        let checks = AtomicU32::new(0);
        let cancelled = exact_scan(&rows, &[&[], &[]], 3, Metric::Cosine, None, |node| {
            assert_eq!(
                u64::from(node),
                u64::from(checks.load(Ordering::Relaxed)) * ROWS_BETWEEN_CHECKS
            );
            checks.fetch_add(1, Ordering::Relaxed) != 2
        });
        assert_eq!(cancelled.len(), 2);
        for hits in cancelled {
            assert!(hits.is_cancelled());
            assert_eq!((hits.hits.len(), hits.cost.total()), (0, 2 * ROWS_BETWEEN_CHECKS));
        }
        let whole = exact_scan(&rows, &[&[]], 3, Metric::Cosine, None, |_| true)
            .pop()
            .unwrap();
        assert_eq!(
            (whole.hits.len(), whole.cost.total(), whole.is_cancelled()),
            (10_000, 10_000, false)
        );
    }

    #[test]
    fn a_batched_scan_finds_what_single_scans_find() {
        let values: Vec<f32> = (0..4_000u32)
            .map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as f32 - 128.0)
            .collect();
        let rows = DenseRows::new(&values, 4);
        let mut allowed = NodeSet::new(1_000);
        allowed.extend((0..1_000).filter(|node| node % 3 != 1));
        let queries: Vec<&[f32]> = values.chunks(4).step_by(97).collect();
        for allowed in [None, Some(&allowed)] {
            let together = exact_scan(&rows, &queries, 7, Metric::L2, allowed, |_| true);
            assert_eq!(together.len(), queries.len());
            for (query, together) in queries.iter().zip(together) {
                assert_eq!(together.hits, flat(&rows, query, 7, Metric::L2, allowed));
            }
        }
    }
}
