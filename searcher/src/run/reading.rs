//! A call that reads documents of an index without a question: which documents these are, and the threads and the
//! memory that it takes.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dyad_filter::document_filter;
use dyad_index::lexical::DocumentFilter;
use dyad_index::search::NodeSet;
use dyad_index::snapshot::Snapshot;
use dyad_proto::access::Caller;
use dyad_proto::v1;

use super::engine::Engine;
use super::parts::Jobs;
use super::resources::cancellation::{CancelOnDrop, SearchCancellation};
use super::resources::pool::RequestClass;
use super::resources::reply_memory::{ReplyBudget, ReplyMemory};
use super::served::filter_cache::{AllowedNodes, FilterCache, cached_as, encoded_for};
use crate::error::{Error, Result};
use crate::plan::{IndexSize, SearchCost};

/// What a call asks for.
#[derive(Debug)]
pub(super) struct ReadRequest<'a> {
    /// Name of the index; empty: the default.
    pub(super) index: &'a str,
    /// Of the request alone.
    pub(super) filter: Option<v1::Filter>,
    pub(super) caller: &'a Caller,
    /// That the client gives it.
    pub(super) time: Option<Duration>,
}

/// The documents of a generation that a call's filter and its caller's API key allow.
#[derive(Debug)]
pub(super) struct ReadDocuments {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) cancel: Arc<SearchCancellation>,
    filter: Option<ReadFilter>,
    /// Whether some documents do not exist for the caller.
    is_scoped: bool,
    cache: Option<Arc<FilterCache>>,
}

/// A part of a generation that a root reads.
#[derive(Debug)]
pub(super) struct ReadPart {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) cancel: Arc<SearchCancellation>,
    /// Whether some documents do not exist for the caller.
    pub(super) is_scoped: bool,
    pub(super) cache: Option<Arc<FilterCache>>,
}

/// The filters of a call and its caller, and what the cache knows them by.
#[derive(Debug)]
struct ReadFilter {
    filter: DocumentFilter,
    encoded: Vec<u8>,
}

impl ReadDocuments {
    /// Those of a part of a generation that a root's filter allows, which is the request's together with the caller's.
    pub(super) fn of_part(part: ReadPart, filter: Option<&v1::Filter>, key_id: &str) -> Self {
        let ReadPart {
            snapshot,
            cancel,
            is_scoped,
            cache,
        } = part;
        let filter = filter.map(|filter| ReadFilter {
            filter: document_filter(filter),
            encoded: encoded_for(key_id, filter),
        });
        Self {
            snapshot,
            cancel,
            filter,
            is_scoped,
            cache,
        }
    }

    /// Their nodes by shard; none where they are all that are not deleted.
    pub(super) fn allowed(&self) -> Result<Option<Arc<[NodeSet]>>> {
        let Some(ReadFilter { filter, encoded }) = &self.filter else {
            return Ok(None);
        };
        let cache = self.cache.as_deref();
        let (allowed, _) = AllowedNodes::find(filter, encoded, self.is_scoped, &self.snapshot, cache, &self.cancel)?;
        Ok(Some(Arc::clone(&allowed.shards)))
    }

    /// How many they are, by what [`Self::allowed`] has returned.
    pub(super) fn count(&self, allowed: Option<&[NodeSet]>) -> u64 {
        let count = allowed.map_or(self.snapshot.len(), |shards| shards.iter().map(NodeSet::len).sum());
        count as u64
    }

    /// Number of the generation.
    pub(super) fn generation(&self) -> u64 {
        self.snapshot.manifest().generation
    }

    /// What the filter costs, where it is not known what it allows.
    fn filter_cost(&self, size: IndexSize) -> Duration {
        let is_known = |encoded: &[u8]| {
            self.cache
                .as_ref()
                .is_some_and(|cache| cache.has(&self.snapshot, encoded))
        };
        match &self.filter {
            Some(ReadFilter { filter, encoded }) if !is_known(encoded) => size.filter(filter),
            _ => Duration::ZERO,
        }
    }
}

/// A call that was admitted.
#[derive(Debug)]
pub(super) struct ReadCall<'a> {
    documents: Arc<ReadDocuments>,
    jobs: Jobs<'a>,
    memory: &'a ReplyMemory,
    _guard: CancelOnDrop,
}

impl Engine {
    /// Admits a call. `cost` is that of its answer by the size of the index, and whether there is a filter.
    pub(super) fn read_call<'a>(
        &'a self,
        request: ReadRequest<'_>,
        cost: impl FnOnce(IndexSize, bool) -> SearchCost,
    ) -> Result<ReadCall<'a>> {
        let ReadRequest {
            index,
            filter,
            caller,
            time,
        } = request;
        let time = self.time(time);
        let generation = self.index(index, caller)?.generation();
        generation.check_is_here("reading documents")?;
        let snapshot = Arc::clone(generation.snapshot());
        let size = IndexSize::from_snapshot(&snapshot);
        let (cancel, guard) = SearchCancellation::with_deadline(Instant::now(), time);
        let filter = caller.restrict(filter).map(|filter| ReadFilter {
            encoded: cached_as(caller, &filter),
            filter: document_filter(&filter),
        });
        let answer = cost(size, filter.is_some());
        let documents = ReadDocuments {
            snapshot,
            cancel: Arc::clone(&cancel),
            filter,
            is_scoped: caller.filter().is_some(),
            cache: self.filters.clone(),
        };
        let cost = SearchCost {
            filter: documents.filter_cost(size),
            ..answer
        };
        let class = RequestClass::from_cost(cost.total(), size);
        let permit = self.pool.admit(class, cost.total(), time)?;
        let mut jobs = Jobs::new(&self.pool, class, cost, permit, cancel);
        jobs.choose_threads(&documents.snapshot);
        Ok(ReadCall {
            documents: Arc::new(documents),
            jobs,
            memory: &self.memory,
            _guard: guard,
        })
    }
}

impl ReadCall<'_> {
    /// Works on a thread for searches; the future waits for the result until the deadline.
    pub(super) fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ReadDocuments) -> Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + '_ {
        let documents = Arc::clone(&self.documents);
        self.jobs.start(move || work(&documents))
    }

    /// The same for a reply that takes reply memory; once more where there is not enough, after as much as the largest
    /// reply may take has become free.
    pub(super) async fn reply<T: Send + 'static>(
        &self,
        work: impl Fn(&ReadDocuments, &ReplyBudget) -> Result<T> + Send + Sync + 'static,
    ) -> Result<(T, ReplyBudget)> {
        let work = Arc::new(work);
        let read = |budget: ReplyBudget| {
            let work = Arc::clone(&work);
            self.start(move |documents| Ok((work(documents, &budget)?, budget)))
        };
        match read(self.memory.budget()).await {
            Err(Error::FullReplies { .. }) => read(self.memory.reserve(&self.documents.cancel).await?).await,
            read => read,
        }
    }
}
