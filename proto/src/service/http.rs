//! HTTP/1.1 next to gRPC, on a listener of its own.

use std::future::Future;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

use super::accept::serve_connections;
use super::edge::{EdgeConfig, ServerEdge};
use super::listen::ServeError;
use super::protocol::ServedProtocol;
use super::security::Security;

/// Bytes that are read of a connection before a request's head is complete.
const MAX_HEAD: usize = 64 << 10;

/// Configuration of an HTTP server.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Time for running requests to finish after the signal to stop.
    pub drain: Duration,
    /// Connections at once. A connection has at most one request in flight. Idle ones are closed in favour of new ones;
    /// where none is idle, new ones wait in the system's queue.
    pub connections: usize,
    /// Longest time from the start of a connection, or from the previous reply, to the end of a request's headers. Less
    /// than `drain`, so that incomplete headers do not delay the drain.
    pub header_timeout: Duration,
    /// Longest time for a client to read the next 64 KiB of a reply. After it the connection is closed.
    pub reply_stall: Duration,
    /// TLS. Callers are checked by the routes, whose errors have forms of their own: [`HttpAccess`](super::HttpAccess).
    pub security: Security,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            drain: Duration::from_secs(20),
            connections: 1024,
            header_timeout: Duration::from_secs(15),
            reply_stall: Duration::from_secs(30),
            security: Security::default(),
        }
    }
}

/// Serves `routes` until `shutdown` completes, then lets running requests finish within the drain deadline.
///
/// Idle connections are closed when the drain begins. No bytes of a body are read before a route asks for them: routes
/// bound their bodies in size and time.
pub async fn serve_http(
    listener: TcpListener,
    routes: Router,
    shutdown: impl Future<Output = ()> + Send,
    config: HttpConfig,
) -> Result<(), ServeError> {
    let mut wire = auto::Builder::new(TokioExecutor::new()).http1_only();
    wire.http1()
        .timer(TokioTimer::new())
        .max_buf_size(MAX_HEAD)
        // Replies are not copied together: a connection keeps its largest buffer.
        .writev(true)
        .header_read_timeout(config.header_timeout);
    let edge = ServerEdge::new(EdgeConfig {
        protocol: ServedProtocol::Http,
        wire,
        tls: config.security.tls,
        connections: config.connections,
        // A request holds the slot.
        gives_way: Some(Duration::ZERO),
        opening: config.header_timeout,
        connection_age: Duration::MAX,
        reply_stall: config.reply_stall,
        drain: config.drain,
    });
    serve_connections(listener, routes, shutdown, edge).await
}
