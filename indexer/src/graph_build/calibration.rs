//! Scores of questions by rank, from which margins are made, and what certificates have in common.

use dyad_index::certificate::RARE;
use dyad_index::{Metric, RankScore, Scored};

/// Deepest rank whose score is measured.
pub const DEEPEST_RANK: usize = 2_048;
/// Makes the sample of documents differ from the first nodes in the order of insertion.
pub(super) const SAMPLE_SEED: u64 = 0x5EED_CE27;

/// What the scores of a question are divided by, so that they do not depend on its length: the length itself, where
/// they are inner products.
pub(super) fn score_length(row: &[f32], metric: Metric) -> f32 {
    match metric {
        Metric::Dot => row.iter().map(|value| value * value).sum::<f32>().sqrt(),
        Metric::Cosine | Metric::L2 => 1.0,
    }
}

/// Exact scores at ranks 1, 2, 4 and so on, up to `depth`, of questions of these lengths.
pub(super) fn calibrate_ranks(exact: &[Vec<Scored>], lengths: &[f32], depth: usize) -> Vec<RankScore> {
    let ranks = std::iter::successors(Some(1), |rank| Some(rank * 2)).take_while(|rank| *rank <= depth);
    let at = |rank: usize| -> RankScore {
        // A question of no length has no nearest documents.
        let known = exact.iter().zip(lengths).filter(|(_, length)| **length > 0.0);
        let score = |(hits, length): (&Vec<Scored>, &f32)| Some(f64::from(hits.get(rank - 1)?.score / length));
        let mut scores: Vec<f64> = known.filter_map(score).collect();
        let mean = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
        scores.sort_unstable_by(f64::total_cmp);
        let rare = (scores.len() as f64 * RARE) as usize;
        RankScore {
            rank,
            score: mean,
            low: scores.get(rare).copied().unwrap_or(mean),
        }
    };
    ranks.map(at).collect()
}

/// Slots by node.
pub(super) fn invert_order(order: &[u32]) -> Vec<u32> {
    let mut slots = vec![0; order.len()];
    for (slot, node) in order.iter().enumerate() {
        if let Some(place) = slots.get_mut(*node as usize) {
            *place = slot as u32;
        }
    }
    slots
}
