//! Which links a node keeps when it has more candidates than it may hold.

use dyad_index::kernels;
use dyad_index::search::VectorRows;

/// Keeps at most `cap` of `candidates` for `node`: the nearest ones that are nearer to `node` than to any link kept
/// before (Malkov and Yashunin 2018, algorithm 4), then the nearest of the rejected ones, so that no slot stays empty.
///
/// Candidates must be distinct and not `node` itself. The result is ordered by (score descending, node ascending).
pub fn select(rows: &dyn VectorRows, node: u32, candidates: &[u32], cap: usize) -> Vec<u32> {
    let row = rows.row(node);
    let mut scored: Vec<(f32, u32)> = candidates
        .iter()
        .map(|&candidate| (kernels::dot(row, rows.row(candidate)), candidate))
        .collect();
    scored.sort_unstable_by(|left, right| nearest_first(*left, *right));
    if scored.len() > cap {
        scored = diverse(rows, &scored, cap);
    }
    scored.into_iter().map(|(_, candidate)| candidate).collect()
}

fn nearest_first(left: (f32, u32), right: (f32, u32)) -> std::cmp::Ordering {
    right.0.total_cmp(&left.0).then(left.1.cmp(&right.1))
}

fn diverse(rows: &dyn VectorRows, sorted: &[(f32, u32)], cap: usize) -> Vec<(f32, u32)> {
    let mut kept: Vec<(f32, u32)> = Vec::with_capacity(cap);
    let mut rejected = Vec::new();
    for &(score, candidate) in sorted {
        if kept.len() == cap {
            break;
        }
        let row = rows.row(candidate);
        if kept
            .iter()
            .all(|&(_, other)| kernels::dot(row, rows.row(other)) < score)
        {
            kept.push((score, candidate));
        } else if rejected.len() < cap {
            rejected.push((score, candidate));
        }
    }
    let free = cap - kept.len();
    kept.extend(rejected.into_iter().take(free));
    kept.sort_unstable_by(|left, right| nearest_first(*left, *right));
    kept
}
