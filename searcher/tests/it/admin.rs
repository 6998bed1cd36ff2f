//! Status, reload, roll-back, verification.

use std::time::Duration;

use dyad_proto::v1;
use dyad_proto::v1::Mode;
use dyad_searcher::run::EngineConfig;

use crate::fixture::{US, request, searcher, searcher_over, write_index, write_index_of};

#[tokio::test]
async fn status_names_index_models_and_shards() {
    let server = searcher().await;
    let status = server.admin().await.status(v1::StatusRequest::default()).await.unwrap();
    assert_eq!((status.generation, status.documents, status.shards.len()), (1, 60, 2));
    assert_eq!(status.index_model.unwrap().fingerprint, "f00d");
    assert_eq!(status.question_model.unwrap().name, "words");
    let measured = status.shards[1].certificate.as_ref().unwrap();
    let recall: Vec<_> = measured
        .recall
        .iter()
        .map(|point| (point.ef, point.recall_at_10))
        .collect();
    assert_eq!((measured.by_questions, recall), (true, vec![(64, 0.9), (300, 0.98)]));
    assert!(
        status
            .shards
            .iter()
            .all(|shard| shard.documents == 30 && shard.dense_bytes > 0 && shard.text_bytes > 0)
    );
}

#[tokio::test]
async fn a_new_generation_is_served_after_reload_and_the_old_one_after_rollback() {
    let server = searcher().await;
    let admin = server.admin().await;
    write_index(server.index.path(), 2, "f00d");
    let served = async || {
        server
            .client
            .search(request(Mode::Dense, "river", 1))
            .await
            .unwrap()
            .generation
    };
    assert_eq!(served().await, 1);
    let reply = admin.reload(v1::ReloadRequest::default()).await.unwrap();
    assert_eq!((reply.previous_generation, reply.generation, served().await), (1, 2, 2));
    assert_eq!(
        admin
            .status(v1::StatusRequest::default())
            .await
            .unwrap()
            .previous_generation,
        1
    );
    // The default of "the one before" is resolved by the client: on the wire every retry would go back further.
    let error = admin
        .rollback(v1::RollbackRequest {
            generation: 0,
            ..Default::default()
        })
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("expected the number of a generation, got 0"), "{error}");
    let reply = admin
        .rollback(v1::RollbackRequest {
            generation: 1,
            ..Default::default()
        })
        .await
        .unwrap();
    assert_eq!((reply.previous_generation, reply.generation, served().await), (2, 1, 1));
    assert_eq!(
        dyad_index::manifest::current_generation(server.index.path()).unwrap(),
        Some(1)
    );
    let error = admin
        .rollback(v1::RollbackRequest {
            generation: 7,
            ..Default::default()
        })
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("no generation 7. Present: 1, 2"), "{error}");
    assert_eq!(
        admin
            .status(v1::StatusRequest::default())
            .await
            .unwrap()
            .previous_generation,
        0
    );
}

#[tokio::test]
async fn a_generation_can_be_served_whatever_current_says() {
    let index = tempfile::tempdir().unwrap();
    write_index(index.path(), 1, "f00d");
    write_index(index.path(), 2, "beef");
    let config = EngineConfig {
        generation: Some(1),
        ..EngineConfig::default()
    };
    let server = searcher_over(index, config).await;
    assert_eq!(
        server
            .admin()
            .await
            .status(v1::StatusRequest::default())
            .await
            .unwrap()
            .generation,
        1
    );
    assert_eq!(
        server
            .client
            .search(request(Mode::Dense, "river", 1))
            .await
            .unwrap()
            .generation,
        1
    );
}

/// The pointer on disk and the served generation always agree, whenever a caller leaves.
#[tokio::test(flavor = "multi_thread")]
async fn cancelled_rollbacks_leave_the_pointer_and_the_served_together() {
    let server = searcher().await;
    write_index(server.index.path(), 2, "f00d");
    server.engine.reload("").await.unwrap();
    for round in 0..200u64 {
        let patience = Duration::from_micros(round * 37 % 3000);
        drop(tokio::time::timeout(patience, server.engine.rollback("", 1 + round % 2)).await);
        // Refused, but only when its turn has come: what was begun has ended.
        assert!(server.engine.rollback("", 77).await.is_err());
        let current = dyad_index::manifest::current_generation(server.index.path()).unwrap();
        assert_eq!(
            current,
            Some(server.engine.index("", &US).unwrap().snapshot().manifest().generation),
            "round {round}"
        );
    }
}

