//! The fusion of an index that knows the logit scale of its model, against the formula written out.

use std::path::Path;

use dyad_index::manifest::{self, Manifest};
use dyad_index::storage::WriteLock;
use dyad_proto::client::ClientError;
use dyad_proto::v1;
use dyad_proto::v1::{Fusion, Mode};
use dyad_searcher::run::EngineConfig;
use tonic::Code;

use crate::fixture::{DOCUMENTS, Searcher, documents, keys, request, searcher, searcher_over, write_index_of};
use crate::min_max::{QUERY, assert_close, exactness, scores};

const SCALE: f64 = 22.6;

/// Over an index that knows its model's scale.
async fn scaled_searcher() -> Searcher {
    scaled_searcher_of(&documents(), SCALE).await
}

async fn scaled_searcher_of(documents: &[(String, String)], scale: f64) -> Searcher {
    let index = tempfile::tempdir().unwrap();
    write_scaled_index(index.path(), documents, scale);
    searcher_over(index, EngineConfig::default()).await
}

/// An index that knows its model's scale.
pub(crate) fn write_scaled_index(index: &Path, documents: &[(String, String)], scale: f64) {
    write_index_of(documents, index, 1, "f00d");
    let first = manifest::current(index).unwrap();
    let scaled = Manifest {
        generation: 2,
        logit_scale: Some(scale),
        ..first
    };
    manifest::publish(index, &scaled, &[], &WriteLock::acquire(index).unwrap()).unwrap();
}

fn hybrid(k: u32) -> v1::SearchRequest {
    request(Mode::Hybrid, QUERY, k)
}

/// Fewer than 100 documents: the dense ranking does not say how sure it is.
#[tokio::test]
async fn it_is_the_default_and_every_score_is_that_of_the_formula() {
    let server = scaled_searcher().await;
    let (dense, bm25) = (scores(&server, Mode::Dense).await, scores(&server, Mode::Bm25).await);
    let cosines = || dense.values().map(|cosine| f64::from(*cosine));
    let range = cosines().fold(-1.0, f64::max) - cosines().fold(1.0, f64::min);
    let score = |key: &String, text: &str| {
        let by_words = f64::from(bm25.get(key).copied().unwrap_or_default());
        let exactness = if by_words > 0.0 { exactness(text) } else { 0.0 };
        let cosine = f64::from(dense[key]) + 3.0 * range * exactness * exactness;
        0.884 * SCALE * cosine + (0.2 + 3.0 * exactness) * by_words
    };
    let mut expected: Vec<(String, f64)> = documents()
        .into_iter()
        .map(|(key, text)| (key.clone(), score(&key, &text)))
        .collect();
    expected.sort_by(|a, b| b.1.total_cmp(&a.1));
    let all = v1::SearchRequest {
        exact: true,
        ..hybrid(DOCUMENTS as u32)
    };
    let reply = server.client.search(all.clone()).await.unwrap();
    assert_eq!((reply.fusion(), reply.dense_weight), (Fusion::LogOdds, 0.5));
    assert_close(&reply.hits, &expected, &expected);
    let asked = v1::SearchRequest {
        fusion: Fusion::LogOdds.into(),
        ..all.clone()
    };
    assert_eq!(server.client.search(asked).await.unwrap().hits, reply.hits);
    // A depth below that of the fusion is raised, and a threshold is of the same scores.
    let shallow = v1::SearchRequest {
        fusion_depth: 3,
        k: 5,
        ..all.clone()
    };
    assert_eq!(
        keys(&server.client.search(shallow).await.unwrap().hits),
        keys(&reply.hits[..5])
    );
    let least = reply.hits[9].score;
    let above = server
        .client
        .search(v1::SearchRequest {
            score_threshold: Some(least),
            ..all
        })
        .await
        .unwrap()
        .hits;
    assert!(above.len() >= 10 && above.iter().all(|hit| hit.score >= least));
}

