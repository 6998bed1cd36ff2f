//! Tests of the fusion of two rankings.

use dyad_index::LearnedFrom;
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
            let mut hits: Vec<DocumentHit> =
                unique.iter().map(|(at, score)| DocumentHit { score: *score, shard: (at % 2) as usize, node: at / 2 }).collect();
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

fn log_odds(logit_scale: f64) -> Fusion {
    Fusion {
        logit_scale: Some(logit_scale),
        ..Fusion::with(FusionMethod::LogOdds)
    }
}

/// Fewer than 100 hits: cosines count 0.884 times the scale of 25, and BM25 1/5 and a quarter of 3.
#[test]
fn log_odds_of_a_few_by_hand() {
    let (dense, bm25) = ([("a", 0.9), ("b", 0.7), ("c", 0.1)], [("b", 4.0), ("d", 2.0)]);
    // The nearest is .8 ahead of the last, of which an exactness of a quarter has three times its square.
    let range = |found: bool| if found { 0.884 * 25.0 * 0.8 * 3.0 / 16.0 } else { 0.0 };
    let of = |cosine: f64, score: f64| 0.884 * 25.0 * cosine + (0.2 + 0.25 * 3.0) * score + range(score > 0.0);
    let expected = [
        ("a", of(0.9, 0.0)),
        ("b", of(0.7, 4.0)),
        ("d", of(0.1, 2.0)),
        ("c", of(0.1, 0.0)),
    ];
    let mut expected = expected.to_vec();
    expected.sort_by(|x, y| y.1.total_cmp(&x.1));
    assert_sums(&fuse(&log_odds(25.0), &dense, &bm25), &expected);
    // Twice as much for BM25, which is the larger share and so counts in full.
    let third = Fusion {
        dense_weight: 1.0 / 3.0,
        ..log_odds(25.0)
    };
    let half = |cosine: f64, score: f64| of(cosine, 0.0) / 2.0 + of(0.0, score) - range(score > 0.0) / 2.0;
    let expected = [
        ("b", half(0.7, 4.0)),
        ("a", half(0.9, 0.0)),
        ("d", half(0.1, 2.0)),
        ("c", half(0.1, 0.0)),
    ];
    assert_sums(&fuse(&third, &dense, &bm25), &expected);
}

/// The same ranking at a scale at which its cosines are sure, and at one at which they are half as sure as that.
#[test]
fn a_flat_ranking_counts_little() {
    let dense = dense_ranking();
    let scores: Vec<f64> = dense.iter().map(|hit| f64::from(hit.score)).collect();
    let mean = scores.iter().sum::<f64>() / 100.0;
    let deviation = (scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / 100.0).sqrt();
    let best = |scale: f64| {
        let none = Bm25Ranking::default();
        f64::from(log_odds(scale).fuse(&dense, none, 1, |_| "")[0].score)
    };
    let sure = 1.244 / deviation;
    let close = |got: f64, expected: f64| assert!((got / expected - 1.0).abs() < 1e-6, "{got}, expected {expected}");
    close(best(2.0 * sure), 0.884 * 2.0 * sure * scores[0]);
    close(best(sure), 0.884 * sure * scores[0]);
    close(best(sure / 2.0), 0.884 * sure / 2.0 * scores[0] / 4.0);
    // One hit less says nothing of it.
    let fewer = f64::from(log_odds(sure / 2.0).fuse(&dense[..99], Bm25Ranking::default(), 1, |_| "")[0].score);
    close(fewer, 0.884 * sure / 2.0 * scores[0]);
}

#[test]
fn all_weight_on_one_ranking_gives_its_order_in_log_odds() {
    let (dense, bm25) = (
        [("a", 0.9), ("c", 0.8), ("b", 0.1)],
        [("b", 9.0), ("a", 2.0), ("d", 1.5)],
    );
    let of = |dense_weight: f64| {
        fuse(
            &Fusion {
                dense_weight,
                ..log_odds(20.0)
            },
            &dense,
            &bm25,
        )
    };
    assert_sums(&of(1.0)[..2], &[("a", 0.884 * 20.0 * 0.9), ("c", 0.884 * 20.0 * 0.8)]);
    assert_sums(&of(0.0)[..2], &[("b", 9.0 * 0.2), ("a", 2.0 * 0.2)]);
}

