//! Which links a node keeps, by int8 codes.

use dyad_index::quant::{CodesView, PreparedQuery};
use dyad_index::search::Scored;

/// Keeps at most `cap` of `candidates`, which come best first: those that are nearer to the node than to any link kept
/// before (Malkov and Yashunin 2018, algorithm 4). With `fill`, free places go to the best of the rejected ones.
pub(super) fn select_diverse(
    codes: &CodesView<'_>,
    candidates: &[Scored],
    cap: usize,
    fill: bool,
    prepared: &mut PreparedQuery,
) -> Vec<Scored> {
    let mut kept: Vec<Scored> = Vec::with_capacity(cap);
    let mut rejected = Vec::new();
    for candidate in candidates {
        if kept.len() == cap {
            break;
        }
        codes.prepare_exact(candidate.node, prepared);
        if !kept
            .iter()
            .any(|link| codes.score(prepared, link.node) >= candidate.score)
        {
            kept.push(*candidate);
        } else if rejected.len() < cap {
            rejected.push(*candidate);
        }
    }
    if fill {
        let free = cap - kept.len();
        kept.extend(rejected.into_iter().take(free));
        kept.sort_unstable_by(|a, b| b.cmp(a));
    }
    kept
}
