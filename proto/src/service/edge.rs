//! The edge of a server: what its connections have in common, and the bounds that gRPC and HTTP/1.1 give it.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use hyper_util::rt::TokioExecutor;
use hyper_util::server::conn::auto;
use tokio::sync::watch;

use super::protocol::ServedProtocol;
use super::tls::Tls;

/// The bounds of a listener's connections, and what is spoken on them.
#[derive(Debug)]
pub(super) struct EdgeConfig {
    pub(super) protocol: ServedProtocol,
    /// The protocol's settings.
    pub(super) wire: auto::Builder<TokioExecutor>,
    /// TLS of all connections; without it they are plain.
    pub(super) tls: Option<Arc<Tls>>,
    /// Connections at once; more wait in the system's queue.
    pub(super) connections: usize,
    /// Time after which a connection may be closed for a new one while it does not hold its slot; none where it never
    /// is.
    pub(super) gives_way: Option<Duration>,
    /// Longest time from the start of a connection to the end of its preface.
    pub(super) opening: Duration,
    /// Age at which a connection ends, once its requests have.
    pub(super) connection_age: Duration,
    /// Longest time for a client to read the next piece of a reply.
    pub(super) reply_stall: Duration,
    /// Time for running requests to finish after the end of listening.
    pub(super) drain: Duration,
}

/// What all connections of a listener share.
#[derive(Debug)]
pub(super) struct ServerEdge {
    pub(super) config: EdgeConfig,
    /// Requests from their arrival until their replies are sent.
    pub(super) under_way: AtomicUsize,
    draining: watch::Sender<bool>,
}

impl ServerEdge {
    pub(super) fn new(config: EdgeConfig) -> Self {
        Self {
            config,
            under_way: AtomicUsize::new(0),
            draining: watch::Sender::new(false),
        }
    }

    /// Whether the drain has begun, as it changes.
    pub(super) fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    pub(super) fn begin_drain(&self) {
        self.draining.send_replace(true);
    }

    /// Completes when the drain has begun, or a connection that begins now is old.
    pub(super) async fn time_to_end(&self) {
        let mut draining = self.draining();
        let drain = draining.wait_for(|draining| *draining);
        // Late is when the connection has reached its age.
        let _ = tokio::time::timeout(self.config.connection_age, drain).await;
    }
}
