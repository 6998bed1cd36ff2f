//! Tests of the fusion of two rankings.

mod log_odds;

use crate::fusion::LearnedFrom;
use proptest::prelude::*;

use super::*;

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

fn ranking(hits: &[(&str, f32)]) -> Vec<DocumentHit> {
    let node = |key: &str| KEYS.iter().position(|other| *other == key).unwrap() as u32;
    hits.iter()
        .map(|(key, score)| DocumentHit {
            score: *score,
            shard: 0,
            node: node(key),
        })
        .collect()
}

/// BM25's hits are of an exactness of a quarter.
fn fuse(fusion: &Fusion, dense: &[(&str, f32)], bm25: &[(&str, f32)]) -> Vec<(&'static str, f32)> {
    let key = |hit: &DocumentHit| KEYS[hit.node as usize];
    let (bm25, exactness) = (ranking(bm25), [0.25; KEYS.len()]);
    let bm25 = Bm25Ranking {
        hits: &bm25,
        exactness: &exactness,
    };
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
        [
            ("c", (first + third) as f32),
            ("a", first as f32),
            ("b", second as f32),
            ("d", second as f32)
        ]
    );
    let weighted = Fusion {
        dense_weight: 0.75,
        rrf_k: 0,
        ..rrf
    };
    assert_eq!(
        fuse(&weighted, &dense, &bm25),
        [("a", 1.5), ("c", 1.0), ("b", 0.75), ("d", 0.25)]
    );
}

fn assert_sums(got: &[(&str, f32)], expected: &[(&str, f64)]) {
    let order = |keys: &mut dyn Iterator<Item = char>| keys.collect::<String>();
    let expected_order = order(&mut expected.iter().flat_map(|one| one.0.chars()));
    assert_eq!(
        order(&mut got.iter().flat_map(|one| one.0.chars())),
        expected_order,
        "{got:?}"
    );
    let is_close = |(got, expected): (&(&str, f32), &(&str, f64))| (f64::from(got.1) - expected.1).abs() < 1e-6;
    assert!(got.iter().zip(expected).all(is_close), "{got:?}, expected {expected:?}");
}

/// Standard deviations: of (7, 5, 3) the mean is 5, the squared distances are 4, 0, 4, and it is sqrt(8/3). BM25 has
/// (4, 2) and, as the dense ranking has one more, 0: the mean is 2, and it is the same.
#[test]
fn a_weighted_sum_by_hand() {
    let sum = Fusion {
        dense_weight: 0.25,
        ..Fusion::default()
    };
    let deviation = (8.0f64 / 3.0).sqrt();
    let bm25 = |score: f64| (0.75 + 5.0 * 0.25) * score / deviation;
    let expected = [
        ("d", bm25(4.0)),
        ("c", bm25(2.0)),
        ("a", 0.25 * 4.0 / deviation),
        ("b", 0.25 * 2.0 / deviation),
    ];
    assert_sums(
        &fuse(&sum, &[("a", 7.0), ("b", 5.0), ("c", 3.0)], &[("d", 4.0), ("c", 2.0)]),
        &expected,
    );
}

/// The sums are .56 and .57, and a quarter of what they lack to 1 is added; with all the weight on one ranking nothing
/// is.
#[test]
fn a_sum_in_bounds_by_hand() {
    let in_bounds = |dense_weight| {
        let fusion = Fusion {
            dense_weight,
            ..Fusion::with(FusionMethod::MinMax)
        };
        fuse(&fusion, &[("a", 0.8), ("b", 0.6)], &[("b", 0.5), ("a", 0.0)])
    };
    assert_sums(&in_bounds(0.7), &[("b", 0.57 + 0.43 / 4.0), ("a", 0.56 + 0.44 / 4.0)]);
    assert_sums(&in_bounds(1.0), &[("a", 0.8), ("b", 0.6)]);
    assert_sums(&in_bounds(0.0), &[("b", 0.5), ("a", 0.0)]);
}

/// A hundred documents that are ever less near to the question.
fn dense_ranking() -> Vec<DocumentHit> {
    (0..100)
        .map(|node| DocumentHit {
            score: 0.9 / (node + 1) as f32,
            shard: 0,
            node,
        })
        .collect()
}

