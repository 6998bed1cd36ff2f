//! The order of hits that a cross encoder has scored: its logits added to scores that are in the same unit, or alone.
//!
//! A cross encoder learns by a softmax over the candidates of a question, so that its logits are log odds up to a
//! constant, as the fused scores of [`FusionMethod::LogOdds`] are: the sum of both is the log odds by two sources of
//! evidence. Alone it forgets what the two rankings know, which costs most where it was trained on other texts.
//! `benches/README.md`, "A cross encoder", has the figures.

use dyad_index::FusionMethod;

use super::Fusion;

/// Weight of the logits next to fused scores in nats, where nothing else was learned: over 17 collections, three of
/// them of kinds that the cross encoder was trained on, it gains .003 nDCG@10 in the mean and loses .020 at most; alone
/// it loses .062 and .153 (`benches/README.md`, "A cross encoder").
pub const DEFAULT_RERANK_WEIGHT: f64 = 0.3;
/// Weights that are tried where one is learned: the default first.
pub const RERANK_WEIGHTS: [f64; 10] = [DEFAULT_RERANK_WEIGHT, 0.4, 0.2, 0.5, 0.1, 0.6, 0.7, 0.8, 0.9, 1.0];
/// Of rankings whose scores have another unit: the logits alone.
pub const LOGITS_ALONE: f64 = 1.0;

/// Whether the logits of a cross encoder can be added to the scores of a ranking.
pub fn adds_logits(fusion: Option<&Fusion>) -> bool {
    fusion.is_some_and(|fusion| fusion.method == FusionMethod::LogOdds)
}

/// What a hit counts by the score of its ranking and its logit.
pub fn weighted(score: f32, logit: f32, weight: f64) -> f64 {
    let (score, logit) = (f64::from(score), f64::from(logit));
    // A weight of 1 leaves scores out, whatever they are.
    if weight >= LOGITS_ALONE {
        logit
    } else {
        (1.0 - weight) * score + weight * logit
    }
}

/// The order of hits by their scores and logits, best first: positions. Of equal ones the better ranked first.
pub fn order(scores: &[f32], logits: &[f32], weight: f64) -> Vec<usize> {
    let sums: Vec<f64> = scores
        .iter()
        .zip(logits)
        .map(|(score, logit)| weighted(*score, *logit, weight))
        .collect();
    let sum = |position: &usize| sums.get(*position).copied().unwrap_or(f64::NEG_INFINITY);
    let mut positions: Vec<usize> = (0..sums.len()).collect();
    positions.sort_by(|one, other| sum(other).total_cmp(&sum(one)));
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_moves_the_order_from_the_ranking_to_the_cross_encoder() {
        let (scores, logits) = ([3.0, 2.0, 1.5, 1.0], [-1.0, 2.0, -4.0, 2.5]);
        for (weight, expected) in [
            (0.0, [0, 1, 2, 3]),
            (0.1, [0, 1, 3, 2]),
            (0.3, [1, 0, 3, 2]),
            (0.5, [1, 3, 0, 2]),
            (0.9, [3, 1, 0, 2]),
            (1.0, [3, 1, 0, 2]),
        ] {
            assert_eq!(order(&scores, &logits, weight), expected, "{weight}");
        }
        assert_eq!(
            order(&scores, &[1.0; 4], 1.0),
            [0, 1, 2, 3],
            "equal ones keep their order"
        );
        // A score that is no number, as one of a damaged index may be, is left out with all the weight on the other.
        assert_eq!(order(&[f32::NAN, 1.0], &[1.0, 2.0], 1.0), [1, 0]);
        assert!((weighted(3.0, -1.0, 0.25) - 2.0).abs() < 1e-12);
        assert!(RERANK_WEIGHTS.contains(&LOGITS_ALONE) && (RERANK_WEIGHTS[0] - DEFAULT_RERANK_WEIGHT).abs() < 1e-12);
    }
}
