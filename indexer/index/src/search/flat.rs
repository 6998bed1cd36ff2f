//! The exact scan: the oracle of every other search, and the mode `exact`.

use super::{ExactRows, NodeSet, Scored};
use crate::model::Metric;

/// Rows compared between two looks at whether to go on.
pub(crate) const ROWS_BETWEEN_LOOKS: u64 = 1024;
/// Hits that wait beyond twice `k` before the worst are dropped.
const WAITING: usize = 4096;

/// The `k` best rows, best first, *and all rows that tie with the last of them*, so that the caller can break ties by
/// key before it cuts at `k`. Only rows of `passing`, where that is given; rows whose score is not a number are no hits.
pub fn flat(
    rows: &(impl ExactRows + ?Sized),
    query: &[f32],
    k: usize,
    metric: Metric,
    passing: Option<&NodeSet>,
) -> Vec<Scored> {
    flat_until(rows, query, k, metric, passing, |_| true).hits
}

/// What an exact scan found, and what it cost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scanned {
    /// As [`flat`] gives them; none where it was stopped.
    pub(crate) hits: Vec<Scored>,
    /// Rows compared.
    pub(crate) compared: u64,
    /// `go_on` said so.
    pub(crate) stopped: bool,
}

/// [`flat`] that asks at its start, and now and then, whether to go on, and says at which row. Its memory does not grow with
/// the rows.
pub(crate) fn flat_until(
    rows: &(impl ExactRows + ?Sized),
    query: &[f32],
    k: usize,
    metric: Metric,
    passing: Option<&NodeSet>,
    go_on: impl Fn(u32) -> bool,
) -> Scanned {
    let mut scan = Scan { best: Vec::new(), k, floor: f32::NEG_INFINITY, most: 2 * k.min(rows.count()) + WAITING };
    let mut compared = 0;
    // Whether the scan goes on.
    let mut offer = |node: u32| {
        if u64::is_multiple_of(compared, ROWS_BETWEEN_LOOKS) && !go_on(node) {
            return false;
        }
        compared += 1;
        scan.offer(Scored { node, score: rows.score(node, query, metric) });
        true
    };
    let whole = k == 0
        || match passing {
            None => (0..rows.count() as u32).all(&mut offer),
            Some(passing) => passing.iter().filter(|node| (*node as usize) < rows.count()).all(&mut offer),
        };
    let hits = if whole { scan.finish() } else { Vec::new() };
    Scanned { hits, compared, stopped: !whole }
}

/// The best so far, and some that may be among them.
struct Scan {
    best: Vec<Scored>,
    k: usize,
    /// The score of the `k`-th best when the worse were last dropped.
    floor: f32,
    most: usize,
}

impl Scan {
    fn offer(&mut self, hit: Scored) {
        // False for a damaged row, whose score is not a number.
        if hit.score >= self.floor {
            self.best.push(hit);
            if self.best.len() >= self.most {
                self.drop_worse();
                // Many may tie with the last.
                self.most = 2 * self.best.len() + WAITING;
            }
        }
    }

    fn drop_worse(&mut self) {
        if self.k < self.best.len() {
            let last = self.best.select_nth_unstable_by(self.k - 1, |a, b| b.cmp(a)).1.score;
            self.best.retain(|hit| hit.score >= last);
            self.floor = last;
        }
    }

    fn finish(mut self) -> Vec<Scored> {
        self.drop_worse();
        self.best.sort_unstable_by(|a, b| b.cmp(a));
        self.best
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use proptest::prelude::*;

    use super::*;

    /// Row `i` has the score `self.0[i]`.
    struct Scores(Vec<f32>);

    impl ExactRows for Scores {
        fn count(&self) -> usize {
            self.0.len()
        }

        fn score(&self, node: u32, _query: &[f32], _metric: Metric) -> f32 {
            self.0[node as usize]
        }

        fn prefetch(&self, _node: u32) {}
    }

    proptest! {
        #[test]
        fn it_finds_what_sorting_all_finds(
            n in prop_oneof![0usize..50, 4_000usize..20_000], k in prop_oneof![0usize..5, 0usize..9_000], kinds in 1u32..2_000, seed: u32,
        ) {
            let number = |at: u32| (at ^ seed).wrapping_mul(0x9e37_79b9) >> 7;
            // Few kinds are many ties; some scores are not numbers.
            let score = |at: u32| if number(at) % 11 == 3 { f32::NAN } else { (number(at) % kinds) as f32 };
            let rows = Scores((0..n as u32).map(score).collect());
            let mut all: Vec<Scored> = (0..n as u32).map(|node| Scored { node, score: score(node) }).collect();
            all.retain(|hit| !hit.score.is_nan());
            all.sort_by(|a, b| b.cmp(a));
            let last = k.checked_sub(1).and_then(|at| all.get(at)).map(|hit| hit.score);
            let wanted = if k == 0 { 0 } else { last.map_or(all.len(), |last| all.iter().filter(|hit| hit.score >= last).count()) };
            prop_assert_eq!(flat(&rows, &[], k, Metric::Cosine, None), &all[..wanted]);
        }
    }

    #[test]
    fn a_stopped_scan_ends_at_once_and_finds_nothing() {
        let rows = Scores(vec![1.0; 10_000]);
        let asked = AtomicU32::new(0);
        let scanned = flat_until(&rows, &[], 3, Metric::Cosine, None, |node| {
            assert_eq!(u64::from(node), u64::from(asked.load(Ordering::Relaxed)) * ROWS_BETWEEN_LOOKS);
            asked.fetch_add(1, Ordering::Relaxed) != 2
        });
        assert_eq!((scanned.hits.len(), scanned.compared, scanned.stopped), (0, 2 * ROWS_BETWEEN_LOOKS, true));
        let whole = flat_until(&rows, &[], 3, Metric::Cosine, None, |_| true);
        assert_eq!((whole.hits.len(), whole.compared, whole.stopped), (10_000, 10_000, false));
    }
}
