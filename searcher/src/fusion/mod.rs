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
/// Without judgements. all-MiniLM-L6-v2 against the better of its two rankings, MRR and nDCG@10: quick start +.031 +.028, reqa-squad +.048 +.049,
/// scifact +.030 +.026, nq-oracle +.009 +.009; with .6 or .8 at least one gains much less. `dyad-bench quality --systems dense,bm25,hybrid`.
const DEFAULT_SUM_WEIGHT: f64 = 0.7;
/// The sum of a passage's BM25 and its document's, without judgements: +.010 to +.062 MRR on five sets, `benches/README.md`.
const DEFAULT_DOCUMENT_WEIGHT: f64 = 1.0;
/// Weight of the BM25 score of the only document that holds the words of the question, in addition to that of the ranking. Chosen on a half of
/// reqa-squad, scifact (train), nq-oracle (dev) and rare words of the first two: `benches/README.md`.
const EXACT: f64 = 5.0;

/// A document's place in one ranking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// From 1.
    pub rank: u32,
    /// In that ranking's unit.
    pub score: f32,
}

/// The BM25 ranking of a question.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bm25Ranking<'h> {
    /// Best first.
    pub hits: &'h [Hit],
    /// Of each hit, how exactly it has the words of the question, from 0 to 1: `c² / n`, with the share `c` of the question's idf that falls
    /// to the terms that the hit holds, and the number `n` of documents that hold the rarest of these. 0 where absent.
    pub exactness: &'h [f32],
}

/// How the dense and the BM25 ranking are fused, and how BM25 ranks passages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fusion {
    /// What is added.
    pub method: FusionMethod,
    /// Weight of the dense ranking, 0 to 1; BM25 has the rest.
    pub dense_weight: f64,
    /// Constant of [`FusionMethod::Rrf`].
    pub rrf_k: u32,
    /// Weight of a document's BM25 in the BM25 scores of its passages, fused or not. Where the index has no documents, it says nothing.
    pub document_weight: f64,
}

impl Default for Fusion {
    fn default() -> Self {
        Self::with(FusionMethod::WeightedSum)
    }
}

impl From<&FusionRecord> for Fusion {
    fn from(learned: &FusionRecord) -> Self {
        let document_weight = learned.document_weight.unwrap_or(DEFAULT_DOCUMENT_WEIGHT);
        Self { dense_weight: learned.dense_weight, document_weight, ..Self::with(learned.method) }
    }
}

impl Fusion {
    /// A method with its default weight.
    pub fn with(method: FusionMethod) -> Self {
        let dense_weight = match method {
            FusionMethod::Rrf => DEFAULT_RRF_WEIGHT,
            FusionMethod::WeightedSum | FusionMethod::MinMax => DEFAULT_SUM_WEIGHT,
        };
        Self { method, dense_weight, rrf_k: DEFAULT_RRF_K, document_weight: DEFAULT_DOCUMENT_WEIGHT }
    }

    /// The same fusion with all the weight on one ranking where the other is missing: `has_dense` is false without a question vector,
    /// and `has_bm25` where the question has no terms.
    #[must_use]
    pub fn of_rankings(self, has_dense: bool, has_bm25: bool) -> Self {
        let dense_weight = match (has_dense, has_bm25) {
            (true, true) => self.dense_weight,
            (true, false) => 1.0,
            (false, _) => 0.0,
        };
        Self { dense_weight, ..self }
    }

