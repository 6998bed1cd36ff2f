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

pub(crate) struct Running {
    pub(crate) address: String,
    kept: Arc<AtomicUsize>,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) fail: oneshot::Sender<()>,
    pub(crate) task: tokio::task::JoinHandle<Result<(), service::ServeError>>,
}

pub(crate) async fn start(bytes: usize, config: ServerConfig) -> Running {
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
pub(crate) async fn client(
    address: &str,
    window: u32,
) -> (SendRequest<Bytes>, tokio::task::JoinHandle<Result<(), h2::Error>>) {
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

pub(crate) async fn call(sender: &SendRequest<Bytes>, path: &str, body: Bytes) -> ResponseFuture {
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

pub(crate) const ENCODE: &str = "/dyad.v1.Encoder/Encode";

pub(crate) fn one_text() -> Bytes {
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
