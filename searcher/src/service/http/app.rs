//! State shared by the routes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dyad_proto::admission::{AdmissionLimit, Admitted};
use dyad_proto::service::Security;

use super::refusal::SearcherRefusal;
use super::scrape::Scrape;
use crate::json::MessageJson;
use crate::run::Engine;
use crate::service::admin::AdminService;
use crate::service::search::SearchService;

/// What the routes share.
pub(super) struct SearcherApp {
    pub(super) service: SearchService,
    pub(super) admin: AdminService,
    pub(super) engine: Arc<Engine>,
    pub(super) security: Security,
    /// Set when the server is about to stop.
    pub(super) stopping: Arc<AtomicBool>,
    pub(super) json: MessageJson,
    pub(super) openapi: String,
    /// Bytes of requests that may be under way.
    pub(super) request_bytes: AdmissionLimit,
    /// Calls that may be under way.
    pub(super) requests: AdmissionLimit,
    pub(super) scrape: Scrape,
}

impl SearcherApp {
    /// A place among the calls that are under way.
    pub(super) fn under_way(&self) -> Result<Admitted, SearcherRefusal> {
        let place = self.requests.try_admit(1);
        place.map_err(|_| SearcherRefusal::busy("too many requests are under way. Try again later with back-off"))
    }
}
