//! Log odds: by hand, and against a sum over every document.

use super::*;

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
