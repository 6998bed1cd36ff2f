//! What a client may not do: keep replies, connections or memory for as long as it likes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use dyad_proto::service::{self, Health, ServerConfig, UntilSent};
use dyad_proto::v1;
use dyad_proto::v1::encoder_server::EncoderServer;
use h2::client::{ResponseFuture, SendRequest};
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio_stream::{Stream, StreamExt as _};
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};

/// Replies with a large vector, and counts the replies that were not yet sent.
struct Large {
    bytes: usize,
    kept: Arc<AtomicUsize>,
}

struct Kept(Arc<AtomicUsize>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

type Replies = Pin<Box<dyn Stream<Item = Result<v1::EncodeResponse, Status>> + Send>>;

#[tonic::async_trait]
impl v1::encoder_server::Encoder for Large {
    async fn info(&self, _: Request<v1::InfoRequest>) -> Result<Response<v1::InfoResponse>, Status> {
        Ok(Response::new(v1::InfoResponse::default()))
    }

    async fn encode(&self, _: Request<v1::EncodeRequest>) -> Result<Response<v1::EncodeResponse>, Status> {
        self.kept.fetch_add(1, Ordering::SeqCst);
        let mut reply = Response::new(v1::EncodeResponse {
            vectors: vec![7; self.bytes],
            ..Default::default()
        });
        reply
            .extensions_mut()
            .insert(UntilSent::new(Kept(Arc::clone(&self.kept))));
        Ok(reply)
    }

    async fn score(&self, _: Request<v1::ScoreRequest>) -> Result<Response<v1::ScoreResponse>, Status> {
        Err(Status::failed_precondition("this model embeds single texts"))
    }

    type EncodeStreamStream = Replies;

    async fn encode_stream(&self, request: Request<Streaming<v1::EncodeRequest>>) -> Result<Response<Replies>, Status> {
        let reply = |request: Result<v1::EncodeRequest, Status>| {
            request.map(|request| v1::EncodeResponse {
                id: request.id,
                ..Default::default()
            })
        };
        Ok(Response::new(Box::pin(request.into_inner().map(reply))))
    }
}

struct Running {
    address: String,
    kept: Arc<AtomicUsize>,
    stop: oneshot::Sender<()>,
    fail: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Result<(), service::ServeError>>,
}

async fn start(bytes: usize, config: ServerConfig) -> Running {
    let listener = service::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (stop, stopped) = oneshot::channel();
    let (fail, failed) = oneshot::channel();
    let kept = Arc::new(AtomicUsize::new(0));
    let routes = Routes::new(service::encoder(Large {
        bytes,
        kept: Arc::clone(&kept),
    }));
    let health = Health::new().serving::<EncoderServer<Large>>().await;
    let (ready, follow) = watch::channel(true);
    let health = health.while_ready(follow);
    tokio::spawn(async move {
        if failed.await.is_ok() {
            ready.send_replace(false);
        }
    });
    let shutdown = async { drop(stopped.await) };
    Running {
        address,
        kept,
        stop,
        fail,
        task: tokio::spawn(service::serve(listener, routes, health, shutdown, config)),
    }
}

/// An HTTP/2 client that reads a given part of a reply.
async fn client(address: &str, window: u32) -> (SendRequest<Bytes>, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = h2::client::Builder::new()
        .initial_window_size(window)
        .handshake(stream)
        .await
        .unwrap();
    (sender.ready().await.unwrap(), tokio::spawn(connection))
}

/// A message after its header.
fn framed(message: &[u8]) -> Bytes {
    let mut frame = vec![0];
    frame.extend((message.len() as u32).to_be_bytes());
    frame.extend(message);
    frame.into()
}

async fn call(sender: &SendRequest<Bytes>, path: &str, body: Bytes) -> ResponseFuture {
    let request = http::Request::post(format!("http://dyad{path}"));
    let request = request
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let (reply, mut stream) = sender
        .clone()
        .ready()
        .await
        .unwrap()
        .send_request(request, false)
        .unwrap();
    stream.send_data(body, true).unwrap();
    reply
}

const ENCODE: &str = "/dyad.v1.Encoder/Encode";

fn one_text() -> Bytes {
    let request = v1::EncodeRequest {
        tower: 1,
        texts: vec!["text".into()],
        ..Default::default()
    };
    framed(&request.encode_to_vec())
}

async fn becomes(what: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !what() {
        assert!(Instant::now() < until, "it never became so");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A client whose system delays acknowledgements, as all do, gets the status right after the message: Nagle's algorithm
/// would keep it back until the acknowledgement, 40 ms later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_of_a_call_does_not_wait_for_an_acknowledgement() {
    // Large enough that the message is a write of its own.
    let server = start(4096, ServerConfig::default()).await;
    let (sender, _connection) = client(&server.address, 1 << 20).await;
    let mut at_once = 0;
    for _ in 0..40 {
        let asked = Instant::now();
        let mut reply = call(&sender, ENCODE, one_text()).await.await.unwrap().into_body();
        while reply.data().await.is_some() {}
        assert!(reply.trailers().await.unwrap().is_some());
        at_once += usize::from(asked.elapsed() < Duration::from_millis(35));
    }
    // No measurement of speed: with the algorithm four of five calls wait for a clock of 40 ms, without it none does.
    assert!(at_once > 20, "{at_once} of 40");
}

#[tokio::test]
async fn a_client_that_takes_no_reply_loses_its_connection_and_the_reply_its_memory() {
    let config = ServerConfig {
        reply_stall: Duration::from_secs(1),
        ..ServerConfig::default()
    };
    let server = start(1 << 20, config).await;
    for window in [0, 1, 100_000] {
        let (sender, connection) = client(&server.address, window).await;
        let replies: Vec<_> = futures_util::future::join_all((0..3).map(|_| call(&sender, ENCODE, one_text()))).await;
        becomes(|| server.kept.load(Ordering::SeqCst) == 3).await;
        becomes(|| server.kept.load(Ordering::SeqCst) == 0).await;
        // Ended by the server, whatever it says of it.
        drop(
            tokio::time::timeout(Duration::from_secs(20), connection)
                .await
                .unwrap()
                .unwrap(),
        );
        drop(replies);
    }
    // A client that takes its time, but takes.
    let (sender, _connection) = client(&server.address, 100_000).await;
    let mut body = call(&sender, ENCODE, one_text()).await.await.unwrap().into_body();
    let mut received = 0;
    while let Some(data) = body.data().await {
        received += data.as_ref().unwrap().len();
        body.flow_control().release_capacity(data.unwrap().len()).unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(received > 1 << 20, "{received}");
    becomes(|| server.kept.load(Ordering::SeqCst) == 0).await;
}

/// What the transport has buffered for a client that reads nothing at all, and asks for an answer to a ping.
#[tokio::test]
async fn a_client_that_reads_nothing_loses_its_connection() {
    let config = ServerConfig {
        reply_stall: Duration::from_millis(300),
        ..ServerConfig::default()
    };
    let server = start(8 << 20, config).await;
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let mut tcp = TcpStream::connect(&server.address).await.unwrap();
    let (sender, connection) = h2::client::Builder::new()
        .initial_window_size((1 << 31) - 1)
        .initial_connection_window_size((1 << 31) - 1)
        .handshake(ours)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let sender = sender.ready().await.unwrap();
    let replies: Vec<_> = futures_util::future::join_all((0..8).map(|_| call(&sender, ENCODE, one_text()))).await;
    // What the client says goes out, and nothing comes in.
    let (mut from_client, to_client) = tokio::io::split(theirs);
    let mut said = Vec::new();
    drop(tokio::time::timeout(Duration::from_millis(300), from_client.read_to_end(&mut said)).await);
    tcp.write_all(&said).await.unwrap();
    becomes(|| server.kept.load(Ordering::SeqCst) == 8).await;
    tcp.write_all(&[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
        .await
        .unwrap();
    becomes(|| server.kept.load(Ordering::SeqCst) == 0).await;
    drop((replies, connection, to_client));
}

#[tokio::test]
async fn silent_connections_end_and_more_than_allowed_wait_for_it() {
    let config = ServerConfig {
        preface_timeout: Duration::from_millis(200),
        connections: 1,
        ..ServerConfig::default()
    };
    let server = start(8, config).await;
    let mut silent = TcpStream::connect(&server.address).await.unwrap();
    // Half of HTTP/2's first words, and no more.
    silent.write_all(b"PRI * HTTP/2").await.unwrap();
    let (sender, _connection) = client(&server.address, 1 << 20).await;
    let reply = call(&sender, ENCODE, one_text()).await.await.unwrap();
    assert_eq!(reply.status(), 200);
    // The server's own settings, and then the end.
    let mut rest = Vec::new();
    drop(
        tokio::time::timeout(Duration::from_secs(20), silent.read_to_end(&mut rest))
            .await
            .unwrap(),
    );
}

#[tokio::test]
async fn what_is_no_request_is_an_invalid_argument() {
    let server = start(8, ServerConfig::default()).await;
    let (sender, _connection) = client(&server.address, 1 << 20).await;
    let mut announced = vec![0];
    announced.extend((64u32 << 20).to_be_bytes());
    let cases = [
        ("cut", framed(&[0x1a, 0x05, b'x']), "3", "the message is malformed"),
        ("not UTF-8", framed(&[0x1a, 0x01, 0xff]), "3", "`texts`: expected UTF-8"),
        ("of another type", framed(&[0x18, 0x01]), "3", "not of its type"),
        ("nothing", Bytes::new(), "3", "holds no message"),
        ("half", one_text().slice(..6), "3", "ends in the middle"),
        (
            "empty texts",
            framed(&[0x1a, 0x00].repeat(1 << 20)),
            "3",
            "`texts`: expected at most 1024",
        ),
        (
            "too long",
            announced.into(),
            "3",
            "announces 67108864 bytes, expected at most 33554432",
        ),
        (
            "compressed",
            Bytes::from_static(&[1, 0, 0, 0, 0]),
            "13",
            "header `grpc-encoding` does not say how",
        ),
    ];
    for (what, body, code, words) in cases {
        let reply = call(&sender, ENCODE, body).await.await.unwrap();
        let header = |name: &str| {
            reply
                .headers()
                .get(name)
                .map(|value| value.to_str().unwrap().to_owned())
        };
        let message = header("grpc-message")
            .unwrap_or_default()
            .replace("%20", " ")
            .replace("%60", "`");
        assert_eq!(header("grpc-status").as_deref(), Some(code), "{what}: {message}");
        assert!(message.contains(words), "{what}: {message}");
    }
}

#[tokio::test]
async fn a_drain_ends_watches_and_idle_streams_after_a_pause_without_health() {
    let config = ServerConfig {
        lame_duck: Duration::from_millis(300),
        ..ServerConfig::default()
    };
    let server = start(8, config).await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let channel = channel.connect().await.unwrap();
    let mut health = HealthClient::new(channel.clone());
    let mut encoder = v1::encoder_client::EncoderClient::new(channel);
    let named = |service: &str| HealthCheckRequest {
        service: service.to_owned(),
    };
    let mut watched = health.watch(named("dyad.v1.Encoder")).await.unwrap().into_inner();
    assert_eq!(watched.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
    // One request, and then nothing for ever.
    let requests = tokio_stream::once(v1::EncodeRequest {
        id: 5,
        ..Default::default()
    });
    let mut replies = encoder
        .encode_stream(requests.chain(tokio_stream::pending()))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(replies.next().await.unwrap().unwrap().id, 5);

    server.stop.send(()).unwrap();
    assert_eq!(
        watched.next().await.unwrap().unwrap().status(),
        ServingStatus::NotServing
    );
    assert_eq!(
        health.check(named("")).await.unwrap().into_inner().status(),
        ServingStatus::NotServing
    );
    // Requests are still taken.
    let request = v1::EncodeRequest {
        tower: 1,
        texts: vec!["text".into()],
        ..Default::default()
    };
    assert!(encoder.encode(request).await.is_ok());
    assert!(replies.next().await.is_none());
    assert!(watched.next().await.is_none_or(|last| last.is_err()));
    tokio::time::timeout(Duration::from_secs(10), server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_drain_ends_a_stream_that_always_has_another_request() {
    let server = start(8, ServerConfig::default()).await;
    let url = format!("http://{}", server.address);
    let mut encoder = v1::encoder_client::EncoderClient::connect(url).await.unwrap();
    let requests = tokio_stream::iter((0..).map(|id| v1::EncodeRequest {
        id,
        ..Default::default()
    }));
    let mut replies = encoder.encode_stream(requests).await.unwrap().into_inner();
    assert_eq!(replies.next().await.unwrap().unwrap().id, 0);
    server.stop.send(()).unwrap();
    let mut last = 0;
    let read = async {
        while let Some(reply) = replies.next().await {
            last = reply.unwrap().id;
        }
    };
    tokio::time::timeout(Duration::from_secs(15), read)
        .await
        .expect("the stream goes on");
    assert!(last > 0);
    tokio::time::timeout(Duration::from_secs(10), server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_silent_connection_does_not_hold_up_the_drain() {
    let server = start(8, ServerConfig::default()).await;
    let mut silent = TcpStream::connect(&server.address).await.unwrap();
    silent.write_all(b"PRI * HTTP/2").await.unwrap();
    // A call after it: the silent connection was taken before.
    let (sender, _connection) = client(&server.address, 1 << 20).await;
    assert_eq!(call(&sender, ENCODE, one_text()).await.await.unwrap().status(), 200);
    server.stop.send(()).unwrap();
    drop(sender);
    // Less than the preface's own time.
    tokio::time::timeout(Duration::from_secs(8), server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn an_open_connection_at_the_end_of_the_drain_is_no_failure() {
    let server = start(
        8,
        ServerConfig {
            drain: Duration::from_millis(300),
            ..ServerConfig::default()
        },
    )
    .await;
    // It answers nothing, not even the ping that goes before the end of a connection.
    let mut deaf = TcpStream::connect(&server.address).await.unwrap();
    deaf.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    deaf.read_exact(&mut [0; 9]).await.unwrap();
    server.stop.send(()).unwrap();
    let served = tokio::time::timeout(Duration::from_secs(10), server.task)
        .await
        .unwrap()
        .unwrap();
    assert!(served.is_ok(), "{served:?}");
}

#[tokio::test]
async fn health_falls_when_what_serves_has_failed() {
    let server = start(8, ServerConfig::default()).await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let mut health = HealthClient::new(channel.connect().await.unwrap());
    let mut watched = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watched.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
    server.fail.send(()).unwrap();
    assert_eq!(
        watched.next().await.unwrap().unwrap().status(),
        ServingStatus::NotServing
    );
    let named = HealthCheckRequest {
        service: "dyad.v1.Encoder".into(),
    };
    assert_eq!(
        health.check(named).await.unwrap().into_inner().status(),
        ServingStatus::NotServing
    );
    server.stop.send(()).unwrap();
    drop((health, watched));
    tokio::time::timeout(Duration::from_secs(10), server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}