    /// Fuses two rankings, each best first, and keeps the `take` best; their scores are the sums. Ties go to the smaller key,
    /// which is looked up only for them.
    ///
    /// With `w` the dense weight, a document's sum over its rankings is
    /// - [`FusionMethod::Rrf`]: `2 w / (rrf_k + rank)`, and `2 (1 - w)` for BM25: with `w = 0.5` the published formula;
    /// - [`FusionMethod::WeightedSum`]: `w z`, and `(1 - w + 5 x) z` for BM25, with `z = (score - lowest) / deviation`, of the lowest score and
    ///   the standard deviation of that ranking, and `x` the hit's [`Bm25Ranking::exactness`]: a vector knows little of an identifier or a
    ///   name, and the document that holds it comes first. `x` is left out where all the weight is on one ranking, which keeps its order.
    ///   A document that a ranking does not hold counts as its lowest;
    /// - [`FusionMethod::MinMax`]: `w score`, and `1 - w` for BM25: of rankings that both hold every document, with scores from 0 to 1. `x` brings
    ///   the sum `m` nearer to 1, as `m + x (1 - m)`, and is left out as above.
    ///
    /// A document that BM25 does not return holds no term of the question: its score is 0. So where BM25 returns fewer documents than
    /// the dense ranking, zeros take the place of the rest in its lowest score and its deviation, and the only document that holds
    /// an identifier stands out by `z = 10` among 100. The dense ranking lacks documents only where it is as long as was asked: one
    /// that a filter makes short holds all that the filter allows.
    pub fn fuse<'k>(
        &self,
        dense: &[Hit],
        bm25: Bm25Ranking<'_>,
        take: usize,
        key: impl Fn(&Hit) -> &'k str,
    ) -> Vec<Hit> {
        let mut sums = FusedSums::with_capacity(dense.len() + bm25.hits.len());
        let dense_spread = Spread::of(dense, dense.len());
        sums.add(dense, |_, place| self.dense_weight * self.part(place, &dense_spread));
        let bm25_spread = Spread::of(bm25.hits, dense.len());
        let bm25_weight = |position: usize| 1.0 - self.dense_weight + self.exact_weight(bm25, position);
        sums.add(bm25.hits, |position, place| bm25_weight(position) * self.part(place, &bm25_spread));
        if self.method == FusionMethod::MinMax && self.has_both() {
            sums.bring_nearer_to_one(bm25);
        }
        let mut fused = sums.fused;
        // Sums are compared in f64: two documents whose sums differ are never tied by rounding to f32.
        fused.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then_with(|| key(&a.1).cmp(key(&b.1))));
        fused.into_iter().take(take).map(|(sum, hit)| Hit { score: sum as f32, ..hit }).collect()
    }

    /// Whether both rankings have weight.
    fn has_both(&self) -> bool {
        self.dense_weight > 0.0 && self.dense_weight < 1.0
    }

    /// The weight that a BM25 hit has for its exactness.
    fn exact_weight(&self, ranking: Bm25Ranking<'_>, position: usize) -> f64 {
        let counts = self.method == FusionMethod::WeightedSum && self.has_both();
        let exactness = ranking.exactness.get(position).filter(|_| counts);
        exactness.map_or(0.0, |exactness| EXACT * f64::from(*exactness))
    }

    /// What a hit of a ranking adds at weight 1.
    fn part(&self, Placement { rank, score }: Placement, spread: &Spread) -> f64 {
        match self.method {
            FusionMethod::Rrf => 2.0 / (f64::from(self.rrf_k) + f64::from(rank)),
            FusionMethod::MinMax => f64::from(score),
            FusionMethod::WeightedSum => spread.above_lowest(score),
        }
    }
}

/// Sums of documents, in the order in which they were met.
struct FusedSums {
    place_of: HashMap<(usize, u32), usize>,
    fused: Vec<(f64, Hit)>,
}

impl FusedSums {
    fn with_capacity(hits: usize) -> Self {
        Self { place_of: HashMap::with_capacity(hits), fused: Vec::with_capacity(hits) }
    }

