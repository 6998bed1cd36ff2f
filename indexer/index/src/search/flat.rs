//! The exact scan: the oracle of every other search, and the mode `exact`.

use super::{Scored, VectorRows};
use crate::kernels::kernels;

/// The `k` best rows by inner product, best first, *and all rows that tie with the last of them*, so that the
/// caller can break ties by key before it cuts at `k`.
pub fn flat(rows: &(impl VectorRows + ?Sized), query: &[f32], k: usize) -> Vec<Scored> {
    let dot = kernels().dot;
    let mut scored: Vec<Scored> =
        (0..rows.len() as u32).map(|node| Scored { node, score: dot(query, rows.row(node)) }).collect();
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
