//! HTTP on a real port, with requests as raw bytes.
//!
//! | file | what |
//! |---|---|
//! | `embeddings.rs` | vectors: those of gRPC bit for bit, whatever the form |
//! | `precision.rs` | prompts, dimensions and precisions, against sentence-transformers |
//! | `refusals.rs` | everything that is refused, with status and reason |
//! | `rerank.rs` | texts in the order of a cross encoder's scores |
//! | `operation.rs` | probes, metrics, a full queue, the end |

mod embeddings;
mod operation;
mod precision;
mod refusals;
mod rerank;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dyad_encoder::serve::{EncoderService, Handle, ServedModelOptions, http};
use dyad_proto::service::{self, HttpAccess, HttpConfig, ServeError};
use dyad_proto::v1::encoder_server::Encoder as _;
use dyad_proto::{v1, vector};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tonic::Request;

use crate::fixture::tiny;
use crate::service::one_thread;

/// Prompts on both sides that the pooling leaves out, 36 values, 24 tokens.
const MODEL: &str = "classic-prompt-left-out";

/// Requests for embeddings that the server takes at once.
const REQUESTS: usize = 8;

struct Server {
    stopping: Arc<AtomicBool>,
    handle: Handle,
    client: Client,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Result<(), ServeError>>,
}

/// Asks a server at this address; one connection per request.
#[derive(Clone, Copy)]
struct Client(SocketAddr);

/// A reply as it came.
struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

async fn serve(options: ServedModelOptions) -> Server {
    serve_model(MODEL, options).await
}

async fn serve_model(model: &str, options: ServedModelOptions) -> Server {
    serve_directory(&tiny(model), options).await
}

async fn serve_directory(model: &Path, options: ServedModelOptions) -> Server {
    let handle = Handle::start(model, options).unwrap();
    let listener = service::bind_for("127.0.0.1:0", "--http").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async { drop(stopped.await) };
    let stopping = Arc::new(AtomicBool::new(false));
    let routes = http::router(handle.clone(), HttpAccess::default(), REQUESTS, Arc::clone(&stopping));
    let task = tokio::spawn(service::serve_http(listener, routes, shutdown, HttpConfig::default()));
    Server {
        handle,
        client: Client(address),
        stopping,
        stop,
        task,
    }
}

async fn simple() -> Server {
    serve(one_thread()).await
}

impl std::ops::Deref for Server {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Client {
    /// Sends bytes and reads until the server closes.
    async fn raw(&self, bytes: &[u8]) -> Reply {
        let exchange = async {
            let mut stream = TcpStream::connect(self.0).await.unwrap();
            // A server that has seen enough may close before it has read all.
            let _ = stream.write_all(bytes).await;
            let mut reply = Vec::new();
            stream.read_to_end(&mut reply).await.unwrap();
            reply
        };
        let reply = tokio::time::timeout(Duration::from_mins(1), exchange).await.unwrap();
        let end = reply.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(reply[..end].to_vec()).unwrap().to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply {
            status,
            head,
            body: reply[end + 4..].to_vec(),
        }
    }

    async fn get(&self, path: &str) -> Reply {
        self.raw(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
            .await
    }

    async fn post_bytes(&self, headers: &str, body: &[u8]) -> Reply {
        self.post_to("/v1/embeddings", headers, body).await
    }

    async fn post_to(&self, path: &str, headers: &str, body: &[u8]) -> Reply {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        self.raw(&[head.as_bytes(), body].concat()).await
    }

    async fn post(&self, body: &Value) -> Reply {
        self.post_bytes("", body.to_string().as_bytes()).await
    }

    /// The vectors of a request that must succeed.
    async fn vectors(&self, body: Value) -> Vec<Vec<f32>> {
        let reply = self.post(&body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.vectors()
    }

    /// A counter, gauge or bucket of `/metrics`, by its name and labels.
    async fn metric(&self, name: &str) -> Option<f64> {
        let text = self.get("/metrics").await.text();
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }
}

impl Server {
    /// The same over gRPC.
    async fn grpc(&self, request: v1::EncodeRequest) -> Result<Vec<Vec<f32>>, tonic::Status> {
        let rows = request.texts.len();
        let reply = EncoderService::new(self.handle.clone())
            .encode(Request::new(request))
            .await?
            .into_inner();
        let dim = reply.dim as usize;
        Ok(crate::fixture::rows(
            &vector::unpack(&reply.vectors, rows, dim, "vectors").unwrap(),
            dim,
        ))
    }
}

impl Reply {
    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn vectors(&self) -> Vec<Vec<f32>> {
        let json = self.json();
        let data = json["data"].as_array().unwrap();
        for (index, item) in data.iter().enumerate() {
            assert_eq!((&item["object"], &item["index"]), (&json!("embedding"), &json!(index)));
        }
        data.iter()
            .map(|item| serde_json::from_value(item["embedding"].clone()).unwrap())
            .collect()
    }
}

fn grpc_request(tower: v1::Tower, texts: &[&str]) -> v1::EncodeRequest {
    let texts = texts.iter().map(ToString::to_string).collect();
    v1::EncodeRequest {
        tower: tower.into(),
        texts,
        ..Default::default()
    }
}

/// Values as bits: equality that no rounding passes.
fn bits(rows: &[Vec<f32>]) -> Vec<Vec<u32>> {
    rows.iter()
        .map(|row| row.iter().map(|value| value.to_bits()).collect())
        .collect()
}
