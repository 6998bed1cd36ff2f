//! A real server on a loopback port, asked by real clients.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bounds;
mod drain;
mod golden_wire;
mod handshake;
mod http;
mod keys;
mod limits_table;
mod pki;
mod security;
mod security_metrics;

use std::pin::Pin;
use std::time::Duration;

use dyad_proto::client::{ClientConfig, ClientError, EncoderClient};
use dyad_proto::service::{self, Health, ServerConfig};
use dyad_proto::v1::encoder_server::EncoderServer;
use dyad_proto::{limits, v1, validate, vector};
use tokio::sync::oneshot;
use tokio_stream::{Stream, StreamExt as _};
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};
use tonic_reflection::pb::v1 as reflection;

/// Answers each text with its length in bytes, and takes its time where the text says `sleep`.
struct Lengths;

type Replies = Pin<Box<dyn Stream<Item = Result<v1::EncodeResponse, Status>> + Send>>;

async fn lengths(request: v1::EncodeRequest) -> Result<v1::EncodeResponse, Status> {
    validate::encode_request(&request)?;
    if request.texts[0] == "away" {
        return Err(Status::unavailable("the tower is away. Start it"));
    }
    if request.texts[0] == "sleep" {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let values: Vec<f32> = request.texts.iter().map(|text| text.len() as f32).collect();
    Ok(v1::EncodeResponse {
        id: request.id,
        dim: 1,
        vectors: vector::pack(&values),
        ..Default::default()
    })
}

#[tonic::async_trait]
impl v1::encoder_server::Encoder for Lengths {
    async fn info(&self, _: Request<v1::InfoRequest>) -> Result<Response<v1::InfoResponse>, Status> {
        Ok(Response::new(v1::InfoResponse {
            model: Some(v1::ModelInfo {
                name: "lengths".into(),
                ..Default::default()
            }),
            ..Default::default()
        }))
    }

    async fn encode(&self, request: Request<v1::EncodeRequest>) -> Result<Response<v1::EncodeResponse>, Status> {
        lengths(request.into_inner()).await.map(Response::new)
    }

    /// A text's score is its length.
    async fn score(&self, request: Request<v1::ScoreRequest>) -> Result<Response<v1::ScoreResponse>, Status> {
        let v1::ScoreRequest { id, texts, .. } = request.into_inner();
        let mut scores: Vec<f32> = texts.iter().map(|text| text.len() as f32).collect();
        if texts.iter().any(|text| text == "too few") {
            scores.pop();
        }
        if texts.iter().any(|text| text == "no number") {
            scores.fill(f32::NAN);
        }
        Ok(Response::new(v1::ScoreResponse {
            id,
            scores,
            ..Default::default()
        }))
    }

    type EncodeStreamStream = Replies;

    async fn encode_stream(&self, request: Request<Streaming<v1::EncodeRequest>>) -> Result<Response<Replies>, Status> {
        Ok(Response::new(Box::pin(
            request.into_inner().then(|request| async { lengths(request?).await }),
        )))
    }
}

struct Running {
    url: String,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Result<(), service::ServeError>>,
}

async fn start(drain: Duration) -> Running {
    start_with(ServerConfig {
        drain,
        ..ServerConfig::default()
    })
    .await
}

async fn start_with(config: ServerConfig) -> Running {
    let listener = service::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel();
    let routes = Routes::new(service::encoder(Lengths));
    let health = Health::new().serving::<EncoderServer<Lengths>>().await;
    let shutdown = async { stopped.await.unwrap_or(()) };
    Running {
        url,
        stop,
        task: tokio::spawn(service::serve(listener, routes, health, shutdown, config)),
    }
}

fn texts(texts: &[&str]) -> v1::EncodeRequest {
    let texts = texts.iter().map(|text| (*text).to_owned()).collect();
    v1::EncodeRequest {
        tower: v1::Tower::Answer.into(),
        texts,
        ..Default::default()
    }
}

#[tokio::test]
async fn calls_streams_and_refusals() {
    let server = start(Duration::from_secs(5)).await;
    let client = EncoderClient::connect(&server.url, ClientConfig::default())
        .await
        .unwrap();
    assert_eq!(client.info().await.unwrap().name, "lengths");
    let reply = client.encode(texts(&["a", "abc"])).await.unwrap();
    assert_eq!(vector::unpack(&reply.vectors, 2, 1, "vectors").unwrap(), [1.0, 3.0]);

    let requests = (0..50u64).map(|id| v1::EncodeRequest { id, ..texts(&["ab"]) });
    let replies = client
        .stream(tokio_stream::iter(requests), Duration::from_mins(1))
        .await
        .unwrap();
    let ids: Vec<u64> = replies.map(|reply| reply.unwrap().id).collect().await;
    assert_eq!(ids, (0..50).collect::<Vec<_>>());

    let error = client.encode(texts(&["a", ""])).await.unwrap_err();
    assert!(
        error.to_string().contains("`texts[1]`: expected text, got none"),
        "{error}"
    );
    // As a server that knows no other vectors than those of f32.
    let int8 = v1::EncodeRequest {
        precision: v1::Precision::Int8.into(),
        ..texts(&["a"])
    };
    let error = client.encode(int8).await.unwrap_err().to_string();
    assert!(
        error.contains("expected PRECISION_INT8, got PRECISION_FLOAT32"),
        "{error}"
    );
}

/// The one connection that this server takes is another client's, until it is old.
#[tokio::test]
async fn a_connection_ends_at_its_age_and_its_client_connects_again() {
    let age = Duration::from_millis(300);
    let server = start_with(ServerConfig {
        connections: 1,
        connection_age: age,
        ..ServerConfig::default()
    })
    .await;
    // A request that is on its way when the connection ends has another attempt.
    let config = ClientConfig {
        attempts: 2,
        first_wait: Duration::from_millis(1),
        ..ClientConfig::default()
    };
    let old = EncoderClient::connect(&server.url, config.clone()).await.unwrap();
    assert_eq!(old.info().await.unwrap().name, "lengths");
    let next = EncoderClient::connect(&server.url, config).await.unwrap();
    assert_eq!(
        tokio::time::timeout(Duration::from_secs(20), next.info())
            .await
            .unwrap()
            .unwrap()
            .name,
        "lengths"
    );
    let again = async {
        for _ in 0..40 {
            old.encode(texts(&["a"])).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    drop(next);
    tokio::time::timeout(Duration::from_secs(20), again).await.unwrap();
}

#[tokio::test]
async fn scores_are_one_finite_number_for_each_text() {
    let server = start(Duration::from_secs(1)).await;
    let client = EncoderClient::connect(&server.url, ClientConfig::default())
        .await
        .unwrap();
    let score = async |texts: &[&str]| {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        client
            .score(v1::ScoreRequest {
                id: 9,
                query: "why".into(),
                texts,
                ..Default::default()
            })
            .await
    };
    let reply = score(&["a", "abc"]).await.unwrap();
    assert_eq!((reply.id, reply.scores), (9, vec![1.0, 3.0]));
    let error = score(&["a", "too few"]).await.unwrap_err().to_string();
    assert!(error.contains("`scores`: expected 2, one per text, got 1"), "{error}");
    let error = score(&["no number"]).await.unwrap_err().to_string();
    assert!(
        error.contains("`scores[0]`: expected a finite number, got NaN"),
        "{error}"
    );
    let many = vec!["a"; 1025];
    let error = score(&many).await.unwrap_err().to_string();
    assert!(error.contains("`texts`: expected at most 1024 elements"), "{error}");
    drop(server.stop);
}

#[tokio::test]
async fn messages_above_grpcs_usual_4_mib_pass_and_above_ours_are_refused_with_the_limit() {
    let server = start(Duration::from_secs(5)).await;
    let client = EncoderClient::connect(&server.url, ClientConfig::default())
        .await
        .unwrap();
    let text = "x".repeat(limits::MAX_TEXT_BYTES);
    let reply = client.encode(texts(&[text.as_str(); 8])).await.unwrap();
    assert_eq!(reply.vectors.len(), 32);
    let error = client
        .encode(texts(&vec![text.as_str(); 33]))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("expected at most 33554432 bytes"), "{error}");
    // The server refuses requests that a client has not checked.
    let mut raw = v1::encoder_client::EncoderClient::connect(server.url.clone())
        .await
        .unwrap();
    let status = raw.encode(texts(&vec![text.as_str(); 33])).await.unwrap_err();
    assert!(status.message().contains("33554432"), "{status}");
}

#[tokio::test]
async fn running_requests_finish_before_the_server_ends() {
    let server = start(Duration::from_secs(5)).await;
    let client = EncoderClient::connect(&server.url, ClientConfig::default())
        .await
        .unwrap();
    let call = tokio::spawn(async move { client.encode(texts(&["sleep"])).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.stop.send(()).unwrap();
    assert!(call.await.unwrap().is_ok());
    tokio::time::timeout(Duration::from_secs(5), server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_drain_has_a_deadline() {
    let server = start(Duration::from_millis(10)).await;
    let config = ClientConfig {
        attempts: 1,
        ..ClientConfig::default()
    };
    let client = EncoderClient::connect(&server.url, config).await.unwrap();
    let call = tokio::spawn(async move { client.encode(texts(&["sleep"])).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.stop.send(()).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), server.task)
        .await
        .unwrap()
        .unwrap();
    assert!(ended.unwrap_err().to_string().contains("still running"));
    drop(call);
}

#[tokio::test]
async fn health_and_reflection_answer() {
    let server = start(Duration::from_secs(5)).await;
    let channel = tonic::transport::Endpoint::from_shared(server.url.clone())
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
    let request = tonic_health::pb::HealthCheckRequest {
        service: "dyad.v1.Encoder".into(),
    };
    let status = health.check(request).await.unwrap().into_inner().status;
    assert_eq!(
        status,
        tonic_health::pb::health_check_response::ServingStatus::Serving as i32
    );

    let mut client = reflection::server_reflection_client::ServerReflectionClient::new(channel);
    let message_request = Some(reflection::server_reflection_request::MessageRequest::ListServices(
        String::new(),
    ));
    let request = reflection::ServerReflectionRequest {
        host: String::new(),
        message_request,
    };
    let mut replies = client
        .server_reflection_info(tokio_stream::iter([request]))
        .await
        .unwrap()
        .into_inner();
    let reply = format!("{:?}", replies.next().await.unwrap().unwrap());
    assert!(
        reply.contains("dyad.v1.Encoder") && reply.contains("grpc.health.v1.Health"),
        "{reply}"
    );
    assert!(!reply.contains("dyad.v1.Searcher"), "only what is served: {reply}");
}

#[tokio::test]
async fn a_port_in_use_is_named_with_the_way_out() {
    let server = start(Duration::from_secs(5)).await;
    let error = service::bind(server.url.trim_start_matches("http://"))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("choose another one with `--listen`"), "{error}");
    let error = service::bind("nonsense").await.unwrap_err().to_string();
    assert!(error.contains("HOST:PORT"), "{error}");
}

#[tokio::test]
async fn an_absent_server_and_a_bad_url_are_named() {
    let config = ClientConfig {
        attempts: 2,
        first_wait: Duration::from_millis(1),
        ..ClientConfig::default()
    };
    let error = EncoderClient::connect("http://127.0.0.1:1", config.clone())
        .await
        .unwrap_err();
    assert!(error.is_transient());
    assert!(
        error
            .to_string()
            .contains("no server answers at `http://127.0.0.1:1` (2 attempts)"),
        "{error}"
    );
    let error = EncoderClient::connect("localhost:7700", config).await.unwrap_err();
    assert!(matches!(error, ClientError::Url { .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_answers_that_it_cannot_is_not_called_absent() {
    let server = start(Duration::from_secs(5)).await;
    let config = ClientConfig {
        attempts: 2,
        first_wait: Duration::from_millis(1),
        ..ClientConfig::default()
    };
    let client = EncoderClient::connect(&server.url, config).await.unwrap();
    let error = client.encode(texts(&["away"])).await.unwrap_err();
    assert!(error.is_transient());
    assert_eq!(
        error.to_string(),
        format!("`{}` refused (Unavailable): the tower is away. Start it", server.url)
    );
    // It ends, and now no server answers.
    server.stop.send(()).unwrap();
    server.task.await.unwrap().unwrap();
    let error = client.encode(texts(&["a"])).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_call_has_a_deadline() {
    let server = start(Duration::from_secs(5)).await;
    let client = EncoderClient::connect(&server.url, ClientConfig::default())
        .await
        .unwrap();
    let error = client
        .encode_within(texts(&["sleep"]), Duration::from_millis(50))
        .await
        .unwrap_err();
    assert!(matches!(error, ClientError::Deadline { .. }), "{error}");
}
