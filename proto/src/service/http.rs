//! HTTP/1.1 beside gRPC, on a listener of its own: connections bounded, slow headers cut off, drain with a deadline.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::server::ServeError;

/// Pause after the system refused a connection for want of something, such as file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How an HTTP server runs.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// How long running requests may take to finish after the signal to stop.
    pub drain: Duration,
    /// Connections at once; more wait in the system's queue. One connection has one request under way.
    pub connections: usize,
    /// Longest time from the beginning of a connection, or from the reply before, to the end of a request's headers. Less
    /// than `drain`, so that half a header does not hold up the end.
    pub header_timeout: Duration,
}

/// Longest time without progress while a reply is written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

impl Default for HttpConfig {
    fn default() -> Self {
        Self { drain: Duration::from_secs(20), connections: 1024, header_timeout: Duration::from_secs(15) }
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
    let graceful = GracefulShutdown::new();
    let free = Arc::new(Semaphore::new(config.connections));
    // Dropping the set, as after a drain that took too long, ends the connections.
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(ended) = running.join_next() => log_panic(ended),
            accepted = accept(&listener, &free) => match accepted {
                Ok((stream, permit)) => {
                    let routes = routes.clone();
                    running.spawn(connection(stream, routes, graceful.watcher(), config.header_timeout, permit));
                }
                Err(error) => pause_after(&error).await,
            },
        }
    }
    drop(listener);
    let drained = async {
        graceful.shutdown().await;
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

async fn accept(listener: &TcpListener, free: &Arc<Semaphore>) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(free).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

async fn connection(
    stream: TcpStream,
    routes: Router,
    watcher: Watcher,
    header_timeout: Duration,
    _permit: OwnedSemaphorePermit,
) {
    // The system ends a connection whose client takes no byte of a reply for so long.
    if let Err(error) = socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(WRITE_TIMEOUT)) {
        tracing::debug!(%error, "no limit on the time for writing");
    }
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    // Clients that go away, send no headers or no HTTP at all are their own affair.
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "an HTTP connection ended early");
    }
}

/// A connection that the client gave up before it was taken needs no pause; whatever else it is may last.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::warn!(%error, "cannot take an HTTP connection");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "an HTTP request panicked");
    }
}