/// The standard deviation of the best 100 cosines says how sure a question is; under a filter that leaves fewer nothing
/// does.
#[tokio::test]
async fn a_question_counts_as_much_as_its_cosines_differ() {
    let many: Vec<(String, String)> = (0..150)
        .map(|at| {
            (
                format!("doc-{at:03}"),
                format!("{} {} {}", "ab".repeat(at % 7), at % 11, at % 3),
            )
        })
        .collect();
    let scale = 4.0;
    let server = scaled_searcher_of(&many, scale).await;
    // Of stop words alone: there is no BM25 ranking.
    let asked = |mode| v1::SearchRequest {
        query: "the of and".into(),
        exact: true,
        ..request(mode, "", 150)
    };
    let dense = server.client.search(asked(Mode::Dense)).await.unwrap().hits;
    let best: Vec<f64> = dense[..100].iter().map(|hit| f64::from(hit.score)).collect();
    let mean = best.iter().sum::<f64>() / 100.0;
    let deviation = (best.iter().map(|cosine| (cosine - mean).powi(2)).sum::<f64>() / 100.0).sqrt();
    let trust = (scale * deviation / 1.244).powi(2).min(1.0);
    let close =
        |got: f32, expected: f64| assert!((f64::from(got) - expected).abs() < 1e-4, "{got}, expected {expected}");
    let reply = server.client.search(asked(Mode::Hybrid)).await.unwrap();
    assert_eq!((reply.hits.len(), reply.dense_weight), (150, 1.0));
    for (hit, dense) in reply.hits.iter().zip(&dense) {
        close(hit.score, 0.884 * scale * trust * f64::from(dense.score));
    }
    // A page and a threshold are of the same scores.
    let page = v1::SearchRequest {
        k: 10,
        offset: 20,
        ..asked(Mode::Hybrid)
    };
    assert_eq!(server.client.search(page).await.unwrap().hits, reply.hits[20..30]);
    let least = reply.hits[30].score;
    let above = v1::SearchRequest {
        score_threshold: Some(least),
        ..asked(Mode::Hybrid)
    };
    let above = server.client.search(above).await.unwrap().hits;
    assert!(above.len() > 30 && above.iter().all(|hit| hit.score >= least));
    let compared = server
        .client
        .search(asked(Mode::Compare))
        .await
        .unwrap()
        .comparison
        .unwrap();
    assert_eq!(compared.hybrid, reply.hits);
    let few = v1::SearchRequest {
        k: 99,
        ..asked(Mode::Hybrid)
    };
    let few_of_many = server.client.search(few).await.unwrap().hits;
    assert_eq!(few_of_many, reply.hits[..99]);
    assert!(trust > 0.05 && trust < 0.95, "{trust}");
}

#[tokio::test]
async fn other_fusions_are_as_they_were() {
    let (server, plain) = (scaled_searcher().await, searcher().await);
    for fusion in [Fusion::Rrf, Fusion::WeightedSum, Fusion::MinMax] {
        let asked = v1::SearchRequest {
            fusion: fusion.into(),
            ..hybrid(10)
        };
        let (scaled, known) = (
            server.client.search(asked.clone()).await,
            plain.client.search(asked).await,
        );
        assert_eq!(scaled.unwrap().hits, known.unwrap().hits);
    }
    // By constants of reciprocal ranks, which ask for them.
    let reply = server
        .client
        .search(v1::SearchRequest { rrf_k: 5, ..hybrid(3) })
        .await
        .unwrap();
    assert_eq!(reply.fusion(), Fusion::Rrf);
}

#[tokio::test]
async fn an_index_that_does_not_know_the_scale_refuses_it() {
    let server = searcher().await;
    let asked = v1::SearchRequest {
        fusion: Fusion::LogOdds.into(),
        ..hybrid(3)
    };
    let refused = server.client.search(asked).await.unwrap_err();
    assert!(
        matches!(
            refused,
            ClientError::Refused {
                code: Code::FailedPrecondition,
                ..
            }
        ),
        "{refused:?}"
    );
    assert!(
        refused
            .to_string()
            .contains("`fusion`: the index does not know the logit scale"),
        "{refused}"
    );
    let given_constant = v1::SearchRequest {
        fusion: Fusion::LogOdds.into(),
        rrf_k: 7,
        ..hybrid(3)
    };
    let refused = server.client.search(given_constant).await.unwrap_err().to_string();
    assert!(
        refused.contains("`rrf_k`: expected 0 with FUSION_LOG_ODDS"),
        "{refused}"
    );
}

#[tokio::test]
async fn without_its_question_vector_hybrid_gives_the_order_of_bm25() {
    let server = scaled_searcher().await;
    server.encoder.broken.store(true, std::sync::atomic::Ordering::SeqCst);
    let by_bm25 = server.client.search(request(Mode::Bm25, QUERY, 8)).await.unwrap().hits;
    for score_threshold in [None, Some(100.0)] {
        let reply = server
            .client
            .search(v1::SearchRequest {
                score_threshold,
                ..hybrid(8)
            })
            .await
            .unwrap();
        assert_eq!(keys(&reply.hits), keys(&by_bm25));
        assert!(reply.degraded && reply.dense_weight == 0.0, "{reply:?}");
    }
}
