//! Hits that a cross encoder has scored again: their order, their page, and what happens where it fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dyad_proto::client::{ClientConfig, ClientError, Credentials, SearcherClient};
use dyad_proto::v1;
use dyad_searcher::reranker::Reranker;
use tonic::Code;

use crate::cross_encoder::{Running, bytes, searcher};
use crate::fixture::{self, keys, request};

#[tokio::test]
async fn the_best_hits_come_in_the_order_of_the_cross_encoder() {
    let Running { model, served, .. } = &searcher().await;
    for mode in [v1::Mode::Dense, v1::Mode::Bm25, v1::Mode::Hybrid] {
        let plain = request(mode, "the old river", 12);
        let before = served.client.search(plain.clone()).await.unwrap();
        assert_eq!((before.reranked, before.reranker_fingerprint.as_str()), (0, ""));
        let after = served
            .client
            .search(v1::SearchRequest {
                rerank_depth: 8,
                ..plain.clone()
            })
            .await
            .unwrap();
        let scored = before.hits.len().min(8);
        assert_eq!(
            (after.reranked as usize, after.reranker_fingerprint.as_str()),
            (scored, "c0de"),
            "{mode:?}"
        );
        assert!(!after.degraded && after.timings.unwrap().rerank_us > 0);
        // The slow way: the first eight by length, of equal ones the better first; the others as they were.
        let mut expected = before.hits.clone();
        expected[..scored].sort_by_key(bytes);
        assert_eq!(keys(&after.hits), keys(&expected), "{mode:?}");
        assert_ne!(keys(&after.hits), keys(&before.hits), "the test shows nothing");
        for (at, (hit, was)) in after.hits.iter().zip(&expected).enumerate() {
            let place = v1::Placement {
                rank: at as u32 + 1,
                score: -(bytes(was) as f32),
            };
            assert_eq!(hit.rerank, (at < scored).then_some(place));
            assert_eq!(
                (hit.score, hit.dense, hit.bm25, hit.rank as usize),
                (was.score, was.dense, was.bm25, at + 1)
            );
        }
        // A page is a part of that; its documents are read afterwards.
        let page = v1::SearchRequest {
            rerank_depth: 8,
            offset: 3,
            k: 4,
            keys_only: true,
            ..plain.clone()
        };
        let page = served.client.search(page).await.unwrap();
        assert_eq!(keys(&page.hits), &keys(&expected)[3..7]);
        assert_eq!(
            (page.hits[0].rank, page.reranked, page.hits[0].document.clone()),
            (4, 8, None)
        );
        // Alone, in a batch and in a stream alike.
        let both = vec![
            plain.clone(),
            v1::SearchRequest {
                rerank_depth: 8,
                id: 7,
                ..plain.clone()
            },
        ];
        let batch = served
            .client
            .search_batch(v1::SearchBatchRequest { requests: both.clone() })
            .await
            .unwrap();
        assert_eq!(batch.responses[0].hits, before.hits);
        assert_eq!(batch.responses[1].hits, after.hits);
        let mut stream = served
            .client
            .search_stream(tokio_stream::iter(both), Duration::from_mins(1))
            .await
            .unwrap();
        assert_eq!(
            stream.message().await.unwrap().unwrap().response.unwrap().hits,
            before.hits
        );
        assert_eq!(
            stream.message().await.unwrap().unwrap().response.unwrap().hits,
            after.hits
        );
    }
    assert!(model.pairs.load(Ordering::SeqCst) >= 3 * 4 * 4);
}

#[tokio::test]
async fn without_scores_the_order_stays_and_the_reply_says_so() {
    let Running { model, served, .. } = &searcher().await;
    let plain = request(v1::Mode::Hybrid, "the old river", 5);
    let before = served.client.search(plain.clone()).await.unwrap();
    let reranked = v1::SearchRequest {
        rerank_depth: 20,
        ..plain
    };
    let degraded = async |flag: &AtomicBool, time: Duration, reason: &str| {
        flag.store(true, Ordering::SeqCst);
        let config = ClientConfig {
            call_timeout: time,
            ..ClientConfig::default()
        };
        let client = SearcherClient::connect(&served.url, config).await.unwrap();
        let reply = client.search(reranked.clone()).await.unwrap();
        assert_eq!((&reply.hits, reply.reranked), (&before.hits, 0), "{reason}");
        assert!(
            reply.degraded && reply.degraded_reason.contains(reason),
            "{}",
            reply.degraded_reason
        );
        flag.store(false, Ordering::SeqCst);
    };
    degraded(&model.broken, Duration::from_secs(10), "not reranked: cross encoder: ").await;
    degraded(&model.slow, Duration::from_secs(2), "not reranked: cross encoder: ").await;
    degraded(
        &model.other,
        Duration::from_secs(10),
        "fingerprint c0de2, expected c0de",
    )
    .await;
    let again = served.client.search(reranked).await.unwrap();
    assert_eq!((again.reranked, again.degraded), (20, false), "it is asked again");
}

