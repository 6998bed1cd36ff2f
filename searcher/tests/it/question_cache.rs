//! Questions that were asked before: their vectors come from the cache, and nothing else of the answer does.

use std::sync::atomic::Ordering;

use dyad_proto::v1;
use dyad_proto::v1::Mode;
use dyad_searcher::run::EngineConfig;

use crate::fixture::{Searcher, request, searcher, searcher_with};

async fn with_cache() -> Searcher {
    searcher_with(EngineConfig {
        question_cache: 1 << 20,
        ..EngineConfig::default()
    })
    .await
}

#[tokio::test]
async fn a_question_that_was_asked_before_needs_no_tower() {
    let server = with_cache().await;
    let [dense, hybrid] = [Mode::Dense, Mode::Hybrid].map(|mode| request(mode, "number 12", 3));
    let long = request(Mode::Dense, &"river ".repeat(100), 3);
    let first = server.client.search(dense.clone()).await.unwrap();
    let truncated = server.client.search(long.clone()).await.unwrap();
    assert!(truncated.query_truncated && !first.query_truncated && first.query_tokens > 0);
    server.encoder.broken.store(true, Ordering::SeqCst);

    let again = server.client.search(dense.clone()).await.unwrap();
    let timings = again.timings.unwrap();
    assert_eq!((timings.embed_us, timings.tokenize_us, timings.queue_us), (0, 0, 0));
    assert_eq!(
        v1::SearchResponse {
            timings: first.timings,
            ..again
        },
        first
    );
    let again = server.client.search(long).await.unwrap();
    assert_eq!(
        v1::SearchResponse {
            timings: truncated.timings,
            ..again
        },
        truncated
    );
    // Of any mode; and the others fail as without a cache.
    assert!(!server.client.search(hybrid.clone()).await.unwrap().degraded);
    let other = v1::SearchRequest {
        query: "number 13".into(),
        ..hybrid
    };
    assert!(server.client.search(other).await.unwrap().degraded);
    let capital = v1::SearchRequest {
        query: "Number 12".into(),
        ..dense
    };
    assert!(server.client.search(capital).await.is_err());
}

#[tokio::test]
async fn batches_of_known_and_unknown_questions_are_answered_as_without_a_cache() {
    let (plain, cached) = (searcher().await, with_cache().await);
    let questions = ["number 3", "old river", "number 3", "the silent bird", "number 40"];
    let requests: Vec<_> = questions.iter().map(|query| request(Mode::Hybrid, query, 4)).collect();
    for known in [&requests[1..2], &requests[3..4]] {
        cached.client.search(known[0].clone()).await.unwrap();
    }
    let batch = v1::SearchBatchRequest { requests };
    let without_times = |reply: v1::SearchBatchResponse| {
        let one = |reply: v1::SearchResponse| v1::SearchResponse { timings: None, ..reply };
        reply.responses.into_iter().map(one).collect::<Vec<_>>()
    };
    let expected = without_times(plain.client.search_batch(batch.clone()).await.unwrap());
    assert_eq!(
        without_times(cached.client.search_batch(batch).await.unwrap()),
        expected
    );
}

#[tokio::test]
async fn a_warm_up_asks_about_the_index_s_own_documents() {
    let server = with_cache().await;
    server.engine.warm_up().await;
    server.encoder.broken.store(true, Ordering::SeqCst);
    // The beginning of the first document.
    let reply = server
        .client
        .search(request(Mode::Dense, "the old river", 1))
        .await
        .unwrap();
    assert_eq!(reply.hits[0].document.as_ref().unwrap().text, "the old river number 0");
    // A tower that fails is no reason not to start.
    server.engine.warm_up().await;
}
