//! Two rankings into one: weighted reciprocal ranks, or a weighted sum of normalised scores, of scores in their bounds,
//! or of log odds.
//!
//! | file | contents |
//! |---|---|
//! | `spread.rs` | lowest score and standard deviation of a ranking |
//! | `log_odds.rs` | what both scores of a question count in natural units of information |
//! | `exactness.rs` | how exactly hits have the words of a question |
//! | `bounded.rs` | both scores of hits, from 0 to 1 |
//!
//! ```
//! use dyad_index::FusionMethod;
//! use dyad_index::hybrid::{Bm25Ranking, Fusion};
//! use dyad_index::snapshot::DocumentHit;
//!
//! let keys = ["a", "b", "c"];
//! let hit = |node, score| DocumentHit { score, shard: 0, node };
//! let dense = [hit(0, 0.9), hit(1, 0.8)];
//! let bm25 = [hit(1, 7.5), hit(2, 3.0)];
//! let fusion = Fusion::with(FusionMethod::Rrf);
//! let fused = fusion.fuse(&dense, Bm25Ranking { hits: &bm25, exactness: &[] }, 10, |hit| keys[hit.node as usize]);
//! let order: Vec<&str> = fused.iter().map(|hit| keys[hit.node as usize]).collect();
//! assert_eq!(order, ["b", "a", "c"], "`b` is in both rankings");
//! ```

mod bounded;
mod exactness;
mod log_odds;
mod spread;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use log_odds::{LogOdds, SPREAD_HITS};
use spread::Spread;

use crate::fusion::{FusionMethod, FusionRecord};
use crate::manifest::Manifest;
use crate::model::Metric;
use crate::snapshot::DocumentHit;

pub use bounded::{bounded_bm25, bounded_dense, hits_of_both};
pub use exactness::exactness;

/// The constant of reciprocal rank fusion where none is given (Cormack, Clarke and Büttcher 2009).
pub const DEFAULT_RRF_K: u32 = 60;
/// Both rankings count the same: reciprocal rank fusion as published, and log odds as they are.
const DEFAULT_EVEN_WEIGHT: f64 = 0.5;
/// Without judgements. all-MiniLM-L6-v2 against the better of its two rankings, MRR and nDCG@10: quick start +.031
/// +.028, reqa-squad +.048 +.049, scifact +.030 +.026, nq-oracle +.009 +.009; with .6 or .8 at least one gains much
/// less. `dyad-bench quality --systems dense,bm25,hybrid`.
const DEFAULT_SUM_WEIGHT: f64 = 0.7;
/// The sum of a passage's BM25 and its document's, without judgements: +.010 to +.062 MRR on five sets,
/// `benches/records/fusion/README.md`, "BM25 of passages and of their documents".
const DEFAULT_DOCUMENT_WEIGHT: f64 = 1.0;
/// Weight of the BM25 score of the only document that holds the words of the question, in addition to that of the
/// ranking. Chosen on a half of reqa-squad, scifact (train), nq-oracle (dev) and rare words of the first two:
/// `benches/records/fusion/README.md`, "Rare words".
const EXACT: f64 = 5.0;

/// The BM25 ranking of a question.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bm25Ranking<'h> {
    /// Best first.
    pub hits: &'h [DocumentHit],
    /// Of each hit, how exactly it has the words of the question, from 0 to 1: `c² / n`, with the share `c` of the
    /// question's idf that falls to the terms that the hit holds, and the number `n` of documents that hold the rarest
    /// of these. 0 where absent.
    pub exactness: &'h [f32],
}

impl Bm25Ranking<'_> {
    /// Exactness of the hit at a position.
    fn exactness_at(&self, position: usize) -> f64 {
        self.exactness.get(position).copied().map_or(0.0, f64::from)
    }
}

/// How the dense and the BM25 ranking are fused, and how BM25 ranks passages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fusion {
    /// What is added up.
    pub method: FusionMethod,
    /// Weight of the dense ranking, 0 to 1; BM25 has the rest.
    pub dense_weight: f64,
    /// Constant of [`FusionMethod::Rrf`].
    pub rrf_k: u32,
    /// Weight of a document's BM25 in the BM25 scores of its passages, fused or not. Where the index has no documents,
    /// it says nothing.
    pub document_weight: f64,
    /// What a cosine of 1 counts in [`FusionMethod::LogOdds`], which needs it: [`Manifest::logit_scale`].
    pub logit_scale: Option<f64>,
}

impl Default for Fusion {
    fn default() -> Self {
        Self::with(FusionMethod::WeightedSum)
    }
}

