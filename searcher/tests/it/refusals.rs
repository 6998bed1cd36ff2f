//! Bad requests, the wrong model, and an encoder that fails or goes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use dyad_proto::client::Credentials;
use dyad_proto::v1::{self, Mode};
use dyad_searcher::question::QuestionTower;
use dyad_searcher::run::{EngineConfig, QueuePolicy, Turns};

use crate::encoder_service::{encoder, encoder_at, encoder_of};
use crate::fixture::{US, open, request, searcher, searcher_with, write_index};

#[tokio::test]
async fn bad_requests_name_the_field() {
    let server = searcher().await;
    let refused = async |request: v1::SearchRequest| server.client.search(request).await.unwrap_err().to_string();
    assert!(
        refused(request(Mode::Dense, "q", 10_001))
            .await
            .contains("`k`: expected 1 to 10000, got 10001")
    );
    assert!(
        refused(request(Mode::Dense, "q", 1_000_000))
            .await
            .contains("got 1000000")
    );
    assert!(
        refused(request(Mode::Dense, " ", 1))
            .await
            .contains("`query`: expected text")
    );
    assert!(
        refused(request(Mode::Dense, &"x".repeat(1_000_000), 1))
            .await
            .contains("at most 32768 bytes, got 1000000")
    );
    assert!(
        refused(v1::SearchRequest {
            mode: 99,
            ..request(Mode::Dense, "q", 1)
        })
        .await
        .contains("`mode`")
    );
    let batch = v1::SearchBatchRequest {
        requests: vec![request(Mode::Dense, "q", 1), request(Mode::Dense, "q", 10_001)],
    };
    assert!(
        server
            .client
            .search_batch(batch)
            .await
            .unwrap_err()
            .to_string()
            .contains("`requests[1].k`")
    );
}

#[tokio::test]
async fn k_beyond_the_corpus_returns_all_of_it() {
    let server = searcher().await;
    let reply = server
        .client
        .search(request(Mode::Dense, "river", 10_000))
        .await
        .unwrap();
    assert_eq!(reply.hits.len(), 60);
}

#[tokio::test]
async fn a_tower_of_another_model_is_refused_with_both_names() {
    let index = tempfile::tempdir().unwrap();
    write_index(index.path(), 1, "f00d");
    let other = encoder("beef").await;
    let error = open(index.path(), &other, EngineConfig::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("`words` (fingerprint f00d, 24 values)"), "{error}");
    assert!(
        error.contains("the tower is `words` (fingerprint beef, 24 values)"),
        "{error}"
    );
}

#[tokio::test]
async fn without_a_vector_hybrid_answers_from_bm25_and_says_so() {
    let server = searcher().await;
    server.encoder.broken.store(true, Ordering::SeqCst);
    let error = server
        .client
        .search(request(Mode::Dense, "river", 3))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("question tower") && error.contains("out of memory"),
        "{error}"
    );
    for mode in [Mode::Hybrid, Mode::Compare] {
        let reply = server.client.search(request(mode, "number 12", 3)).await.unwrap();
        assert!(
            reply.degraded && reply.degraded_reason.contains("out of memory"),
            "{}",
            reply.degraded_reason
        );
        let hits = reply.comparison.map_or(reply.hits, |all| {
            assert!(all.dense.is_empty());
            all.hybrid
        });
        assert_eq!((hits[0].key.as_str(), hits[0].dense), ("doc-12", None));
    }
    server.encoder.broken.store(false, Ordering::SeqCst);
    assert!(
        !server
            .client
            .search(request(Mode::Hybrid, "number 12", 3))
            .await
            .unwrap()
            .degraded
    );
}

#[tokio::test]
async fn an_index_that_is_not_there_is_named_with_the_way_to_make_one() {
    let (index, tower) = (tempfile::tempdir().unwrap(), encoder("f00d").await);
    let error = open(index.path(), &tower, EngineConfig::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("holds no index") && error.contains("dyad-indexer build"),
        "{error}"
    );
}

