//! What the parts of a search have found for one question.

use std::sync::{Arc, OnceLock};

use dyad_index::Snapshot;
use dyad_index::lexical::FieldValue;
use dyad_index::search::SearchHits;
use dyad_index::snapshot::DocumentHit;

use super::leaf_hits::LeafHits;
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
    /// What leaves have said of the hits, where they hold the shards.
    pub(in crate::run) on_leaves: OnceLock<LeafHits>,
    /// The groups of the hits, where leaves hold the shards and hits are grouped.
    pub(in crate::run) grouped: OnceLock<Box<Grouped>>,
}

impl PartResults {
    /// The key of a hit; none where the keys are damaged.
    pub(in crate::run) fn key<'a>(&'a self, snapshot: &'a Snapshot, hit: &DocumentHit) -> Option<&'a str> {
        match self.on_leaves.get() {
            Some(on_leaves) => on_leaves.key(hit),
            None => snapshot.key(hit.shard, hit.node),
        }
    }
}

/// What a filter allows; all where absent.
pub(in crate::run) type Allowed = Option<Arc<AllowedNodes>>;

/// Hits with the same value, best first.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::run) struct HitGroup {
    /// Absent where the document has none.
    pub(in crate::run) value: Option<FieldValue>,
    /// The hits of the group, at most as many as are wanted of each.
    pub(in crate::run) hits: Vec<DocumentHit>,
}

/// The groups of a search.
#[derive(Debug)]
pub(in crate::run) struct Grouped {
    /// The best `offset + k`, by their best hits.
    pub(in crate::run) groups: Vec<HitGroup>,
    /// Hits that each ranking was asked for in the end.
    pub(in crate::run) depth: usize,
    /// The parts that they are made of, where those of the batch were not deep enough.
    pub(in crate::run) deeper: Option<PartResults>,
    /// Why there are fewer groups than were asked for, where more documents could have more.
    pub(in crate::run) note: Option<String>,
}
