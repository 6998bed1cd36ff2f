//! A searcher's HTTP routes, and requests to them.

use std::net::SocketAddr;
use std::sync::Arc;

use dyad_proto::service::{self, HttpConfig, Security};
use dyad_searcher::Engine;
use dyad_searcher::service::{PagePlaces, RouterConfig};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::http::REQUESTS;

pub(crate) struct Http {
    pub(crate) address: SocketAddr,
    /// Of a server in this process.
    pub(crate) _stop: Option<oneshot::Sender<()>>,
}

/// Status, headers and body.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) json: Value,
}

pub(crate) async fn over_engine(engine: Arc<Engine>) -> Http {
    over_with(engine, HttpConfig::default()).await
}

pub(crate) async fn over_with(engine: Arc<Engine>, config: HttpConfig) -> Http {
    over_secured(engine, config, Security::default()).await
}

pub(crate) async fn over_secured(engine: Arc<Engine>, config: HttpConfig, security: Security) -> Http {
    let listener = service::bind_for("127.0.0.1:0", "--http").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async { drop(stopped.await) };
    let routes = RouterConfig {
        security,
        hosts: Vec::new(),
        origins: vec!["https://app.example".parse().unwrap()],
        requests: REQUESTS,
        stopping: Arc::default(),
        places: PagePlaces {
            grpc_port: Some(7700),
            indexers: [("main".to_owned(), "https://indexer.example:7712".to_owned())].into(),
        },
    };
    let routes = dyad_searcher::service::router(engine, routes).unwrap();
    tokio::spawn(service::serve_http(listener, routes, shutdown, config));
    Http {
        address,
        _stop: Some(stop),
    }
}

impl Http {
    /// A server in another process.
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self { address, _stop: None }
    }

    /// Status and body of a request without one.
    pub(crate) async fn text(&self, method: &str, path: &str) -> (u16, String) {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Sends bytes, and reads to the end of the connection.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).await.unwrap();
        let reply = String::from_utf8(reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let json = serde_json::from_str(body).unwrap_or(Value::Null);
        Reply {
            status,
            head: head.to_ascii_lowercase(),
            json,
        }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Reply {
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n");
        self.raw(format!("{head}{headers}\r\n{body}").as_bytes()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, "Content-Type: application/json\r\n", &body.to_string())
            .await
    }
}
