//! Fused scores from 0 to 1 against the formula written out.

use std::collections::HashMap;

use dyad_proto::v1;
use dyad_proto::v1::{Fusion, Mode};

use crate::fixture::{DOCUMENTS, Searcher, documents, keys, request, searcher};

pub(crate) const QUERY: &str = "silent metal";

pub(crate) async fn scores(server: &Searcher, mode: Mode) -> HashMap<String, f32> {
    let all = v1::SearchRequest {
        exact: true,
        ..request(mode, QUERY, DOCUMENTS as u32)
    };
    let hits = server.client.search(all).await.unwrap().hits;
    hits.into_iter().map(|hit| (hit.key, hit.score)).collect()
}

/// Documents that hold a word of the question, which they have as it is.
fn holding(word: &str) -> f64 {
    documents().iter().filter(|(_, text)| text.contains(word)).count() as f64
}

fn idf(word: &str) -> f64 {
    let count = holding(word);
    (1.0 + (DOCUMENTS as f64 - count + 0.5) / (count + 0.5)).ln()
}

/// The sum of `idf (k1 + 1)` over the question's words.
fn bound() -> f64 {
    QUERY.split(' ').map(|word| idf(word) * 2.2).sum()
}

/// `c² / n`: the share of the question's idf that falls to the words of a text, and the documents that hold the rarest
/// of these.
pub(crate) fn exactness(text: &str) -> f64 {
    let held = QUERY.split(' ').filter(|word| text.contains(word));
    let share = held.clone().map(idf).sum::<f64>() / QUERY.split(' ').map(idf).sum::<f64>();
    held.map(holding)
        .reduce(f64::min)
        .map_or(0.0, |fewest| share * share / fewest)
}

/// Key and score of every document by the formula, best first.
async fn expected(server: &Searcher, weight: f64) -> Vec<(String, f64)> {
    let (dense, bm25) = (scores(server, Mode::Dense).await, scores(server, Mode::Bm25).await);
    assert!(dense.len() == DOCUMENTS && !bm25.is_empty() && bm25.len() < DOCUMENTS);
    let score = |key: &String, text: &str| {
        let by_words = f64::from(bm25.get(key).copied().unwrap_or_default()) / bound();
        let sum = weight * (1.0 + f64::from(dense[key])) / 2.0 + (1.0 - weight) * by_words;
        let has_both = weight > 0.0 && weight < 1.0;
        if has_both {
            sum + exactness(text) * (1.0 - sum)
        } else {
            sum
        }
    };
    let mut all: Vec<_> = documents()
        .into_iter()
        .map(|(key, text)| (score(&key, &text), key))
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    all.into_iter().map(|(score, key)| (key, score)).collect()
}

fn min_max(k: u32) -> v1::SearchRequest {
    v1::SearchRequest {
        fusion: Fusion::MinMax.into(),
        ..request(Mode::Hybrid, QUERY, k)
    }
}

/// `expected` are the documents of these ranks; two whose scores differ in the last digit may have changed places.
pub(crate) fn assert_close(hits: &[v1::Hit], expected: &[(String, f64)], all: &[(String, f64)]) {
    let of_key: HashMap<&str, f64> = all.iter().map(|(key, score)| (key.as_str(), *score)).collect();
    assert_eq!(hits.len(), expected.len());
    for (hit, (_, score)) in hits.iter().zip(expected) {
        let got = f64::from(hit.score);
        assert!(
            (got - of_key[hit.key.as_str()]).abs() < 1e-5 && (got - score).abs() < 1e-5,
            "{hit:?}: {score}"
        );
    }
}