impl Fusion {
    /// A method with its default weight, for an index that does not know its model's logit scale.
    pub fn with(method: FusionMethod) -> Self {
        let dense_weight = match method {
            FusionMethod::Rrf | FusionMethod::LogOdds => DEFAULT_EVEN_WEIGHT,
            FusionMethod::WeightedSum | FusionMethod::MinMax => DEFAULT_SUM_WEIGHT,
        };
        let (rrf_k, document_weight) = (DEFAULT_RRF_K, DEFAULT_DOCUMENT_WEIGHT);
        Self {
            method,
            dense_weight,
            rrf_k,
            document_weight,
            logit_scale: None,
        }
    }

    /// The default of an index: log odds where it knows its model's logit scale, else the weighted sum.
    pub fn default_of(manifest: &Manifest) -> Self {
        match manifest.logit_scale.filter(|_| manifest.model.metric == Metric::Cosine) {
            Some(scale) => Self {
                logit_scale: Some(scale),
                ..Self::with(FusionMethod::LogOdds)
            },
            None => Self::default(),
        }
    }

    /// What was learned for the index whose default this is. Of log odds, which need a logit scale, only the weight of
    /// documents where a generation of an earlier release, that was gone back to, has none.
    #[must_use]
    pub fn learned(self, record: &FusionRecord) -> Self {
        let document_weight = record.document_weight.unwrap_or(DEFAULT_DOCUMENT_WEIGHT);
        if record.method == FusionMethod::LogOdds && self.logit_scale.is_none() {
            return Self {
                document_weight,
                ..self
            };
        }
        Self {
            dense_weight: record.dense_weight,
            document_weight,
            ..self.by(record.method)
        }
    }

    /// Another method with its default weight, in the same index.
    #[must_use]
    pub fn by(self, method: FusionMethod) -> Self {
        Self {
            document_weight: self.document_weight,
            logit_scale: self.logit_scale,
            ..Self::with(method)
        }
    }

    /// Whether the index has what the method needs.
    pub fn can_fuse(&self) -> bool {
        self.method != FusionMethod::LogOdds || self.logit_scale.is_some()
    }

    /// Hits that each ranking must have, as far as there are, for the method.
    pub fn least_depth(&self) -> usize {
        if self.method == FusionMethod::LogOdds {
            SPREAD_HITS
        } else {
            0
        }
    }

    /// The same fusion with all the weight on one ranking where the other is missing: `has_dense` is false without a
    /// question vector, and `has_bm25` where the question has no terms.
    #[must_use]
    pub fn of_rankings(self, has_dense: bool, has_bm25: bool) -> Self {
        let dense_weight = match (has_dense, has_bm25) {
            (true, true) => self.dense_weight,
            (true, false) => 1.0,
            (false, _) => 0.0,
        };
        Self { dense_weight, ..self }
    }

