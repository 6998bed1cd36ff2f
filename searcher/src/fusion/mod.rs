//! Two rankings into one: weighted reciprocal ranks, or a weighted sum of normalised scores or of scores in their bounds.
//!
//! | file | contents |
//! |---|---|
//! | `learn.rs` | learns method and weight from judged questions |

pub mod learn;

use std::collections::HashMap;

use dyad_index::snapshot::Hit;
use dyad_index::{FusionMethod, FusionRecord};

/// The constant of reciprocal rank fusion where none is given (Cormack, Clarke and Büttcher 2009).
pub const DEFAULT_RRF_K: u32 = 60;
/// Both rankings count the same: reciprocal rank fusion as published.
const DEFAULT_RRF_WEIGHT: f64 = 0.5;
/// Without judgements. all-MiniLM-L6-v2 against the better of its two rankings, MRR and nDCG@10: quick start +.031 +.028,
/// reqa-squad +.048 +.049, scifact +.030 +.026, nq-oracle +.009 +.009; with .6 or .8 at least one of them gains much less.
/// `dyad-bench quality --systems dense,bm25,hybrid`, `benches/README.md`.
const DEFAULT_SUM_WEIGHT: f64 = 0.7;

/// A document's place in one ranking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// From 1.
    pub rank: u32,
    /// In that ranking's unit.
    pub score: f32,
}

/// How the dense and the BM25 ranking are fused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fusion {
    /// What is added.
    pub method: FusionMethod,
    /// Weight of the dense ranking, 0 to 1; BM25 has the rest.
    pub dense_weight: f64,
    /// Constant of [`FusionMethod::Rrf`].
    pub rrf_k: u32,
}

impl Default for Fusion {
    fn default() -> Self {
        Self::with(FusionMethod::WeightedSum)
    }
}

impl From<&FusionRecord> for Fusion {
    fn from(learned: &FusionRecord) -> Self {
        Self { dense_weight: learned.dense_weight, ..Self::with(learned.method) }
    }
}

impl Fusion {
    /// A method with its default weight.
    pub fn with(method: FusionMethod) -> Self {
        let dense_weight = match method {
            FusionMethod::Rrf => DEFAULT_RRF_WEIGHT,
            FusionMethod::WeightedSum | FusionMethod::MinMax => DEFAULT_SUM_WEIGHT,
        };
        Self { method, dense_weight, rrf_k: DEFAULT_RRF_K }
    }