#[test]
fn an_index_that_does_not_know_its_scale_learns_no_log_odds() {
    let (data, split) = (String::new(), String::new());
    let from = LearnedFrom {
        data,
        split,
        questions: 0,
        dense: 0.0,
        bm25: 0.0,
        default: 0.0,
        learned: 0.0,
    };
    let learned = |method| FusionRecord {
        document_weight: Some(2.0),
        ..FusionRecord::new("f".to_owned(), method, 0.4, from.clone())
    };
    let plain = Fusion::default().learned(&learned(FusionMethod::LogOdds));
    assert_eq!(
        plain,
        Fusion {
            document_weight: 2.0,
            ..Fusion::default()
        }
    );
    let known = log_odds(20.0).learned(&learned(FusionMethod::LogOdds));
    assert_eq!(
        known,
        Fusion {
            dense_weight: 0.4,
            document_weight: 2.0,
            ..log_odds(20.0)
        }
    );
    let sum = log_odds(20.0).learned(&learned(FusionMethod::WeightedSum));
    assert_eq!((sum.method, sum.logit_scale), (FusionMethod::WeightedSum, Some(20.0)));
}

proptest! {
    /// Every document that either ranking holds, by the formula.
    #[test]
    fn log_odds_agree_with_a_sum_over_every_document(
        dense in prop::collection::vec(-1.0f32..1.0, 0..130),
        bm25 in prop::collection::vec(0.0f32..30.0, 0..130),
        first in 0u32..60,
        exactness in prop::collection::vec(0.0f32..=1.0, 0..130),
        scale in 6.0f64..110.0,
        dense_weight in 0.01f64..=0.99,
    ) {
        let hits = |mut scores: Vec<f32>, first: u32| -> Vec<DocumentHit> {
            scores.sort_by(|x, y| y.total_cmp(x));
            scores.into_iter().zip(first..).map(|(score, node)| DocumentHit { score, shard: 0, node }).collect()
        };
        let (dense, bm25) = (hits(dense, 0), hits(bm25, first));
        let find = |ranking: &[DocumentHit], node: u32| ranking.iter().position(|hit| hit.node == node);
        let lowest = |ranking: &[DocumentHit]| ranking.last().map_or(0.0, |hit| f64::from(hit.score));
        let (mut trust, mut any, mut exact) = (1.0, 0.2, 3.0);
        if dense.len() >= 100 {
            let best: Vec<f64> = dense[..100].iter().map(|hit| f64::from(hit.score)).collect();
            let mean = best.iter().sum::<f64>() / 100.0;
            let variance = best.iter().map(|score| (score - mean) * (score - mean)).sum::<f64>() / 100.0;
            trust = (variance * scale * scale / (1.244 * 1.244)).min(1.0);
            (any, exact) = (0.125, 1.5);
        }
        let sum = |node: u32| {
            let cosine = find(&dense, node).map_or(lowest(&dense), |at| f64::from(dense[at].score));
            let (score, exactness) = match find(&bm25, node) {
                Some(at) => (f64::from(bm25[at].score), exactness.get(at).copied().map_or(0.0, f64::from)),
                None if bm25.len() < dense.len() => (0.0, 0.0),
                None => (lowest(&bm25), 0.0),
            };
            let of_cosine = (dense_weight / (1.0 - dense_weight)).min(1.0) * 0.884 * scale * trust;
            let range = dense.first().map_or(0.0, |best| f64::from(best.score)) - lowest(&dense);
            of_cosine * (cosine + 3.0 * range * exactness * exactness)
                + (((1.0 - dense_weight) / dense_weight).min(1.0) * any + exact * exactness) * score
        };
        let fusion = Fusion { dense_weight, ..log_odds(scale) };
        let fused = fusion.fuse(&dense, Bm25Ranking { hits: &bm25, exactness: &exactness }, 300, |_| "");
        let all: std::collections::HashSet<u32> = dense.iter().chain(&bm25).map(|hit| hit.node).collect();
        prop_assert_eq!(fused.len(), all.len());
        for hit in &fused {
            let expected = sum(hit.node);
            prop_assert!((f64::from(hit.score) - expected).abs() < 1e-4 * expected.abs().max(1.0), "{hit:?}, {expected}");
        }
        prop_assert!(fused.is_sorted_by(|one, next| one.score >= next.score));
    }
}
