//! HTTP/1.1 next to gRPC, on a listener of its own: plain or with TLS, bounded connections, a timeout for headers, idle
//! connections closed in favour of new ones, drain with a deadline.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::accept::Failures;
use super::connection_slots::{CLOSE_GRACE, ConnectionSlot, ConnectionSlots};
use super::security::Security;
use super::server::ServeError;
use super::tls::Protocol;
use super::transport::Transport;
use super::write_deadline::WriteDeadline;

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
    /// Longest pauses of a client that reads a reply, in all. After it the connection is closed.
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
    let address = listener.local_addr().ok();
    let mut shutdown = pin!(shutdown);
    let slots = ConnectionSlots::new(config.connections);
    let (draining, drain_begins) = watch::channel(false);
    let mut failures = Failures::default();
    // Dropping the set, as after a drain that took too long, ends the connections.
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &slots) => match accepted {
                Ok((stream, slot)) => {
                    let routes = routes.clone();
                    running.spawn(connection(stream, routes, drain_begins.clone(), config.clone(), slot));
                }
                Err(error) => failures.pause_after(&error, "HTTP").await,
            },
        }
        while let Some(ended) = running.try_join_next() {
            log_panic(ended);
        }
    }
    drop(listener);
    let drained = async {
        draining.send_replace(true);
        while let Some(ended) = running.join_next().await {
            log_panic(ended);
        }
    };
    if tokio::time::timeout(config.drain, drained).await.is_err() {
        return Err(ServeError::Drain(config.drain));
    }
    tracing::info!(address = address.map(|address| address.to_string()), "stopped HTTP");
    Ok(())
}

/// Accepts before it takes a slot, so that no connection is closed without a new one.
async fn accept(listener: &TcpListener, slots: &ConnectionSlots) -> io::Result<(TcpStream, ConnectionSlot)> {
    let (stream, _) = listener.accept().await?;
    Ok((stream, slots.take().await))
}

async fn connection(
    stream: TcpStream,
    routes: Router,
    mut draining: watch::Receiver<bool>,
    config: HttpConfig,
    slot: ConnectionSlot,
) {
    // What is in the system's buffer when the last write has returned.
    if let Err(error) = socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(config.reply_stall)) {
        tracing::debug!(%error, "no limit on the time for writing");
    }
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let (slot, routes) = (Arc::new(slot), TowerToHyperService::new(routes));
    let of_request = Arc::clone(&slot);
    let peer = stream.peer_addr().ok();
    let service = service_fn(move |mut request: hyper::Request<_>| {
        of_request.set_busy();
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        let (reply, slot) = (routes.call(request), IdleOnDrop(Arc::clone(&of_request)));
        // Until the body is sent, or dropped.
        async move {
            reply
                .await
                .map(|reply| reply.map(|body| Answering { body, _slot: slot }))
        }
    });
    let transport = Transport::new(stream, config.security.tls.as_ref(), Protocol::Http);
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .max_buf_size(MAX_HEAD)
            .header_read_timeout(config.header_timeout)
            .serve_connection(TokioIo::new(WriteDeadline::new(transport, config.reply_stall)), service)
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        // Also where the server itself has ended.
        () = async { drop(draining.wait_for(|draining| *draining).await) } => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = slot.closed() => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(CLOSE_GRACE, connection.as_mut()).await {
                Ok(ended) => ended,
                Err(_) if slot.is_idle() => return,
                // A request came at the last moment.
                Err(_) => connection.await,
            }
        }
    };
    // Clients that leave, send no headers or no HTTP are not an error of the server.
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection ended early");
    }
}

/// Marks a connection as idle when it is dropped.
struct IdleOnDrop(Arc<ConnectionSlot>);

impl Drop for IdleOnDrop {
    fn drop(&mut self) {
        self.0.set_idle();
    }
}

/// The body of a reply whose connection is not idle.
struct Answering {
    body: axum::body::Body,
    _slot: IdleOnDrop,
}

impl http_body::Body for Answering {
    type Data = bytes::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "an HTTP request panicked");
    }
}
