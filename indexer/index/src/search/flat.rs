//! The exact scan: the oracle of every other search, and the mode `exact`.

use super::{ExactRows, NodeSet, Scored};
use crate::model::Metric;

/// The `k` best rows, best first, *and all rows that tie with the last of them*, so that the caller can break ties by
/// key before it cuts at `k`. Only rows of `passing`, where that is given; rows whose score is not a number are no hits.
pub fn flat(
    rows: &(impl ExactRows + ?Sized),
    query: &[f32],
    k: usize,
    metric: Metric,
    passing: Option<&NodeSet>,
) -> Vec<Scored> {
    let score = |node| Scored { node, score: rows.score(node, query, metric) };
    let mut scored: Vec<Scored> = match passing {
        None => (0..rows.count() as u32).map(score).collect(),
        Some(passing) => passing.iter().filter(|node| (*node as usize) < rows.count()).map(score).collect(),
    };
    // A damaged row; the order of hits would put it first.
    scored.retain(|hit| !hit.score.is_nan());
    let k = k.min(scored.len());
    if k == 0 {
        return Vec::new();
    }
    if k < scored.len() {
        let last = scored.select_nth_unstable_by(k - 1, |a, b| b.cmp(a)).1.score;
        scored.retain(|hit| hit.score >= last);
    }
    scored.sort_unstable_by(|a, b| b.cmp(a));
    scored
}