#[tokio::test]
async fn every_score_is_that_of_the_formula() {
    let server = searcher().await;
    for (weight, given) in [(0.7, None), (0.0, Some(0.0)), (0.35, Some(0.35)), (1.0, Some(1.0))] {
        let expected = expected(&server, weight).await;
        let search = v1::SearchRequest {
            dense_weight: given,
            ..min_max(DOCUMENTS as u32)
        };
        let reply = server.client.search(search.clone()).await.unwrap();
        assert_eq!((reply.fusion(), reply.dense_weight), (Fusion::MinMax, weight));
        assert_close(&reply.hits, &expected, &expected);
        assert!(reply.hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
        // A threshold and a page are of the same scores.
        let least = reply.hits[9].score;
        let above = v1::SearchRequest {
            score_threshold: Some(least),
            ..search.clone()
        };
        let above = server.client.search(above).await.unwrap().hits;
        assert!(above.len() >= 10 && above.iter().all(|hit| hit.score >= least));
        let page = server
            .client
            .search(v1::SearchRequest {
                k: 5,
                offset: 3,
                ..search
            })
            .await
            .unwrap()
            .hits;
        assert_close(&page, &expected[3..8], &expected);
    }
}

/// With few hits of each ranking, a document that only one of them holds still has both its scores.
#[tokio::test]
async fn a_score_does_not_depend_on_which_ranking_holds_the_document() {
    let server = searcher().await;
    let all: HashMap<String, f64> = expected(&server, 0.7).await.into_iter().collect();
    let shallow = v1::SearchRequest {
        fusion_depth: 3,
        ..min_max(3)
    };
    let hits = server.client.search(shallow.clone()).await.unwrap().hits;
    let alone = hits
        .iter()
        .filter(|hit| hit.dense.is_some() != hit.bm25.is_some())
        .count();
    assert!(hits.len() == 3 && alone > 0, "{hits:?}");
    assert!(
        hits.iter()
            .all(|hit| (f64::from(hit.score) - all[&hit.key]).abs() < 1e-5)
    );
    // Comparisons and groups fuse the same way.
    let compared = v1::SearchRequest {
        mode: Mode::Compare.into(),
        ..shallow.clone()
    };
    let compared = server.client.search(compared).await.unwrap().comparison.unwrap();
    assert_eq!(compared.hybrid, hits);
    let group_by = Some(v1::GroupBy {
        field: "none".into(),
        hits: 1,
    });
    let grouped = server
        .client
        .search(v1::SearchRequest { group_by, ..min_max(3) })
        .await
        .unwrap()
        .hits;
    assert!(
        grouped
            .iter()
            .all(|hit| (f64::from(hit.score) - all[&hit.key]).abs() < 1e-5)
    );
}

/// Where one ranking is missing, the other has all the weight: scores go on from 0 to 1.
#[tokio::test]
async fn questions_without_terms_have_the_answer_of_the_dense_ranking() {
    let server = searcher().await;
    let search = v1::SearchRequest {
        query: "the of and".into(),
        score_threshold: Some(0.5),
        ..min_max(5)
    };
    let hybrid = server.client.search(search).await.unwrap();
    let dense = v1::SearchRequest {
        mode: Mode::Dense.into(),
        fusion: 0,
        ..min_max(5)
    };
    let dense = v1::SearchRequest {
        query: "the of and".into(),
        ..dense
    };
    let dense = server.client.search(dense).await.unwrap().hits;
    // By rank: scores that differ in the last digit may be equal between 0 and 1.
    assert_eq!((hybrid.hits.len(), hybrid.dense_weight), (5, 1.0));
    let is_bounded = |(hybrid, dense): (&v1::Hit, &v1::Hit)| (hybrid.score - 0.5 * (1.0 + dense.score)).abs() < 1e-5;
    assert!(hybrid.hits.iter().zip(&dense).all(is_bounded), "{hybrid:?}");
}

/// Under a threshold of fused scores too, whatever the method and its weight.
#[tokio::test]
async fn without_its_question_vector_hybrid_gives_the_answer_of_bm25() {
    let server = searcher().await;
    server.encoder.broken.store(true, std::sync::atomic::Ordering::SeqCst);
    let by_bm25 = server.client.search(request(Mode::Bm25, QUERY, 8)).await.unwrap().hits;
    assert_eq!(by_bm25.len(), 8);
    for method in [Fusion::WeightedSum, Fusion::MinMax, Fusion::Rrf] {
        for dense_weight in [None, Some(0.0), Some(1.0)] {
            let hybrid = v1::SearchRequest {
                fusion: method.into(),
                dense_weight,
                ..request(Mode::Hybrid, QUERY, 8)
            };
            for score_threshold in [None, Some(0.5), Some(100.0)] {
                let search = v1::SearchRequest {
                    score_threshold,
                    ..hybrid.clone()
                };
                let reply = server.client.search(search.clone()).await.unwrap();
                assert_eq!(keys(&reply.hits), keys(&by_bm25), "{search:?}");
                assert!(reply.degraded && reply.dense_weight == 0.0, "{reply:?}");
                assert_eq!(
                    reply.degraded_reason.contains("`score_threshold` was not applied"),
                    score_threshold.is_some()
                );
                // The last of them is explained as the hit that it is, and is one of its group's.
                let last = reply.hits.last().unwrap();
                let explained = v1::ExplainRequest {
                    key: last.key.clone(),
                    search: Some(search.clone()),
                };
                let explained = server.client.explain(explained).await.unwrap();
                assert_eq!(
                    explained.hit,
                    Some(v1::Placement {
                        rank: last.rank,
                        score: last.score
                    })
                );
                let group_by = Some(v1::GroupBy {
                    field: "place.number".into(),
                    hits: 1,
                });
                let grouped = server
                    .client
                    .search(v1::SearchRequest { group_by, ..search })
                    .await
                    .unwrap()
                    .hits;
                assert_eq!(keys(&grouped), keys(&by_bm25));
            }
            let compared = v1::SearchRequest {
                mode: Mode::Compare.into(),
                ..hybrid
            };
            let compared = server.client.search(compared).await.unwrap().comparison.unwrap();
            assert_eq!((keys(&compared.hybrid), compared.dense.len()), (keys(&by_bm25), 0));
        }
    }
    let reply = server.client.search(min_max(3)).await.unwrap();
    assert!(
        reply.hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)),
        "{reply:?}"
    );
}
