//! The documents that exist for a caller: those that its API key's filter allows. BM25's statistics and the reply's
//! counts are of these alone, so that no score tells of the others.

use std::sync::{Arc, OnceLock};

use dyad_filter::document_filter;
use dyad_index::lexical::DocumentFilter;
use dyad_index::search::NodeSet;
use dyad_index::snapshot::Snapshot;
use dyad_proto::access::Caller;

use super::filter_cache::{AllowedNodes, FilterCache, cached_as};
use crate::error::Result;
use crate::run::resources::cancellation::SearchCancellation;

/// A caller's documents of one generation.
#[derive(Debug, Clone)]
pub(in crate::run) struct Scope {
    filter: DocumentFilter,
    encoded: Vec<u8>,
    allowed: OnceLock<Arc<AllowedNodes>>,
}

impl Scope {
    /// Nothing where all documents exist for the caller.
    pub(in crate::run) fn from_caller(caller: &Caller) -> Option<Self> {
        let filter = caller.filter()?;
        Some(Self {
            filter: document_filter(filter),
            encoded: cached_as(caller, filter),
            allowed: OnceLock::new(),
        })
    }

    /// Their nodes.
    pub(in crate::run) fn allowed(
        &self,
        snapshot: &Arc<Snapshot>,
        cache: Option<&FilterCache>,
        cancel: &SearchCancellation,
    ) -> Result<&AllowedNodes> {
        if let Some(known) = self.allowed.get() {
            return Ok(known);
        }
        let (found, _) = AllowedNodes::find(&self.filter, &self.encoded, true, snapshot, cache, cancel)?;
        Ok(self.allowed.get_or_init(|| found))
    }

    /// Their nodes by shard.
    pub(in crate::run) fn nodes(
        &self,
        snapshot: &Arc<Snapshot>,
        cache: Option<&FilterCache>,
        cancel: &SearchCancellation,
    ) -> Result<Arc<[NodeSet]>> {
        Ok(Arc::clone(&self.allowed(snapshot, cache, cancel)?.shards))
    }
}