#[tokio::test]
async fn more_requests_than_allowed_are_refused() {
    let server = searcher_with(EngineConfig {
        max_requests: 1,
        ..EngineConfig::default()
    })
    .await;
    let many = (0..50).map(|_| {
        server
            .engine
            .search(request(Mode::Hybrid, "river", 3), &US, None, QueuePolicy::Refused)
    });
    let results = futures_util::future::join_all(many).await;
    let busy = results
        .iter()
        .filter(|result| matches!(result, Err(dyad_searcher::Error::Busy { limit: 1, all: 1, .. })))
        .count();
    assert!(
        busy > 0 && results.iter().any(Result::is_ok),
        "{busy} of 50 were refused"
    );
    assert!(
        server
            .engine
            .search(request(Mode::Hybrid, "river", 3), &US, None, QueuePolicy::Refused)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_deadline_is_kept_when_the_tower_is_slow() {
    let server = searcher().await;
    let time = Some(Duration::from_secs(4));
    let error = server
        .engine
        .search(
            request(Mode::Dense, "sleep number 4", 3),
            &US,
            time,
            QueuePolicy::Refused,
        )
        .await
        .unwrap_err();
    assert!(matches!(error, dyad_searcher::Error::TowerLate(_)), "{error}");
    assert_eq!(tonic::Status::from(error).code(), tonic::Code::DeadlineExceeded);
    let (answer, _share) = server
        .engine
        .search(
            request(Mode::Hybrid, "sleep number 4", 3),
            &US,
            time,
            QueuePolicy::Refused,
        )
        .await
        .unwrap();
    assert_eq!(answer.hits[0].hit.key, "doc-04");
    assert!(answer.response.degraded_reason.contains("no question vector"));
}

/// A request that has waited for its place gives the tower a share of what is left of its time: BM25 still answers.
#[tokio::test]
async fn a_queued_request_gives_the_tower_time_that_it_has() {
    let server = searcher_with(EngineConfig {
        max_requests: 1,
        ..EngineConfig::default()
    })
    .await;
    let time = Duration::from_secs(6);
    let first = server
        .engine
        .search_batch(vec![request(Mode::Dense, "wait", 1)], &US, None);
    let queued = async {
        while server.encoder.asked.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (turn, _end) = Turns::default().add();
        let search = request(Mode::Hybrid, "sleep number 4", 3);
        server
            .engine
            .search(search, &US, Some(time), QueuePolicy::Queued(turn))
            .await
    };
    let release = async {
        tokio::time::sleep(time / 3).await;
        server.encoder.released.send_replace(true);
    };
    let (first, queued, ()) = tokio::join!(first, queued, release);
    assert_eq!(first.unwrap().0.len(), 1);
    let (answer, _share) = queued.unwrap();
    assert_eq!(answer.hits[0].hit.key, "doc-04");
    assert!(answer.response.degraded_reason.contains("no question vector"));
}

#[tokio::test]
async fn a_busy_tower_is_asked_once_and_its_callers_are_told_that_it_is_busy() {
    let server = searcher().await;
    let started = std::time::Instant::now();
    let minute = Some(Duration::from_mins(1));
    let error = server
        .engine
        .search(request(Mode::Dense, "crowd", 3), &US, minute, QueuePolicy::Refused)
        .await
        .unwrap_err();
    assert!(matches!(error, dyad_searcher::Error::TowerBusy { .. }), "{error}");
    assert!(
        error.to_string().ends_with("the model is too busy. Try again in 8 ms"),
        "{error}"
    );
    assert_eq!(tonic::Status::from(error).code(), tonic::Code::ResourceExhausted);
    let (answer, _share) = server
        .engine
        .search(
            request(Mode::Hybrid, "crowd number 4", 3),
            &US,
            minute,
            QueuePolicy::Refused,
        )
        .await
        .unwrap();
    assert_eq!(answer.hits[0].hit.key, "doc-04");
    assert!(answer.response.degraded_reason.contains("too busy"));
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "nothing waits for the deadline"
    );
}

#[tokio::test]
async fn a_tower_that_is_away_is_told_once() {
    let server = searcher().await;
    drop(server.encoder);
    // Until it has gone it may answer.
    let error = loop {
        match server.client.search(request(Mode::Dense, "river", 3)).await {
            Err(error) if error.to_string().contains("no server answers") => break error.to_string(),
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    assert!(
        error.starts_with(&format!("`{}` refused (Unavailable): question tower: ", server.url)),
        "{error}"
    );
    assert_eq!(error.matches("no server answers").count(), 1, "{error}");
    assert_eq!(error.matches("check the address").count(), 1, "{error}");
}

#[tokio::test]
async fn a_tower_can_be_asked_whether_it_answers() {
    let tower = encoder("f00d").await;
    let connected = QuestionTower::connect(&tower.url, Credentials::default())
        .await
        .unwrap();
    connected.check().await.unwrap();
    assert!(
        tokio::time::timeout(Duration::from_millis(50), connected.ended())
            .await
            .is_err(),
        "a service may come back"
    );
    drop(tower);
    let away = async || match connected.check().await {
        Err(dyad_searcher::Error::Tower {
            reason,
            transient: true,
        }) => Some(reason),
        _ => None,
    };
    while away().await.is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_tower_that_comes_later_is_waited_for() {
    let tower = encoder("f00d").await;
    let url = tower.url.clone();
    drop(tower);
    while QuestionTower::connect(&url, Credentials::default()).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let waiting = {
        let url = url.clone();
        tokio::spawn(async move {
            QuestionTower::connect_within(&url, Credentials::default(), Duration::from_mins(1)).await
        })
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    let _tower = encoder_at(url.trim_start_matches("http://"), "f00d").await;
    assert_eq!(waiting.await.unwrap().unwrap().model().fingerprint, "f00d");
}

#[tokio::test]
async fn a_search_without_time_is_refused_and_never_partial() {
    let server = searcher().await;
    let none = Some(Duration::ZERO);
    let error = server
        .engine
        .search(request(Mode::Bm25, "river", 3), &US, none, QueuePolicy::Refused)
        .await
        .unwrap_err();
    assert!(
        matches!(error, dyad_searcher::Error::Deadline(Duration::ZERO)),
        "{error}"
    );
    let batch = vec![request(Mode::Bm25, "river", 3); 4];
    let error = server.engine.search_batch(batch, &US, none).await.unwrap_err();
    assert!(
        matches!(error, dyad_searcher::Error::Deadline(Duration::ZERO)),
        "{error}"
    );
    assert_eq!(tonic::Status::from(error).code(), tonic::Code::DeadlineExceeded);
}

#[tokio::test]
async fn a_tower_whose_vectors_are_compared_in_another_way_is_refused() {
    for metric in [v1::Metric::L2, v1::Metric::Unspecified] {
        let tower = encoder_of("127.0.0.1:0", "f00d", metric).await;
        let error = QuestionTower::connect(&tower.url, Credentials::default())
            .await
            .unwrap_err();
        let got = format!(
            "model `words`: expected vectors compared by `cosine`, got `{}`",
            metric.as_str_name()
        );
        assert!(error.to_string().contains(&got), "{error}");
        assert_eq!(tonic::Status::from(error).code(), tonic::Code::FailedPrecondition);
    }
}