/// `serve --watch`: a new generation without being told, one of another model not, and a rollback by somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn the_generation_that_current_names_is_followed() {
    let server = searcher().await;
    let engine = std::sync::Arc::clone(&server.engine);
    let follower = tokio::spawn(async move { engine.follow(Duration::from_millis(5)).await });
    let index = server.index.path();
    let serves = async |generation: u64| {
        let until = std::time::Instant::now() + Duration::from_secs(30);
        while server
            .client
            .search(request(Mode::Dense, "river", 1))
            .await
            .unwrap()
            .generation
            != generation
        {
            assert!(
                std::time::Instant::now() < until,
                "generation {generation} is not served"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    write_index(index, 2, "f00d");
    serves(2).await;
    // Of another model than the tower's: what is served stays.
    write_index(index, 3, "beef");
    tokio::time::sleep(Duration::from_millis(200)).await;
    serves(2).await;
    let current = fs_err::read_to_string(index.join("CURRENT")).unwrap();
    fs_err::write(index.join("CURRENT"), "nonsense").unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    fs_err::write(index.join("CURRENT"), current).unwrap();
    write_index(index, 4, "f00d");
    serves(4).await;
    dyad_index::manifest::point_to(index, 1, &dyad_index::storage::WriteLock::acquire(index).unwrap()).unwrap();
    serves(1).await;
    // Another index takes the directory's place, with a generation of the same number.
    let other = tempfile::tempdir_in(index.parent().unwrap()).unwrap();
    write_index_of(&[("doc-99".to_owned(), "river".to_owned())], other.path(), 1, "f00d");
    let before = index.with_extension("before");
    fs_err::rename(index, &before).unwrap();
    fs_err::rename(other.path(), index).unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while server
        .client
        .search(request(Mode::Dense, "river", 1))
        .await
        .unwrap()
        .hits[0]
        .key
        != "doc-99"
    {
        assert!(std::time::Instant::now() < until, "the other index is not served");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    fs_err::remove_dir_all(before).unwrap();
    assert!(!follower.is_finished());
    follower.abort();
}

#[tokio::test]
async fn a_directory_that_has_gone_is_told_and_is_no_lost_data() {
    let server = searcher().await;
    fs_err::rename(
        server.index.path().join("CURRENT"),
        server.index.path().join("elsewhere"),
    )
    .unwrap();
    let mut client = v1::admin_client::AdminClient::connect(server.url.clone())
        .await
        .unwrap();
    assert_eq!(
        client.reload(v1::ReloadRequest::default()).await.unwrap_err().code(),
        tonic::Code::NotFound
    );
    fs_err::remove_dir_all(server.index.path()).unwrap();
    for status in [
        client.reload(v1::ReloadRequest::default()).await.unwrap_err(),
        client
            .rollback(v1::RollbackRequest {
                generation: 1,
                ..Default::default()
            })
            .await
            .unwrap_err(),
    ] {
        assert!(
            matches!(status.code(), tonic::Code::NotFound | tonic::Code::FailedPrecondition),
            "{status}"
        );
    }
    let status = client.status(v1::StatusRequest::default()).await.unwrap().into_inner();
    assert!(status.generation == 1 && !status.index_error.is_empty(), "{status:?}");
    assert_eq!(
        server
            .client
            .search(request(Mode::Dense, "river", 1))
            .await
            .unwrap()
            .generation,
        1
    );
}

#[tokio::test]
async fn a_tower_that_is_down_shows_in_the_status() {
    let server = searcher().await;
    let status = server.admin().await.status(v1::StatusRequest::default()).await.unwrap();
    assert_eq!(status.question_tower_error, "");
    server.encoder.stop();
    let mut told = String::new();
    for _ in 0..100 {
        told = server
            .admin()
            .await
            .status(v1::StatusRequest::default())
            .await
            .unwrap()
            .question_tower_error;
        if !told.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(told.contains(&server.encoder.url), "{told}");
}

/// A verification that its caller has left ends, and gives its turn to the next one.
#[tokio::test(flavor = "multi_thread")]
async fn verifications_run_one_at_a_time_and_end_with_their_callers() {
    let server = searcher().await;
    let hour = Duration::from_hours(1);
    for _ in 0..50 {
        drop(tokio::time::timeout(Duration::from_micros(200), server.engine.verify("", hour)).await);
    }
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while server.engine.verify("", hour).await.is_err() {
        assert!(std::time::Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let late = server.engine.verify("", Duration::ZERO).await.unwrap_err();
    assert_eq!(tonic::Status::from(late).code(), tonic::Code::DeadlineExceeded);
}

#[tokio::test]
async fn a_generation_of_another_model_is_not_served() {
    let server = searcher().await;
    write_index(server.index.path(), 2, "beef");
    let error = server
        .admin()
        .await
        .reload(v1::ReloadRequest::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("fingerprint beef") && error.contains("fingerprint f00d"),
        "{error}"
    );
    let reply = server.client.search(request(Mode::Dense, "river", 1)).await.unwrap();
    assert_eq!(reply.generation, 1);
}

#[tokio::test]
async fn verification_finds_damage_and_names_the_file() {
    let server = searcher().await;
    let admin = server.admin().await;
    let reply = admin.verify(v1::VerifyRequest::default()).await.unwrap();
    assert!(reply.intact && reply.problems.is_empty() && reply.bytes_read > 0);
    // A copy is damaged and put in place, as a bad disk would: the served map keeps the old file.
    let path = server.index.path().join("shards/g1-0/dense.dyad");
    let mut bytes = fs_err::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs_err::remove_file(&path).unwrap();
    fs_err::write(&path, bytes).unwrap();
    admin.reload(v1::ReloadRequest::default()).await.unwrap();
    let reply = admin.verify(v1::VerifyRequest::default()).await.unwrap();
    assert!(
        !reply.intact && reply.problems[0].contains("g1-0/dense.dyad"),
        "{:?}",
        reply.problems
    );
}
