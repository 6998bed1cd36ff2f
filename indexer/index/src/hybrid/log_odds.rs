//! What the scores of a question count in natural units of information (nats), so that a ranking counts the more the
//! surer it is.
//!
//! A dual encoder is trained with a softmax over cosines times its logit scale `s`, so `s cosine` is a log odds up to a
//! constant, and BM25 is a sum of log odds (Robertson and Zaragoza 2009). Normalised scores, such as z-scores, have
//! lost that: the best of a hundred passages none of which has the words of the question stands out as far as one that
//! has them all.
//!
//! The constants were found on 77 sets of questions (20 collections, 8 languages; questions as they were written,
//! shortened, misspelt, of rare words alone) with all-MiniLM-L6-v2, and tried on 16 other sets and six other models:
//! `benches/records/fusion/README.md`, "The default fusion".

use crate::snapshot::DocumentHit;

use super::spread::Spread;

/// Hits of the dense ranking whose cosines say how sure it is.
pub(super) const SPREAD_HITS: usize = 100;
/// Nats of a cosine of 1, over the logit scale.
const DENSE: f64 = 0.884;
/// Standard deviation of the best cosines, in nats before [`DENSE`], from which on the dense ranking counts in full.
/// That of a question that the model does not know, such as one in another language or a code, is lower, and what is
/// left of it is noise.
const SURE: f64 = 1.244;
/// Nats of a BM25 score, and in addition those of one that is exact.
const BM25: Bm25Weights = Bm25Weights { any: 0.125, exact: 1.5 };
/// The same next to a dense ranking of fewer hits, which does not say how sure it is.
const BM25_NEXT_TO_FEW: Bm25Weights = Bm25Weights { any: 0.2, exact: 3.0 };

#[derive(Debug, Clone, Copy)]
struct Bm25Weights {
    any: f64,
    exact: f64,
}

/// The weights of a question's two scores.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogOdds {
    /// Nats of a cosine of 1.
    cosine: f64,
    /// Nats of a BM25 score of 1.
    bm25: Bm25Weights,
    /// What a hit that is exact counts besides: three times as much as the nearest document is ahead of the last one.
    /// So the only document with a rare word of the question is first, however sure the dense ranking is of others.
    exact_hit: f64,
}

/// Of the distance between the first and the last cosine, what a hit of exactness 1 counts; others count as much as the
/// square of theirs.
const EXACT_RANGES: f64 = 3.0;

impl LogOdds {
    /// For the dense ranking of a question, best first, by a model of this logit scale. With the dense weight `w` of
    /// the fusion, cosines count `min(1, w / (1 - w))` and BM25 `min(1, (1 - w) / w)` of what they do at `w = 0.5`.
    /// What a hit counts for its exactness does not depend on `w`, so that every learned weight finds rare words; with
    /// all the weight on one ranking, which keeps its order, it is left out.
    pub(super) fn new(scale: f64, dense_weight: f64, dense: &[DocumentHit]) -> Self {
        let (sureness, weights) = match dense.get(..SPREAD_HITS) {
            Some(best) => (
                (scale * Spread::measure(best, best.len()).deviation / SURE)
                    .powi(2)
                    .min(1.0),
                BM25,
            ),
            None => (1.0, BM25_NEXT_TO_FEW),
        };
        let bm25_weight = 1.0 - dense_weight;
        // Of the larger weight, which is at least a half.
        let larger = dense_weight.max(bm25_weight);
        let (dense_share, bm25_share) = (dense_weight / larger, bm25_weight / larger);
        let has_both = dense_weight > 0.0 && bm25_weight > 0.0;
        let exact = if has_both { weights.exact } else { 0.0 };
        let cosine = dense_share * DENSE * scale * sureness;
        let ends = dense.first().zip(dense.last()).filter(|_| has_both);
        let range = ends.map_or(0.0, |(best, last)| f64::from(best.score) - f64::from(last.score));
        Self {
            cosine,
            bm25: Bm25Weights {
                any: bm25_share * weights.any,
                exact,
            },
            exact_hit: EXACT_RANGES * cosine * range,
        }
    }

    /// Nats of a cosine.
    pub(super) fn dense(&self, cosine: f64) -> f64 {
        self.cosine * cosine
    }

    /// Nats of a BM25 score of this exactness, from 0 to 1.
    pub(super) fn bm25(&self, score: f64, exactness: f64) -> f64 {
        let by_words = (self.bm25.any + self.bm25.exact * exactness) * score;
        by_words + exactness.powi(2) * self.exact_hit
    }
}
