//! The question tower in this process, with the real model where `DYAD_MODEL` names one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dyad_encoder::Compute;
use dyad_encoder::serve::{Handle, ServedModelOptions};
use dyad_proto::service::HttpConfig;
use dyad_proto::v1::Mode;
use dyad_searcher::question::{LocalOptions, QuestionTower, QuestionTowers};
use dyad_searcher::run::{Engine, EngineConfig, IndexPath};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::fixture::{keys, request, serve, write_index};
use crate::http_client::over_with;

fn options() -> LocalOptions {
    LocalOptions {
        device: "cpu".into(),
        dtype: "f32".into(),
        threads: 1,
        ..LocalOptions::default()
    }
}

#[tokio::test]
async fn questions_get_unit_vectors_and_like_questions_are_near() {
    let Some(model) = std::env::var_os("DYAD_MODEL") else {
        println!("skipped: DYAD_MODEL names no model directory");
        return;
    };
    let tower = QuestionTower::load(Path::new(&model), options()).await.unwrap();
    let dim = tower.model().dim;
    assert_eq!(tower.model().fingerprint.len(), 64);
    let questions = [
        "Who won Super Bowl 50?",
        "which team were the champions of super bowl 50",
        "How do plants make sugar?",
    ];
    let embedded = tower
        .embed(questions.map(String::from).to_vec(), Duration::from_mins(1))
        .await
        .unwrap();
    let rows: Vec<&[f32]> = embedded.vectors.chunks_exact(dim).collect();
    let dot = |a: usize, b: usize| rows[a].iter().zip(rows[b]).map(|(x, y)| x * y).sum::<f32>();
    for row in 0..3 {
        assert!((dot(row, row) - 1.0).abs() < 1e-4);
    }
    assert!(dot(0, 1) > 0.7 && dot(0, 2) < 0.3, "{} {}", dot(0, 1), dot(0, 2));
}

#[tokio::test]
async fn a_model_that_is_not_there_and_an_unknown_device_are_named() {
    let error = QuestionTower::load(Path::new("no/such/model"), options())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no/such/model") && error.contains("deploy/model.sh"),
        "{error}"
    );
    let odd = LocalOptions {
        device: "tpu".into(),
        ..options()
    };
    let error = QuestionTower::load(Path::new("no/such/model"), odd)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("device must be `cpu`") && error.contains("tpu"),
        "{error}"
    );
}

#[tokio::test]
async fn readiness_falls_for_good_when_the_model_thread_ends() {
    let Some(model) = std::env::var_os("DYAD_MODEL") else {
        println!("skipped: DYAD_MODEL names no model directory");
        return;
    };
    let compute = Compute {
        threads: Some(1),
        ..Compute::default()
    };
    let handle =
        tokio::task::spawn_blocking(move || Handle::start(Path::new(&model), ServedModelOptions::new(compute)));
    let handle = handle.await.unwrap().unwrap();
    let index = tempfile::tempdir().unwrap();
    write_index(index.path(), 1, "f00d");
    // The index is of another model: BM25 answers.
    let towers = QuestionTowers::new(vec![QuestionTower::running(handle.clone(), &compute)], true).unwrap();
    let engine = Engine::open_all(vec![IndexPath::new(index.path())], towers, EngineConfig::default());
    let engine = Arc::new(engine.unwrap());
    let served = serve(Arc::clone(&engine)).await;
    let http = over_with(Arc::clone(&engine), HttpConfig::default()).await;
    let channel = tonic::transport::Endpoint::from_shared(served.url.clone())
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut told = HealthClient::new(channel)
        .watch(HealthCheckRequest::default())
        .await
        .unwrap()
        .into_inner();
    engine.check_readiness().await.unwrap();
    assert_eq!(http.text("GET", "/readyz").await.0, 200);
    assert_eq!(told.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    handle.stop();
    tokio::time::timeout(Duration::from_mins(1), handle.ended())
        .await
        .unwrap();
    for _ in 0..2 {
        let reason = engine.check_readiness().await.unwrap_err();
        assert!(
            reason.contains("question tower `all-MiniLM-L6-v2`") && reason.contains("stopped"),
            "{reason}"
        );
    }
    let (status, body) = http.text("GET", "/readyz").await;
    assert!(status == 503 && body.contains("stopped"), "{body}");
    let next = tokio::time::timeout(Duration::from_mins(1), told.message())
        .await
        .unwrap();
    assert_eq!(next.unwrap().unwrap().status(), ServingStatus::NotServing);
    // Who asks all the same is answered.
    let reply = served
        .client
        .search(request(Mode::Bm25, "the deep river", 5))
        .await
        .unwrap();
    assert_eq!(keys(&reply.hits).len(), 5);
}
