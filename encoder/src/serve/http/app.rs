//! State shared by the routes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dyad_proto::service::HttpAccess;
use tokio::sync::Semaphore;

use crate::serve::handle::Handle;

/// State shared by the routes.
#[derive(Debug)]
pub(super) struct App {
    pub(super) handle: Handle,
    pub(super) access: HttpAccess,
    /// Room for bodies.
    pub(super) bodies: Arc<Semaphore>,
    /// Requests for embeddings that may be under way.
    pub(super) requests: Semaphore,
    /// Set when the server is about to stop.
    pub(super) stopping: Arc<AtomicBool>,
    /// Seconds since 1970 when the service began, which is the model's `created`.
    pub(super) since: u64,
}