/// Each four of them had most of what the four before had left, and the last ones nothing.
#[tokio::test]
async fn a_batch_whose_reranking_is_late_is_answered_in_time() {
    let Running { model, served, .. } = &searcher().await;
    let asked = v1::SearchRequest {
        rerank_depth: 5,
        ..request(v1::Mode::Dense, "the old river", 5)
    };
    model.slow.store(true, Ordering::SeqCst);
    let config = ClientConfig {
        call_timeout: Duration::from_secs(10),
        ..ClientConfig::default()
    };
    let client = SearcherClient::connect(&served.url, config).await.unwrap();
    let replies = client
        .search_batch(v1::SearchBatchRequest {
            requests: vec![asked; 40],
        })
        .await
        .unwrap()
        .responses;
    assert_eq!(replies.len(), 40);
    for reply in replies {
        assert!(
            reply.degraded && reply.degraded_reason.contains("not reranked"),
            "{}",
            reply.degraded_reason
        );
        assert_eq!((reply.hits.len(), reply.reranked), (5, 0));
    }
}

#[tokio::test]
async fn no_request_waits_for_a_cross_encoder_that_hangs() {
    const OPEN: &str = "its last calls were not answered in time, so none is made";
    let Running { model, served, .. } = &searcher().await;
    let config = ClientConfig {
        call_timeout: Duration::from_secs(6),
        ..ClientConfig::default()
    };
    let client = SearcherClient::connect(&served.url, config).await.unwrap();
    let asked = v1::SearchRequest {
        rerank_depth: 20,
        ..request(v1::Mode::Dense, "the old river", 5)
    };
    // As many at a time as open the circuit once they are asked again.
    let ask = async || {
        let replies = (0..8).map(|_| client.search(asked.clone()));
        let replies = futures_util::future::join_all(replies).await;
        replies.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    model.slow.store(true, Ordering::SeqCst);
    let started = Instant::now();
    loop {
        let replies = ask().await;
        assert!(
            replies
                .iter()
                .all(|reply| reply.degraded && reply.reranked == 0 && reply.hits.len() == 5)
        );
        if replies.iter().all(|reply| reply.degraded_reason.contains(OPEN)) {
            break;
        }
        assert!(started.elapsed() < Duration::from_mins(1), "the circuit never opens");
    }
    let (before, started) = (model.asked.load(Ordering::SeqCst), Instant::now());
    for _ in 0..10 {
        assert!(
            ask()
                .await
                .iter()
                .all(|reply| reply.degraded_reason.contains(OPEN) && reply.hits.len() == 5)
        );
    }
    let (calls, seconds) = (
        model.asked.load(Ordering::SeqCst) - before,
        started.elapsed().as_secs() as usize,
    );
    assert!(calls <= seconds + 1, "{calls} calls in {seconds} s");
    model.slow.store(false, Ordering::SeqCst);
    while client.search(asked.clone()).await.unwrap().reranked == 0 {
        assert!(started.elapsed() < Duration::from_mins(1), "the circuit never closes");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn what_cannot_be_reranked_is_refused_with_the_field() {
    let Running { served, .. } = &searcher().await;
    let refused = async |change: fn(&mut v1::SearchRequest), reason: &str| {
        let mut asked = v1::SearchRequest {
            rerank_depth: 5,
            ..request(v1::Mode::Hybrid, "the old river", 5)
        };
        change(&mut asked);
        match served.client.search(asked).await.unwrap_err() {
            ClientError::Refused {
                code: Code::InvalidArgument,
                message,
                ..
            } => {
                assert!(message.contains(reason), "{message}");
            }
            other => panic!("{other}"),
        }
    };
    refused(
        |asked| asked.rerank_depth = 1001,
        "`rerank_depth`: expected at most 1000, got 1001",
    )
    .await;
    refused(
        |asked| asked.set_mode(v1::Mode::Compare),
        "`rerank_depth`: expected 0 in MODE_COMPARE",
    )
    .await;
    let grouped = |asked: &mut v1::SearchRequest| {
        asked.group_by = Some(v1::GroupBy {
            field: "kind".into(),
            hits: 1,
        });
    };
    refused(grouped, "`rerank_depth`: expected 0 with `group_by`").await;
    let many = vec![
        v1::SearchRequest {
            rerank_depth: 1000,
            ..request(v1::Mode::Bm25, "river", 1)
        };
        11
    ];
    let error = served
        .client
        .search_batch(v1::SearchBatchRequest { requests: many })
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`rerank_depth` of at most 10000 in all, got 11000"),
        "{error}"
    );
    // A searcher without one.
    let plain = fixture::searcher().await;
    let asked = v1::SearchRequest {
        rerank_depth: 5,
        ..request(v1::Mode::Hybrid, "the old river", 5)
    };
    match plain.client.search(asked).await.unwrap_err() {
        ClientError::Refused {
            code: Code::FailedPrecondition,
            message,
            ..
        } => {
            assert!(message.contains("--reranker"), "{message}");
        }
        other => panic!("{other}"),
    }
    // A model that embeds single texts is none.
    let error = Reranker::connect(&plain.encoder.url, Credentials::default(), Duration::ZERO)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("A cross encoder is needed"), "{error}");
}
