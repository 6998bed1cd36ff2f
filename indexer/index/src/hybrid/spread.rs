//! How the scores of a ranking lie.

use crate::snapshot::DocumentHit;

/// Lowest score, mean and standard deviation of a ranking.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    pub(super) lowest: f64,
    mean: f64,
    pub(super) deviation: f64,
}

impl Spread {
    /// Of a ranking, best first, continued with zeros to `documents`.
    pub(super) fn measure(ranking: &[DocumentHit], documents: usize) -> Self {
        let zeros = documents.saturating_sub(ranking.len());
        let count = (ranking.len() + zeros).max(1) as f64;
        let mean = ranking.iter().map(|hit| f64::from(hit.score)).sum::<f64>() / count;
        let squares = ranking
            .iter()
            .map(|hit| (f64::from(hit.score) - mean).powi(2))
            .sum::<f64>();
        let variance = (squares + zeros as f64 * mean * mean) / count;
        let lowest = ranking
            .last()
            .filter(|_| zeros == 0)
            .map_or(0.0, |hit| f64::from(hit.score));
        Self {
            lowest,
            mean,
            deviation: variance.sqrt(),
        }
    }

    /// How far a score is above the lowest, in standard deviations.
    pub(super) fn above_lowest(&self, score: f32) -> f64 {
        let Self {
            lowest,
            mean,
            deviation,
        } = *self;
        // All scores are equal: to be in the ranking is all that it says.
        if deviation <= f64::EPSILON * mean.abs() {
            1.0
        } else {
            (f64::from(score) - lowest) / deviation
        }
    }
}
