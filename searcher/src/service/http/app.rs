//! State shared by the routes, and the bounds of their requests.

use std::sync::Arc;

use dyad_proto::limits;
use dyad_proto::service::json_api::{JsonBounds, JsonCalls};

use super::page::PagePlaces;
use crate::run::Engine;
use crate::service::admin::AdminService;
use crate::service::search::SearchService;

/// The bounds of one search, or of keys of documents.
pub(super) const SEARCH: JsonBounds = JsonBounds {
    bytes: limits::MAX_SEARCH_BYTES,
    elements: 2 * limits::MAX_SEARCH_ELEMENTS,
    values: 2 * limits::MAX_DIM,
};
/// Of a batch: vectors of 2048 values for each question.
pub(super) const BATCH: JsonBounds = JsonBounds {
    bytes: limits::MAX_SEARCH_BATCH_BYTES,
    elements: limits::MAX_SEARCH_BATCH_ELEMENTS,
    values: 2048 * limits::MAX_BATCH,
};

/// What the routes share.
pub(super) struct SearcherApp {
    pub(super) service: SearchService,
    pub(super) admin: AdminService,
    pub(super) engine: Arc<Engine>,
    pub(super) calls: Arc<JsonCalls>,
    pub(super) openapi: String,
    /// What the page is told of other programs.
    pub(super) places: PagePlaces,
}
