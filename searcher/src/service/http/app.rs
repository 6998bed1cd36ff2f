//! State shared by the routes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dyad_proto::service::Security;
use dyad_proto::service::json_api::JsonCalls;

use super::page::PagePlaces;
use super::scrape::Scrape;
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
    pub(super) calls: Arc<JsonCalls>,
    pub(super) openapi: String,
    pub(super) scrape: Scrape,
    /// What the page is told of other programs.
    pub(super) places: PagePlaces,
}