    /// Fuses two rankings, each best first, and keeps the `take` best; their scores are the sums. Ties go to the smaller key,
    /// which is looked up only for them.
    ///
    /// With `w` the dense weight, a document's sum over its rankings is
    /// - [`FusionMethod::Rrf`]: `2 w / (rrf_k + rank)`, and `2 (1 - w)` for BM25: with `w = 0.5` the published formula;
    /// - [`FusionMethod::WeightedSum`]: `w (score - lowest) / deviation`, and `1 - w` for BM25, with the lowest score and the
    ///   standard deviation of that ranking. A document that it does not hold counts as its lowest;
    /// - [`FusionMethod::MinMax`]: `w score`, and `1 - w` for BM25: of rankings that both hold every document, with scores from 0 to 1.
    pub fn fuse<'k>(&self, dense: &[Hit], bm25: &[Hit], take: usize, key: impl Fn(&Hit) -> &'k str) -> Vec<Hit> {
        let mut place_of: HashMap<(usize, u32), usize> = HashMap::with_capacity(dense.len() + bm25.len());
        let mut fused: Vec<(f64, Hit)> = Vec::with_capacity(dense.len() + bm25.len());
        for (ranking, weight) in [(dense, self.dense_weight), (bm25, 1.0 - self.dense_weight)] {
            let part = self.part(ranking);
            for (rank, hit) in (1u32..).zip(ranking) {
                let at = *place_of.entry((hit.shard, hit.node)).or_insert(fused.len());
                if at == fused.len() {
                    fused.push((0.0, *hit));
                }
                if let Some((sum, _)) = fused.get_mut(at) {
                    *sum += weight * part(rank, hit.score);
                }
            }
        }
        // Sums are compared in f64: two documents whose sums differ are never tied by rounding to f32.
        fused.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then_with(|| key(&a.1).cmp(key(&b.1))));
        fused.into_iter().take(take).map(|(sum, hit)| Hit { score: sum as f32, ..hit }).collect()
    }

    /// What a hit of a ranking adds at weight 1, by rank and score.
    fn part(&self, ranking: &[Hit]) -> impl Fn(u32, f32) -> f64 + use<> {
        let &Self { method, rrf_k, .. } = self;
        let count = ranking.len().max(1) as f64;
        let mean = ranking.iter().map(|hit| f64::from(hit.score)).sum::<f64>() / count;
        let variance = ranking.iter().map(|hit| (f64::from(hit.score) - mean).powi(2)).sum::<f64>() / count;
        let lowest = ranking.last().map_or(0.0, |hit| f64::from(hit.score));
        let deviation = variance.sqrt();
        move |rank, score| match method {
            FusionMethod::Rrf => 2.0 / (f64::from(rrf_k) + f64::from(rank)),
            FusionMethod::MinMax => f64::from(score),
            // All scores are equal: to be in the ranking is all that it says.
            FusionMethod::WeightedSum if deviation <= f64::EPSILON * mean.abs() => 1.0,
            FusionMethod::WeightedSum => (f64::from(score) - lowest) / deviation,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEYS: [&str; 4] = ["a", "b", "c", "d"];

    fn ranking(hits: &[(&str, f32)]) -> Vec<Hit> {
        let node = |key: &str| KEYS.iter().position(|other| *other == key).unwrap() as u32;
        hits.iter().map(|(key, score)| Hit { score: *score, shard: 0, node: node(key) }).collect()
    }

    fn fuse(fusion: &Fusion, dense: &[(&str, f32)], bm25: &[(&str, f32)]) -> Vec<(&'static str, f32)> {
        let key = |hit: &Hit| KEYS[hit.node as usize];
        let fused = fusion.fuse(&ranking(dense), &ranking(bm25), 10, key);
        fused.iter().map(|hit| (key(hit), hit.score)).collect()
    }

    #[test]
    fn reciprocal_ranks_by_hand() {
        let rrf = Fusion::with(FusionMethod::Rrf);
        let (first, second, third) = (1.0 / 61.0, 1.0 / 62.0, 1.0 / 63.0);
        let (dense, bm25) = ([("a", 10.0), ("b", 9.0), ("c", 8.0)], [("c", 10.0), ("d", 9.0)]);
        assert_eq!(
            fuse(&rrf, &dense, &bm25),
            [("c", (first + third) as f32), ("a", first as f32), ("b", second as f32), ("d", second as f32)]
        );
        let weighted = Fusion { dense_weight: 0.75, rrf_k: 0, ..rrf };
        assert_eq!(fuse(&weighted, &dense, &bm25), [("a", 1.5), ("c", 1.0), ("b", 0.75), ("d", 0.25)]);
    }

    /// Standard deviations: 2 of (7, 5, 3, ...) with mean 5 and squared distances 4, 0, 4 is sqrt(8/3); of (4, 2) it is 1.
    #[test]
    fn a_weighted_sum_by_hand() {
        let sum = Fusion { dense_weight: 0.25, ..Fusion::default() };
        let deviation = (8.0f64 / 3.0).sqrt();
        let expected =
            [("d", 0.75 * 2.0), ("a", 0.25 * 4.0 / deviation), ("b", 0.25 * 2.0 / deviation), ("c", 0.0 + 0.75 * 0.0)];
        let got = fuse(&sum, &[("a", 7.0), ("b", 5.0), ("c", 3.0)], &[("d", 4.0), ("c", 2.0)]);
        assert_eq!(got.iter().map(|hit| hit.0).collect::<String>(), "dabc");
        assert!(
            got.iter().zip(expected).all(|(got, expected)| (f64::from(got.1) - expected.1).abs() < 1e-6),
            "{got:?}"
        );
    }

    #[test]
    fn one_hit_or_equal_ones_count_as_being_there() {
        let sum = Fusion { dense_weight: 0.5, ..Fusion::default() };
        assert_eq!(fuse(&sum, &[("a", 0.4)], &[]), [("a", 0.5)]);
        assert_eq!(fuse(&sum, &[("a", 0.9), ("b", 0.7)], &[("b", 3.0)]), [("a", 1.0), ("b", 0.5)]);
        assert_eq!(fuse(&sum, &[], &[("d", 0.3), ("b", 0.3)]), [("b", 0.5), ("d", 0.5)]);
        assert!(fuse(&sum, &[], &[]).is_empty());
    }

    #[test]
    fn all_weight_on_one_ranking_gives_its_order() {
        // But for the last, which counts as much as what the ranking does not hold.
        let (dense, bm25) = ([("a", 0.9), ("c", 0.8), ("b", 0.1)], [("b", 9.0), ("a", 2.0), ("d", 1.5)]);
        for method in [FusionMethod::Rrf, FusionMethod::WeightedSum] {
            let order = |dense_weight| -> String {
                let fusion = Fusion { dense_weight, ..Fusion::with(method) };
                fuse(&fusion, &dense, &bm25).iter().map(|hit| hit.0).take(2).collect()
            };
            assert_eq!((order(1.0).as_str(), order(0.0).as_str()), ("ac", "ba"));
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_sum_over_every_document(
            a in prop::collection::vec((0u32..30, 0.0f32..9.0), 0..20),
            b in prop::collection::vec((0u32..30, 0.0f32..9.0), 0..20),
            rrf_k in 0u32..100,
            dense_weight in 0.0f64..=1.0,
            by_rank: bool,
        ) {
            // In two shards, and in another order by key than by place.
            let keys: Vec<String> = (0..30u32).map(|at| format!("{:02}", at * 7 % 30)).collect();
            let at = |hit: &Hit| (hit.node * 2 + hit.shard as u32) as usize;
            let hits = |scored: &[(u32, f32)]| -> Vec<Hit> {
                let unique: HashMap<u32, f32> = scored.iter().copied().collect();
                let mut hits: Vec<Hit> =
                    unique.iter().map(|(at, score)| Hit { score: *score, shard: (at % 2) as usize, node: at / 2 }).collect();
                hits.sort_by(|x, y| y.score.total_cmp(&x.score).then(at(x).cmp(&at(y))));
                hits
            };
            let (a, b) = (hits(&a), hits(&b));
            let part = |ranking: &[Hit], document: usize| -> f64 {
                let Some(place) = ranking.iter().position(|hit| at(hit) == document) else { return 0.0 };
                if by_rank {
                    return 2.0 / (f64::from(rrf_k) + place as f64 + 1.0);
                }
                let scores: Vec<f64> = ranking.iter().map(|hit| f64::from(hit.score)).collect();
                let mean = scores.iter().sum::<f64>() / scores.len() as f64;
                let deviation = (scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / scores.len() as f64).sqrt();
                if scores[0] > scores[scores.len() - 1] { (scores[place] - scores[scores.len() - 1]) / deviation } else { 1.0 }
            };
            let sum = |document: usize| dense_weight * part(&a, document) + (1.0 - dense_weight) * part(&b, document);
            let ranked = |document: &usize| a.iter().chain(&b).any(|hit| at(hit) == *document);
            let mut expected: Vec<(&str, f64)> =
                (0..30).filter(ranked).map(|document| (keys[document].as_str(), sum(document))).collect();
            expected.sort_by(|x, y| y.1.total_cmp(&x.1).then(x.0.cmp(y.0)));
            let method = if by_rank { FusionMethod::Rrf } else { FusionMethod::WeightedSum };
            let fusion = Fusion { method, dense_weight, rrf_k };
            let got: Vec<&str> =
                fusion.fuse(&a, &b, 100, |hit| keys[at(hit)].as_str()).iter().map(|hit| keys[at(hit)].as_str()).collect();
            prop_assert_eq!(got, expected.into_iter().map(|(key, _)| key).collect::<Vec<_>>());
        }
    }
}
