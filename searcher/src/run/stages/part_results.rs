//! What the parts of a search have found for one question.

use std::sync::{Arc, OnceLock};

use dyad_index::search::SearchHits;
use dyad_index::snapshot::DocumentHit;

use crate::run::served::filter_cache::AllowedNodes;

/// Hits of a part, and the microseconds that it took.
pub(in crate::run) type Timed = (SearchHits<DocumentHit>, u64);

/// A filter's part of the results.
#[derive(Debug, Clone, Default)]
pub(in crate::run) struct FilteredNodes {
    /// Notes on what the filter asks for that no document has.
    pub(in crate::run) notes: Vec<String>,
    /// The number of documents that the filter allows.
    pub(in crate::run) documents: u64,
    /// The microseconds that the filter took.
    pub(in crate::run) took_us: u64,
    /// Whether the nodes of the filter were known.
    pub(in crate::run) cached: bool,
    /// The nodes that the filter allows, for searches that go deeper.
    pub(in crate::run) allowed: Allowed,
}

/// The results for one question, by part.
#[derive(Debug, Default)]
pub(in crate::run) struct PartResults {
    pub(in crate::run) filter: OnceLock<FilteredNodes>,
    pub(in crate::run) text: OnceLock<Timed>,
    /// Weight of documents in the scores of `text`; absent where it counts for none.
    pub(in crate::run) document_weight: OnceLock<f64>,
    /// The exactness of the hits of `text`, where they are fused; absent where the question has no terms.
    pub(in crate::run) exactness: OnceLock<Vec<f32>>,
    pub(in crate::run) dense: OnceLock<Timed>,
}

/// What a filter allows; all where absent.
pub(in crate::run) type Allowed = Option<Arc<AllowedNodes>>;