/// Without the rest of the documents, whose BM25 score is 0, a single hit has no deviation.
#[test]
fn the_only_document_with_the_word_is_first() {
    // One that the dense ranking holds as its last, and one that it does not; holding the only word, and one of two.
    for (node, exactness) in [(99, 1.0), (100, 1.0), (99, 0.3), (100, 0.3)] {
        let bm25 = Bm25Ranking {
            hits: &[DocumentHit {
                score: 5.0,
                shard: 0,
                node,
            }],
            exactness: &[exactness],
        };
        // Whatever was learned.
        for dense_weight in [0.05, 0.7, 0.95] {
            let fused = Fusion {
                dense_weight,
                ..Fusion::default()
            }
            .fuse(&dense_ranking(), bm25, 10, |_| "");
            assert_eq!(fused[0].node, node, "{dense_weight}: {fused:?}");
        }
    }
}

/// Forty documents hold what is common in the question, and one of them the rest too.
#[test]
fn a_hit_that_is_exact_counts_more_than_many_that_are_not() {
    let common = (1..40).map(|node| DocumentHit {
        score: 3.5,
        shard: 0,
        node,
    });
    let hits: Vec<DocumentHit> = std::iter::once(DocumentHit {
        score: 6.0,
        shard: 0,
        node: 70,
    })
    .chain(common)
    .collect();
    let first = |exactness: f32| {
        let bm25 = Bm25Ranking {
            hits: &hits,
            exactness: &[exactness],
        };
        Fusion::default().fuse(&dense_ranking(), bm25, 1, |_| "")[0].node
    };
    assert_eq!((first(0.8), first(0.0)), (70, 0));
}

#[test]
fn one_hit_or_equal_ones_count_as_being_there() {
    let sum = Fusion {
        dense_weight: 0.5,
        ..Fusion::default()
    };
    assert_eq!(fuse(&sum, &[("a", 0.4)], &[]), [("a", 0.5)]);
    // BM25 has (4, 0): z is 4 / 2, and its weight is .5 and a quarter of 5.
    assert_sums(
        &fuse(&sum, &[("a", 0.9), ("b", 0.7)], &[("b", 4.0)]),
        &[("b", 3.5), ("a", 1.0)],
    );
    let equal = fuse(&sum, &[], &[("d", 0.3), ("b", 0.3)]);
    assert_eq!(equal.iter().map(|hit| hit.0).collect::<String>(), "bd");
    assert!(fuse(&sum, &[], &[]).is_empty());
}

#[test]
fn a_ranking_that_is_missing_leaves_the_weight_to_the_other() {
    let of = |has_dense, has_bm25| Fusion::default().of_rankings(has_dense, has_bm25);
    let with = |dense_weight| Fusion {
        dense_weight,
        ..Fusion::default()
    };
    assert_eq!((of(true, true), of(true, false)), (Fusion::default(), with(1.0)));
    assert_eq!((of(false, true), of(false, false)), (with(0.0), with(0.0)));
}

#[test]
fn all_weight_on_one_ranking_gives_its_order() {
    // But for the last, which counts as much as what the ranking does not hold.
    let (dense, bm25) = (
        [("a", 0.9), ("c", 0.8), ("b", 0.1)],
        [("b", 9.0), ("a", 2.0), ("d", 1.5)],
    );
    for method in [FusionMethod::Rrf, FusionMethod::WeightedSum] {
        let order = |dense_weight| -> String {
            let fusion = Fusion {
                dense_weight,
                ..Fusion::with(method)
            };
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
        let at = |hit: &DocumentHit| (hit.node * 2 + hit.shard as u32) as usize;
        let hits = |scored: &[(u32, f32)]| -> Vec<DocumentHit> {
            let unique: HashMap<u32, f32> = scored.iter().copied().collect();
            let hit = |(at, score): (u32, f32)| DocumentHit { score, shard: (at % 2) as usize, node: at / 2 };
            let mut hits: Vec<DocumentHit> = unique.into_iter().map(hit).collect();
            hits.sort_by(|x, y| y.score.total_cmp(&x.score).then(at(x).cmp(&at(y))));
            hits
        };
        let (a, b) = (hits(&a), hits(&b));
        let part = |ranking: &[DocumentHit], is_bm25: bool, document: usize| -> f64 {
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
            let squares = scores.iter().map(|score| (score - mean).powi(2));
            let deviation = (squares.sum::<f64>() / scores.len() as f64).sqrt();
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
