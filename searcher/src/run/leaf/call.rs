//! A call of a root: the generation and the shards that it names, and the place that it takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dyad_filter::document_filter;
use dyad_index::Snapshot;
use dyad_proto::access::Caller;
use dyad_proto::v1;

use super::super::engine::Engine;
use super::super::parts::Jobs;
use super::super::resources::cancellation::{CancelOnDrop, SearchCancellation};
use super::super::resources::pool::RequestClass;
use super::super::served::filter_cache::{AllowedNodes, FilterCache, encoded_for};
use super::super::served::scope::Scope;
use crate::error::{Error, Result};
use crate::plan::{IndexSize, SearchCost};

/// The part of a generation that a call is of, and what it may look at.
#[derive(Debug, Clone)]
pub(super) struct LeafPart {
    pub(super) name: v1::GenerationName,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) scope: Option<Scope>,
    pub(super) filters: Option<Arc<FilterCache>>,
    pub(super) cancel: Arc<SearchCancellation>,
}

impl LeafPart {
    /// The caller's documents, where they are not all.
    pub(super) fn existing(&self) -> Result<Option<&AllowedNodes>> {
        match &self.scope {
            Some(scope) => scope
                .allowed(&self.snapshot, self.filters.as_deref(), &self.cancel)
                .map(Some),
            None => Ok(None),
        }
    }

    /// What a filter allows, and whether that was known.
    pub(super) fn allowed(&self, filter: &v1::Filter, key_id: &str) -> Result<(Arc<AllowedNodes>, bool)> {
        let encoded = encoded_for(key_id, filter);
        let (cache, filter) = (self.filters.as_deref(), document_filter(filter));
        AllowedNodes::find(
            &filter,
            &encoded,
            self.scope.is_some(),
            &self.snapshot,
            cache,
            &self.cancel,
        )
    }
}

/// A call that was admitted.
pub(super) struct AdmittedLeafCall<'a> {
    pub(super) part: LeafPart,
    pub(super) jobs: Jobs<'a>,
    _guard: CancelOnDrop,
}

/// What a call names.
pub(super) struct LeafCallTarget<'r> {
    pub(super) generation: Option<&'r v1::GenerationName>,
    /// Numbers of shards, ascending.
    pub(super) shards: &'r [u32],
    pub(super) scope: Option<&'r v1::LeafScope>,
    pub(super) time: Option<Duration>,
}

impl Engine {
    /// Admits a call of a root, which is one job. `cost` is that of its work over the shards that it names: what costs
    /// more than ordinary searches of them has the threads for bulk work.
    pub(super) fn leaf_call(
        &self,
        target: &LeafCallTarget<'_>,
        cost: impl FnOnce(&Arc<Snapshot>) -> SearchCost,
    ) -> Result<AdmittedLeafCall<'_>> {
        let name = target.generation.ok_or(Error::Internal)?;
        let time = self.time(target.time);
        let (cancel, guard) = SearchCancellation::with_deadline(Instant::now(), time);
        let index = self.index(&name.index, &Caller::default())?;
        let held = index.held(name).ok_or_else(|| Error::NotHeld {
            index: name.index.clone(),
            generation: name.generation,
            shard: None,
        })?;
        let numbers: Vec<usize> = target.shards.iter().map(|number| *number as usize).collect();
        let snapshot = held.part(&numbers)?;
        let size = IndexSize::from_snapshot(&snapshot);
        let cost = cost(&snapshot).of_one_job();
        let class = RequestClass::from_cost(cost.total(), size);
        let permit = self.pool.admit(class, cost.total(), time)?;
        let mut jobs = Jobs::new(&self.pool, class, cost, permit, Arc::clone(&cancel));
        jobs.choose_threads(&snapshot);
        let part = LeafPart {
            name: name.clone(),
            snapshot,
            scope: target.scope.and_then(Scope::from_leaf),
            filters: self.filters.clone(),
            cancel,
        };
        Ok(AdmittedLeafCall {
            part,
            jobs,
            _guard: guard,
        })
    }
}
