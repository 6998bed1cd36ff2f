//! Probes, metrics, a full queue, and the end.

use std::time::{Duration, Instant};

use dyad_encoder::Tower;
use dyad_encoder::serve::{EncodeOptions, NotReady, ServedModelOptions};
use dyad_encoder::tokenize::Budget;
use dyad_proto::v1;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{MODEL, REQUESTS, Server, grpc_request, serve, simple};
use crate::service::one_thread;

/// One text per batch: many texts take long, even on a tiny model.
fn slow() -> ServedModelOptions {
    ServedModelOptions {
        budget: Budget { tokens: 1, rows: 1 },
        queue_tokens: 20_000 * 24,
        ..one_thread()
    }
}

/// Fills the queue to its last token with texts of the longest length, for as long as the task lives.
async fn fill(server: &Server) -> tokio::task::JoinHandle<()> {
    let (handle, options) = (
        server.handle.clone(),
        EncodeOptions::until(Instant::now() + Duration::from_mins(5)),
    );
    let task = tokio::spawn(async move {
        let texts = vec!["the river ".repeat(40); 20_000];
        let _ = handle.encode_patiently(Tower::Answer, texts, options).await;
    });
    for _ in 0..600 {
        if server.metric("dyad_encoder_queue_tokens").await == server.metric("dyad_encoder_queue_tokens_limit").await {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the queue did not fill");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_429_and_the_service_ready_nevertheless() {
    let server = serve(slow()).await;
    let bulk = fill(&server).await;
    for input in [json!("the river"), json!([5, 6])] {
        let reply = server.post(&json!({"input": input, "tokenizer": MODEL})).await;
        assert_eq!(
            (reply.status, reply.header("retry-after")),
            (429, Some("1")),
            "{}",
            reply.text()
        );
        assert_eq!(reply.json()["error"]["code"], "queue_full");
        assert!(reply.text().contains("the limit of 480000"), "{}", reply.text());
    }
    assert_eq!(
        server.metric("dyad_encoder_refused_total{reason=\"queue_full\"}").await,
        Some(2.0)
    );
    // Thousands of texts wait, and a probe does not wait for them.
    assert_eq!(server.get("/readyz").await.status, 200);
    assert!(!bulk.is_finished());
    bulk.abort();
    // Its caller gone, the room comes back.
    let mut status = 429;
    for _ in 0..600 {
        status = server.post(&json!({"input": "the river"})).await.status;
        if status != 429 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_do_not_come_leave_places_for_probes() {
    let server = simple().await;
    let mut held = Vec::new();
    for _ in 0..REQUESTS {
        let mut stream = TcpStream::connect(server.client.0).await.unwrap();
        let head =
            "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        // The body is asked for, so the request is under way; it does not come.
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).await.unwrap();
        assert_eq!(&reply, b"HTTP/1.1 100");
        held.push(stream);
    }
    let mut reply = server.post(&json!({"input": "the river"})).await;
    assert_eq!(
        (reply.status, reply.header("retry-after")),
        (429, Some("1")),
        "{}",
        reply.text()
    );
    assert_eq!(reply.json()["error"]["code"], "requests_full");
    for path in ["/livez", "/readyz", "/metrics", "/v1/models"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    drop(held);
    while reply.status == 429 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        reply = server.post(&json!({"input": "the river"})).await;
    }
    assert_eq!(reply.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_and_models_answer() {
    let server = simple().await;
    for path in ["/livez", "/readyz"] {
        let reply = server.get(path).await;
        assert_eq!((reply.status, reply.text().as_str()), (200, "ok\n"), "{path}");
    }
    let forward_passes = server.metric("dyad_encoder_batch_seconds_count").await;
    assert_eq!(forward_passes, Some(2.0), "one per tower");
    let fingerprint = server.handle.info().fingerprint.clone();
    let list = server.get("/v1/models").await.json();
    assert_eq!(
        (&list["object"], &list["data"][0]["id"]),
        (&json!("list"), &json!(MODEL))
    );
    assert_eq!(list["data"][0]["dimensions"], 36);
    for name in [MODEL, &fingerprint] {
        let model = server.get(&format!("/v1/models/{name}")).await.json();
        assert_eq!(
            (&model["object"], &model["fingerprint"]),
            (&json!("model"), &json!(fingerprint))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_has_a_deadline_and_is_shared_for_a_moment() {
    let server = simple().await;
    let error = server.handle.ready(Duration::ZERO).await.unwrap_err();
    assert!(
        matches!(error, NotReady::Failed { .. }) && error.to_string().contains("deadline"),
        "{error}"
    );
    tokio::time::sleep(Duration::from_millis(1100)).await;
    for _ in 0..20 {
        server.handle.ready(Duration::from_mins(1)).await.unwrap();
    }
    let passes = server.metric("dyad_encoder_batch_seconds_count").await.unwrap();
    assert!((2.0..20.0).contains(&passes), "20 questions share probes: {passes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_what_happened() {
    let server = simple().await;
    let usage = server
        .post(&json!({"input": ["the river", "a king"], "input_type": "question"}))
        .await
        .json();
    server.post(&json!({"input": "the river ".repeat(100)})).await;
    server.post(&json!({"input": ""})).await;
    server.get("/nowhere").await;
    let grpc = crate::service::serve(server.handle.clone()).await;
    let channel = tonic::transport::Endpoint::from_shared(grpc.url.clone())
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut client = v1::encoder_client::EncoderClient::new(channel.clone());
    client
        .encode(grpc_request(v1::Tower::Answer, &["the river"]))
        .await
        .unwrap();
    client
        .encode(grpc_request(v1::Tower::Unspecified, &["the river"]))
        .await
        .unwrap_err();
    let requests = [
        grpc_request(v1::Tower::Answer, &["the river"]),
        grpc_request(v1::Tower::Answer, &["a", ""]),
    ];
    let mut stream = client
        .encode_stream(futures_util::stream::iter(requests))
        .await
        .unwrap()
        .into_inner();
    while stream.message().await.is_ok_and(|reply| reply.is_some()) {}
    // Another server's.
    v1::searcher_client::SearcherClient::new(channel)
        .search(v1::SearchRequest::default())
        .await
        .unwrap_err();

    let reply = server.get("/metrics").await;
    assert!(
        reply
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("application/openmetrics-text"))
    );
    let text = reply.text();
    let build = concat!(
        "dyad_encoder_build_info{version=\"",
        env!("CARGO_PKG_VERSION"),
        "\",revision=\"unknown\"} 1"
    );
    assert!(text.lines().any(|line| line == build), "{text}");
    let tokens = usage["usage"]["total_tokens"].as_u64().unwrap();
    for line in [
        "dyad_encoder_requests_total{route=\"/v1/embeddings\",status=\"200\"} 2",
        "dyad_encoder_requests_total{route=\"/v1/embeddings\",status=\"400\"} 1",
        "dyad_encoder_requests_total{route=\"none\",status=\"404\"} 1",
        "dyad_encoder_requests_total{route=\"/dyad.v1.Encoder/Encode\",status=\"OK\"} 1",
        "dyad_encoder_requests_total{route=\"/dyad.v1.Encoder/Encode\",status=\"INVALID_ARGUMENT\"} 1",
        "dyad_encoder_requests_total{route=\"/dyad.v1.Encoder/EncodeStream\",status=\"OK\"} 1",
        "dyad_encoder_requests_total{route=\"/dyad.v1.Encoder/EncodeStream\",status=\"INVALID_ARGUMENT\"} 1",
        "dyad_encoder_requests_total{route=\"/dyad.v1.Searcher/Search\",status=\"UNIMPLEMENTED\"} 1",
        "dyad_encoder_request_seconds_count{route=\"/v1/embeddings\"} 3",
        "dyad_encoder_texts_total{tower=\"question\"} 2",
        "dyad_encoder_texts_total{tower=\"answer\"} 3",
        &format!("dyad_encoder_tokens_total{{tower=\"question\"}} {tokens}"),
        "dyad_encoder_texts_truncated_total 1",
        "dyad_encoder_refused_total{reason=\"empty\"} 1",
        "dyad_encoder_queue_tokens 0",
        "dyad_encoder_queue_seconds_count 4",
        "dyad_encoder_batches_failed_total 0",
        "# EOF",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    let (passes, texts) = ("dyad_encoder_batch_texts_count", "dyad_encoder_batch_texts_sum");
    assert!(server.metric(passes).await.unwrap() >= 3.0);
    assert_eq!(server.metric(texts).await, Some(5.0));
    assert!(
        text.contains(&format!("dyad_encoder_model_info{{name=\"{MODEL}\"")),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_under_way_is_answered_before_the_end() {
    let server = serve(slow()).await;
    let (client, Server { stop, task, .. }) = (server.client, server);
    let _idle = TcpStream::connect(client.0).await.unwrap();
    let long = tokio::spawn(async move {
        client
            .post(&json!({"input": vec!["the river ".repeat(40); 1024]}))
            .await
    });
    while client.metric("dyad_encoder_queue_tokens").await == Some(0.0) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stop.send(()).unwrap();
    let reply = long.await.unwrap();
    assert_eq!((reply.status, reply.vectors().len()), (200, 1024));
    tokio::time::timeout(Duration::from_mins(1), task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(TcpStream::connect(client.0).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn a_server_that_is_about_to_stop_is_alive_and_not_ready() {
    let server = simple().await;
    assert_eq!(server.get("/readyz").await.status, 200);
    server.stopping.store(true, std::sync::atomic::Ordering::Relaxed);
    let reply = server.get("/readyz").await;
    assert!(reply.status == 503 && String::from_utf8(reply.body).unwrap().contains("about to stop"));
    assert_eq!(server.get("/livez").await.status, 200);
}
