//! State shared by the routes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dyad_proto::service::Security;
use tokio::sync::Semaphore;

use super::json::Format;
use super::scrape::Scrape;
use crate::run::Engine;
use crate::service::search::SearchService;

/// What the routes share.
pub(super) struct App {
    pub(super) service: SearchService,
    pub(super) engine: Arc<Engine>,
    pub(super) security: Security,
    /// Set when the server is about to stop.
    pub(super) stopping: Arc<AtomicBool>,
    pub(super) format: Format,
    pub(super) openapi: String,
    /// Bytes of requests that may be under way.
    pub(super) request_bytes: Arc<Semaphore>,
    /// Calls that may be under way.
    pub(super) requests: Arc<Semaphore>,
    pub(super) scrape: Scrape,
}
