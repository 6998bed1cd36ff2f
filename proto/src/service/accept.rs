//! One listener, from its first connection to the end of its drain. Failures to accept connections are a pause, and a
//! rate-limited warning.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};

use super::connection::serve_connection;
use super::connection_slots::{ConnectionSlot, ConnectionSlots};
use super::edge::{EdgeConfig, ServerEdge};
use super::listen::ServeError;
use super::protocol::ServedProtocol;

/// Pause after a failure for lack of resources, such as file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Minimum time between two warnings.
const WARNING_PAUSE: Duration = Duration::from_secs(10);

/// Serves `routes` until `stop` completes, and drains.
pub(super) async fn serve_connections(
    listener: TcpListener,
    routes: Router,
    stop: impl Future<Output = ()>,
    edge: ServerEdge,
) -> Result<(), ServeError> {
    let address = listener.local_addr().ok().map(|address| address.to_string());
    let (edge, mut failures, mut stop) = (Arc::new(edge), AcceptFailures::default(), pin!(stop));
    let slots = ConnectionSlots::new(edge.config.connections.max(1), edge.config.gives_way);
    // Dropping the set, as after a drain that took too long, ends the connections.
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            () = &mut stop => break,
            (stream, slot) = accept(&listener, &slots, &edge.config, &mut failures) => {
                open.spawn(serve_connection(stream, slot, routes.clone(), Arc::clone(&edge)));
            }
        }
        while let Some(ended) = open.try_join_next() {
            log_panic(ended);
        }
    }
    drop(listener);
    drain(&edge, open).await?;
    tracing::info!(address, "stopped {}", edge.config.protocol);
    Ok(())
}

/// Accepts a connection before it takes a slot, so that none is closed without a new one.
async fn accept(
    listener: &TcpListener,
    slots: &ConnectionSlots,
    EdgeConfig {
        protocol, connections, ..
    }: &EdgeConfig,
    failures: &mut AcceptFailures,
) -> (TcpStream, ConnectionSlot) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let warn = || {
                    failures.warn(format_args!(
                        "{connections} {protocol} connections are open, and more wait"
                    ));
                };
                return (stream, slots.take(warn).await);
            }
            Err(error) => failures.pause_after(&error, *protocol).await,
        }
    }
}

/// Waits until all connections have ended. Those that are merely open at the deadline are closed; a request that is cut
/// off is an error.
async fn drain(edge: &ServerEdge, mut open: JoinSet<()>) -> Result<(), ServeError> {
    edge.begin_drain();
    let ended = async {
        while let Some(ended) = open.join_next().await {
            log_panic(ended);
        }
    };
    let deadline = edge.config.drain;
    if tokio::time::timeout(deadline, ended).await.is_err() {
        if edge.under_way.load(Ordering::Relaxed) > 0 {
            return Err(ServeError::Drain(deadline));
        }
        tracing::warn!("connections were still open {deadline:?} after the end of listening, and were closed");
    }
    Ok(())
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a request panicked");
    }
}

/// The failures of an accept loop.
#[derive(Debug, Default)]
struct AcceptFailures {
    warned: Option<Instant>,
}

impl AcceptFailures {
    /// Pauses after a failure, unless the client has aborted the connection: other causes may persist.
    async fn pause_after(&mut self, error: &io::Error, protocol: ServedProtocol) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
            self.warn(format_args!(
                "cannot accept a {protocol} connection: {error}. If file handles are exhausted, raise `ulimit -n`"
            ));
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }

    /// Logs a warning, at most one in [`WARNING_PAUSE`].
    fn warn(&mut self, message: fmt::Arguments<'_>) {
        if self.is_due(Instant::now()) {
            tracing::warn!("{message}");
        }
    }

    /// Whether to warn now: at once, then after [`WARNING_PAUSE`].
    fn is_due(&mut self, now: Instant) -> bool {
        let due = self
            .warned
            .is_none_or(|last| now.saturating_duration_since(last) >= WARNING_PAUSE);
        if due {
            self.warned = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_that_lasts_is_told_now_and_then() {
        let (start, mut failures) = (Instant::now(), AcceptFailures::default());
        let told = (0..250_u32)
            .filter(|tenth| failures.is_due(start + ACCEPT_PAUSE * *tenth))
            .collect::<Vec<_>>();
        assert_eq!(told, [0, 100, 200]);
    }
}