    /// Fuses two rankings, each best first, and keeps the `take` best; their scores are the sums. Ties go to the
    /// smaller key, which is looked up only for them.
    ///
    /// With `w` the dense weight, a document's sum over its rankings is
    /// - [`FusionMethod::Rrf`]: `2 w / (rrf_k + rank)`, and `2 (1 - w)` for BM25: with `w = 0.5` the published formula;
    /// - [`FusionMethod::WeightedSum`]: `w z`, and `(1 - w + 5 x) z` for BM25, with `z = (score - lowest) / deviation`,
    ///   of the lowest score and the standard deviation of that ranking, and `x` the hit's [`Bm25Ranking::exactness`]:
    ///   a vector knows little of an identifier or a name, and the document that holds it comes first. `x` is left out
    ///   where all the weight is on one ranking, which keeps its order. A document that a ranking does not hold counts
    ///   as its lowest;
    /// - [`FusionMethod::LogOdds`]: both scores in nats, as `log_odds.rs` says. A document that a ranking does not hold
    ///   counts there as its lowest;
    /// - [`FusionMethod::MinMax`]: `w score`, and `1 - w` for BM25: of rankings that both hold every document, with
    ///   scores from 0 to 1. `x` brings the sum `m` nearer to 1, as `m + x (1 - m)`, and is left out as above.
    ///
    /// A document that BM25 does not return holds no term of the question: its score is 0. So where BM25 returns fewer
    /// documents than the dense ranking, zeros take the place of the rest in its lowest score and its deviation, and
    /// the only document that holds an identifier stands out by `z = 10` among 100. The dense ranking lacks documents
    /// only where it is as long as was asked: one that a filter makes short holds all that the filter allows.
    pub fn fuse<'k>(
        &self,
        dense: &[DocumentHit],
        bm25: Bm25Ranking<'_>,
        take: usize,
        key: impl Fn(&DocumentHit) -> &'k str,
    ) -> Vec<DocumentHit> {
        let (dense_spread, bm25_spread) = (
            Spread::measure(dense, dense.len()),
            Spread::measure(bm25.hits, dense.len()),
        );
        let mut sums = FusedSums::with_capacity(dense.len() + bm25.hits.len());
        if self.method == FusionMethod::LogOdds {
            let odds = LogOdds::new(self.logit_scale.unwrap_or_default(), self.dense_weight, dense);
            let absent = (odds.dense(dense_spread.lowest), odds.bm25(bm25_spread.lowest, 0.0));
            sums.of_absent = absent.0 + absent.1;
            sums.add(dense, |_, place| odds.dense(f64::from(place.score)) - absent.0);
            sums.add(bm25.hits, |position, place| {
                odds.bm25(f64::from(place.score), bm25.exactness_at(position)) - absent.1
            });
        } else {
            sums.add(dense, |_, place| self.dense_weight * self.part(place, &dense_spread));
            let bm25_weight = |position: usize| 1.0 - self.dense_weight + self.exact_weight(bm25, position);
            sums.add(bm25.hits, |position, place| {
                bm25_weight(position) * self.part(place, &bm25_spread)
            });
        }
        if self.method == FusionMethod::MinMax && self.has_both() {
            sums.bring_nearer_to_one(bm25);
        }
        let mut fused = sums.fused;
        // Sums are compared in f64: two documents whose sums differ are never tied by rounding to f32.
        fused.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then_with(|| key(&a.1).cmp(key(&b.1))));
        fused
            .into_iter()
            .take(take)
            .map(|(sum, hit)| DocumentHit {
                score: sum as f32,
                ..hit
            })
            .collect()
    }

    /// Whether both rankings have weight.
    fn has_both(&self) -> bool {
        self.dense_weight > 0.0 && self.dense_weight < 1.0
    }

    /// The weight that a BM25 hit has for its exactness.
    fn exact_weight(&self, ranking: Bm25Ranking<'_>, position: usize) -> f64 {
        let counts = self.method == FusionMethod::WeightedSum && self.has_both();
        if counts {
            EXACT * ranking.exactness_at(position)
        } else {
            0.0
        }
    }

    /// What a hit of a ranking adds at weight 1.
    fn part(&self, RankedScore { rank, score }: RankedScore, spread: &Spread) -> f64 {
        match self.method {
            FusionMethod::Rrf => 2.0 / (f64::from(self.rrf_k) + f64::from(rank)),
            FusionMethod::MinMax => f64::from(score),
            // Log odds are added by `LogOdds`.
            FusionMethod::WeightedSum | FusionMethod::LogOdds => spread.above_lowest(score),
        }
    }
}

/// The place of a hit in a ranking, from 1, and its score there.
#[derive(Debug, Clone, Copy)]
struct RankedScore {
    rank: u32,
    score: f32,
}

/// Sums of documents, in the order in which they were met.
struct FusedSums {
    /// What a document counts before a ranking that holds it is added.
    of_absent: f64,
    place_of: HashMap<(usize, u32), usize>,
    fused: Vec<(f64, DocumentHit)>,
}

impl FusedSums {
    fn with_capacity(hits: usize) -> Self {
        Self {
            of_absent: 0.0,
            place_of: HashMap::with_capacity(hits),
            fused: Vec::with_capacity(hits),
        }
    }

    /// Adds what each hit of a ranking counts, by its position and its place.
    fn add(&mut self, ranking: &[DocumentHit], part: impl Fn(usize, RankedScore) -> f64) {
        for (position, hit) in ranking.iter().enumerate() {
            let place = RankedScore {
                rank: position as u32 + 1,
                score: hit.score,
            };
            let at = *self.place_of.entry((hit.shard, hit.node)).or_insert(self.fused.len());
            if at == self.fused.len() {
                self.fused.push((self.of_absent, *hit));
            }
            if let Some((sum, _)) = self.fused.get_mut(at) {
                *sum += part(position, place);
            }
        }
    }

    /// Of the sum `m` of a hit and its exactness `x`: `m + x (1 - m)`.
    fn bring_nearer_to_one(&mut self, ranking: Bm25Ranking<'_>) {
        for (hit, exactness) in ranking.hits.iter().zip(ranking.exactness) {
            let at = self.place_of.get(&(hit.shard, hit.node));
            if let Some((sum, _)) = at.and_then(|at| self.fused.get_mut(*at)) {
                *sum += f64::from(*exactness) * (1.0 - *sum);
            }
        }
    }
}
