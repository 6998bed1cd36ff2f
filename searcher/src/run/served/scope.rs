//! The documents that exist for a caller: those that its API key's filter allows. BM25's statistics and the reply's
//! counts are of these alone, so that no score tells of the others.

use std::sync::{Arc, OnceLock};

use dyad_filter::document_filter;
use dyad_index::lexical::DocumentFilter;
use dyad_index::search::NodeSet;
use dyad_index::snapshot::Snapshot;
use dyad_proto::access::Caller;
use dyad_proto::v1;

use super::filter_cache::{AllowedNodes, FilterCache, encoded_for};
use crate::error::Result;
use crate::run::resources::cancellation::SearchCancellation;

/// A caller's documents of one generation.
#[derive(Debug, Clone)]
pub(in crate::run) struct Scope {
    message: v1::LeafScope,
    filter: DocumentFilter,
    encoded: Vec<u8>,
    allowed: OnceLock<Arc<AllowedNodes>>,
}

impl Scope {
    /// Nothing where all documents exist for the caller.
    pub(in crate::run) fn from_caller(caller: &Caller) -> Option<Self> {
        let filter = caller.filter()?;
        Self::from_leaf(&v1::LeafScope {
            filter: Some(filter.clone()),
            key_id: caller.key_id().to_owned(),
        })
    }

    /// As a root has sent it; nothing where it has no filter.
    pub(in crate::run) fn from_leaf(scope: &v1::LeafScope) -> Option<Self> {
        let filter = scope.filter.as_ref()?;
        Some(Self {
            message: scope.clone(),
            filter: document_filter(filter),
            encoded: encoded_for(&scope.key_id, filter),
            allowed: OnceLock::new(),
        })
    }

    /// As leaves are told of it.
    pub(in crate::run) fn message(&self) -> &v1::LeafScope {
        &self.message
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