    /// Adds what each hit of a ranking counts, by its position and its place.
    fn add(&mut self, ranking: &[Hit], part: impl Fn(usize, Placement) -> f64) {
        for (position, hit) in ranking.iter().enumerate() {
            let place = Placement { rank: position as u32 + 1, score: hit.score };
            let at = *self.place_of.entry((hit.shard, hit.node)).or_insert(self.fused.len());
            if at == self.fused.len() {
                self.fused.push((0.0, *hit));
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

/// Lowest score, mean and standard deviation of a ranking.
#[derive(Debug, Clone, Copy)]
struct Spread {
    lowest: f64,
    mean: f64,
    deviation: f64,
}

impl Spread {
    /// Of a ranking, best first, continued with zeros to `documents`.
    fn of(ranking: &[Hit], documents: usize) -> Self {
        let zeros = documents.saturating_sub(ranking.len());
        let count = (ranking.len() + zeros).max(1) as f64;
        let mean = ranking.iter().map(|hit| f64::from(hit.score)).sum::<f64>() / count;
        let squares = ranking.iter().map(|hit| (f64::from(hit.score) - mean).powi(2)).sum::<f64>();
        let variance = (squares + zeros as f64 * mean * mean) / count;
        let lowest = ranking.last().filter(|_| zeros == 0).map_or(0.0, |hit| f64::from(hit.score));
        Self { lowest, mean, deviation: variance.sqrt() }
    }

    /// How far a score is above the lowest, in standard deviations.
    fn above_lowest(&self, score: f32) -> f64 {
        let Self { lowest, mean, deviation } = *self;
        // All scores are equal: to be in the ranking is all that it says.
        if deviation <= f64::EPSILON * mean.abs() { 1.0 } else { (f64::from(score) - lowest) / deviation }
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

    /// BM25's hits are of an exactness of a quarter.
    fn fuse(fusion: &Fusion, dense: &[(&str, f32)], bm25: &[(&str, f32)]) -> Vec<(&'static str, f32)> {
        let key = |hit: &Hit| KEYS[hit.node as usize];
        let (bm25, exactness) = (ranking(bm25), [0.25; KEYS.len()]);
        let bm25 = Bm25Ranking { hits: &bm25, exactness: &exactness };
        let fused = fusion.fuse(&ranking(dense), bm25, 10, key);
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

    fn assert_sums(got: &[(&str, f32)], expected: &[(&str, f64)]) {
        let order = |keys: &mut dyn Iterator<Item = char>| keys.collect::<String>();
        let expected_order = order(&mut expected.iter().flat_map(|one| one.0.chars()));
        assert_eq!(order(&mut got.iter().flat_map(|one| one.0.chars())), expected_order, "{got:?}");
        let is_close = |(got, expected): (&(&str, f32), &(&str, f64))| (f64::from(got.1) - expected.1).abs() < 1e-6;
        assert!(got.iter().zip(expected).all(is_close), "{got:?}, expected {expected:?}");
    }

    /// Standard deviations: of (7, 5, 3) the mean is 5, the squared distances are 4, 0, 4, and it is sqrt(8/3). BM25 has (4, 2) and, as the
    /// dense ranking has one more, 0: the mean is 2, and it is the same.
    #[test]
    fn a_weighted_sum_by_hand() {
        let sum = Fusion { dense_weight: 0.25, ..Fusion::default() };
        let deviation = (8.0f64 / 3.0).sqrt();
        let bm25 = |score: f64| (0.75 + 5.0 * 0.25) * score / deviation;
        let expected =
            [("d", bm25(4.0)), ("c", bm25(2.0)), ("a", 0.25 * 4.0 / deviation), ("b", 0.25 * 2.0 / deviation)];
        assert_sums(&fuse(&sum, &[("a", 7.0), ("b", 5.0), ("c", 3.0)], &[("d", 4.0), ("c", 2.0)]), &expected);
    }

    /// The sums are .56 and .57, and a quarter of what they lack to 1 is added; with all the weight on one ranking nothing is.
    #[test]
    fn a_sum_in_bounds_by_hand() {
        let in_bounds = |dense_weight| {
            let fusion = Fusion { dense_weight, ..Fusion::with(FusionMethod::MinMax) };
            fuse(&fusion, &[("a", 0.8), ("b", 0.6)], &[("b", 0.5), ("a", 0.0)])
        };
        assert_sums(&in_bounds(0.7), &[("b", 0.57 + 0.43 / 4.0), ("a", 0.56 + 0.44 / 4.0)]);
        assert_sums(&in_bounds(1.0), &[("a", 0.8), ("b", 0.6)]);
        assert_sums(&in_bounds(0.0), &[("b", 0.5), ("a", 0.0)]);
    }

    /// A hundred documents that are ever less near to the question.
    fn dense_ranking() -> Vec<Hit> {
        (0..100).map(|node| Hit { score: 0.9 / (node + 1) as f32, shard: 0, node }).collect()
    }

    /// Without the rest of the documents, whose BM25 score is 0, a single hit has no deviation.
    #[test]
    fn the_only_document_with_the_word_is_first() {
        // One that the dense ranking holds as its last, and one that it does not; holding the only word, and one of two.
        for (node, exactness) in [(99, 1.0), (100, 1.0), (99, 0.3), (100, 0.3)] {
            let bm25 = Bm25Ranking { hits: &[Hit { score: 5.0, shard: 0, node }], exactness: &[exactness] };
            // Whatever was learned.
            for dense_weight in [0.05, 0.7, 0.95] {
                let fused = Fusion { dense_weight, ..Fusion::default() }.fuse(&dense_ranking(), bm25, 10, |_| "");
                assert_eq!(fused[0].node, node, "{dense_weight}: {fused:?}");
            }
        }
    }

    /// Forty documents hold what is common in the question, and one of them the rest too.
    #[test]
    fn a_hit_that_is_exact_counts_more_than_many_that_are_not() {
        let common = (1..40).map(|node| Hit { score: 3.5, shard: 0, node });
        let hits: Vec<Hit> = std::iter::once(Hit { score: 6.0, shard: 0, node: 70 }).chain(common).collect();
        let first = |exactness: f32| {
            let bm25 = Bm25Ranking { hits: &hits, exactness: &[exactness] };
            Fusion::default().fuse(&dense_ranking(), bm25, 1, |_| "")[0].node
        };
        assert_eq!((first(0.8), first(0.0)), (70, 0));
    }

    #[test]
    fn one_hit_or_equal_ones_count_as_being_there() {
        let sum = Fusion { dense_weight: 0.5, ..Fusion::default() };
        assert_eq!(fuse(&sum, &[("a", 0.4)], &[]), [("a", 0.5)]);
        // BM25 has (4, 0): z is 4 / 2, and its weight is .5 and a quarter of 5.
        assert_sums(&fuse(&sum, &[("a", 0.9), ("b", 0.7)], &[("b", 4.0)]), &[("b", 3.5), ("a", 1.0)]);
        let equal = fuse(&sum, &[], &[("d", 0.3), ("b", 0.3)]);
        assert_eq!(equal.iter().map(|hit| hit.0).collect::<String>(), "bd");
        assert!(fuse(&sum, &[], &[]).is_empty());
    }

    #[test]
    fn a_ranking_that_is_missing_leaves_the_weight_to_the_other() {
        let of = |has_dense, has_bm25| Fusion::default().of_rankings(has_dense, has_bm25);
        let with = |dense_weight| Fusion { dense_weight, ..Fusion::default() };
        assert_eq!((of(true, true), of(true, false)), (Fusion::default(), with(1.0)));
        assert_eq!((of(false, true), of(false, false)), (with(0.0), with(0.0)));
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
            dense_weight in 0.01f64..=0.99,
            exactness in prop::collection::vec(0.0f32..=1.0, 0..20),
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
            let part = |ranking: &[Hit], is_bm25: bool, document: usize| -> f64 {
                let Some(place) = ranking.iter().position(|hit| at(hit) == document) else { return 0.0 };
                if by_rank {
                    let weight = if is_bm25 { 1.0 - dense_weight } else { dense_weight };
                    return weight * 2.0 / (f64::from(rrf_k) + place as f64 + 1.0);
                }
                let mut scores: Vec<f64> = ranking.iter().map(|hit| f64::from(hit.score)).collect();
                let score = scores[place];
                if is_bm25 {
                    scores.resize(ranking.len().max(a.len()), 0.0);
                }
                let mean = scores.iter().sum::<f64>() / scores.len() as f64;
                let deviation = (scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / scores.len() as f64).sqrt();
                let lowest = scores[scores.len() - 1];
                let z = if scores[0] > lowest { (score - lowest) / deviation } else { 1.0 };
                let exactness = exactness.get(place).copied().map_or(0.0, f64::from);
                if is_bm25 { z * (1.0 - dense_weight + 5.0 * exactness) } else { z * dense_weight }
            };
            let sum = |document: usize| part(&a, false, document) + part(&b, true, document);
            let ranked = |document: &usize| a.iter().chain(&b).any(|hit| at(hit) == *document);
            let mut expected: Vec<(&str, f64)> =
                (0..30).filter(ranked).map(|document| (keys[document].as_str(), sum(document))).collect();
            expected.sort_by(|x, y| y.1.total_cmp(&x.1).then(x.0.cmp(y.0)));
            let method = if by_rank { FusionMethod::Rrf } else { FusionMethod::WeightedSum };
            let fusion = Fusion { dense_weight, rrf_k, ..Fusion::with(method) };
            let fused = fusion.fuse(&a, Bm25Ranking { hits: &b, exactness: &exactness }, 100, |hit| keys[at(hit)].as_str());
            let got: Vec<&str> = fused.iter().map(|hit| keys[at(hit)].as_str()).collect();
            prop_assert_eq!(got, expected.into_iter().map(|(key, _)| key).collect::<Vec<_>>());
        }
    }
}
