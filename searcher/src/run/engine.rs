//! The engine: what all indexes of a searcher share, and the handling of requests.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dyad_index::snapshot::Snapshot;
use dyad_proto::access::Caller;
use dyad_proto::admission::AdmissionLimit;
use dyad_proto::v1;

use super::config::EngineConfig;
use super::gather::Gather;
use super::live_recall::LiveRecall;
use super::parts::Jobs;
use super::resources::cancellation::SearchCancellation;
use super::resources::pool::{RequestClass, SearchPools};
use super::resources::reply_memory::{ALL_REPLIES, ReplyBudget, ReplyMemory};
use super::resources::turns::Turn;
use super::served::checksums::Checksums;
use super::served::filter_cache::{FilterCache, cached_as};
use super::served::generation::ServedGeneration;
use super::served::readiness::ReadinessState;
use super::served::scope::Scope;
use super::served::served_index::{IndexPath, Indexes, Opening, ServedIndex};
use super::stages::answer::{Answer, Answers};
use super::stages::batch::{BatchItem, QuestionBatch, SearchedIndex};
use super::stages::explain::explain;
use super::stages::fuse::check_units;
use super::stages::question_vector::question_vector;
use crate::error::{Error, Result};
use crate::fusion::Fusion;
use crate::leaves::{HeldShards, Leaves};
use crate::memory::ProcessMemory;
use crate::metrics::SearcherMetrics;
use crate::mirrors::Mirrors;
use crate::plan::{IndexSize, SearchCost, SearchDefaults, SearchPlan, ServedSearchDefaults};
use crate::question::{ModelTower, QuestionCache, QuestionTower, QuestionTowers};
use crate::reranker::Reranker;
use crate::slow_log::SlowLog;

/// Answers questions. Shared by all requests, of all indexes: so are threads, towers, caches and limits.
#[derive(Debug)]
pub struct Engine {
    pub(super) indexes: Indexes,
    pub(super) towers: QuestionTowers,
    pub(super) reranker: Option<Reranker>,
    pub(super) mirrors: Option<Mirrors>,
    pub(super) held: HeldShards,
    /// Those that hold the shards of the indexes, where this is a root.
    pub(super) leaves: Option<Arc<Leaves>>,
    pub(super) questions: Option<QuestionCache>,
    pub(super) filters: Option<Arc<FilterCache>>,
    pub(super) checksums: Checksums,
    pub(super) process: ProcessMemory,
    pub(super) verifying: AdmissionLimit,
    pub(super) pool: SearchPools,
    pub(super) memory: ReplyMemory,
    pub(super) readiness: ReadinessState,
    pub(super) metrics: Arc<SearcherMetrics>,
    recall: Option<LiveRecall>,
    search_defaults: ServedSearchDefaults,
    pub(super) gather: Arc<Gather>,
    pub(super) gather_single_shard: Arc<Gather>,
    pub(super) slow: SlowLog,
    /// Milliseconds.
    default_time: AtomicU64,
}

/// What happens to a request when the searcher is full.
#[derive(Debug)]
pub enum QueuePolicy {
    /// It is refused at once.
    Refused,
    /// It queues with batches, until its deadline. Its documents are read in its turn.
    Queued(Turn),
}

/// The requests of one call.
struct CallRequests {
    requests: Vec<v1::SearchRequest>,
    /// The path of a request in the call, before the names of its fields, by its number.
    path_of: fn(usize) -> String,
}

impl Engine {
    /// Opens a generation of an index and checks that the tower fits it. Without a tower, questions come with their
    /// vectors, or are answered by BM25.
    pub fn open(index: &Path, tower: Option<QuestionTower>, config: EngineConfig) -> Result<Self> {
        Self::open_all(vec![IndexPath::new(index)], tower.into(), config)
    }

    /// Opens several indexes, in parallel.
    pub fn open_all(indexes: Vec<IndexPath>, towers: QuestionTowers, config: EngineConfig) -> Result<Self> {
        let mut process = config.memory;
        for bytes in [config.question_cache, config.filter_cache, ALL_REPLIES] {
            process.buffers = process.buffers.saturating_add(bytes as u64);
        }
        let opening = Opening {
            held: &config.held,
            generation: config.generation,
        };
        let indexes = Indexes::open(indexes, &opening, &towers, &process)?;
        let checksums = Checksums::default();
        for index in indexes.iter() {
            checksums.check_in_background(&index.snapshot());
        }
        let metrics = Arc::new(SearcherMetrics::new());
        let dim = towers.iter().map(|one| one.tower.model().dim).min();
        Ok(Self {
            indexes,
            questions: dim.and_then(|dim| QuestionCache::new(config.question_cache, dim)),
            towers,
            reranker: None,
            mirrors: None,
            held: config.held,
            leaves: None,
            filters: FilterCache::new(config.filter_cache).map(Arc::new),
            checksums,
            process,
            verifying: AdmissionLimit::new(1),
            pool: SearchPools::new(config.max_requests)?,
            memory: ReplyMemory::new(),
            readiness: ReadinessState::default(),
            recall: LiveRecall::start(config.live_recall_share, Arc::clone(&metrics))?,
            search_defaults: config.search_defaults,
            metrics,
            gather: Arc::default(),
            gather_single_shard: Arc::default(),
            slow: SlowLog::default(),
            default_time: AtomicU64::new(config.default_time.as_millis() as u64),
        })
    }

    /// Sets the time for later requests whose clients set no deadline.
    pub fn set_default_time(&self, time: Duration) {
        self.default_time.store(time.as_millis() as u64, Ordering::Relaxed);
    }

    /// The time for a request.
    pub(super) fn time(&self, asked: Option<Duration>) -> Duration {
        asked.unwrap_or_else(|| Duration::from_millis(self.default_time.load(Ordering::Relaxed)))
    }

    /// The index with this name, if the caller may name it; the default one for an empty name.
    pub fn index(&self, name: &str, caller: &Caller) -> Result<&Arc<ServedIndex>> {
        self.indexes.find(name, caller, String::new)
    }

    /// All indexes, ascending by name.
    pub fn indexes(&self) -> impl ExactSizeIterator<Item = &Arc<ServedIndex>> {
        self.indexes.iter()
    }

    /// Whether an index answers requests that name none.
    pub fn is_default(&self, index: &ServedIndex) -> bool {
        self.indexes.is_default(index)
    }

    /// The question towers.
    pub fn towers(&self) -> &QuestionTowers {
        &self.towers
    }

    /// Answers one question. The budget is the reply memory that the answer's documents take.
    pub async fn search(
        &self,
        request: v1::SearchRequest,
        caller: &Caller,
        time: Option<Duration>,
        admission: QueuePolicy,
    ) -> Result<(Answer, ReplyBudget)> {
        let started = Instant::now();
        let time = self.time(time);
        // Dropped with this future, when the client goes away: the work ends soon after.
        let (cancel, _guard) = SearchCancellation::with_deadline(started, time);
        let (queued, turn) = match admission {
            QueuePolicy::Refused => (None, None),
            QueuePolicy::Queued(turn) => (Some(self.pool.admit_many(1, &cancel).await?), Some(turn)),
        };
        let requests = CallRequests {
            requests: vec![request],
            path_of: |_| String::new(),
        };
        let batch = self.batch(requests, caller, started, &cancel, turn.is_some())?;
        let cost = batch.cost();
        let class = batch.generation.class_of(|size| batch.cost_of_size(size));
        batch.read_deeper_from_now_on(class == RequestClass::Bulk);
        let permit = match queued {
            Some(permit) => permit,
            None => self.pool.admit(class, cost.total(), time)?,
        };
        let mut jobs = Jobs::new(&self.pool, class, cost, permit, cancel);
        jobs.is_queued = turn.is_some();
        jobs.choose_threads(&batch.snapshot);
        let mut answers = Box::pin(self.answer(&batch, &jobs)).await?;
        if batch.reranks() {
            answers = Box::pin(self.rerank(&batch, answers, &jobs)).await?;
            if turn.is_none() {
                answers = Box::pin(self.fetch(&batch, answers, &jobs)).await?;
            }
        }
        drop(jobs);
        // Questions of a warm-up are no one's.
        let is_asked = !caller.is_server();
        let is_here = batch.generation.on_leaves().is_none();
        if let (Some(recall), true) = (&self.recall, is_asked && is_here) {
            recall.offer(&batch);
        }
        if let Some(turn) = turn {
            answers = Box::pin(self.fetch_in_turn(batch, answers, turn, class, cost)).await?;
        }
        let answer = answers.0.pop().ok_or(Error::Internal)?;
        if is_asked {
            answer.count(&self.metrics);
        }
        Ok((answer, answers.1))
    }

    /// Answers many questions: one call to the tower, then those with equal parameters are searched together. The
    /// order is kept.
    pub async fn search_batch(
        &self,
        requests: Vec<v1::SearchRequest>,
        caller: &Caller,
        time: Option<Duration>,
    ) -> Result<Answers> {
        if requests.is_empty() {
            return Ok((Vec::new(), self.memory.budget()));
        }
        let started = Instant::now();
        let (cancel, _guard) = SearchCancellation::with_deadline(started, self.time(time));
        let permit = self.pool.admit_many(requests.len(), &cancel).await?;
        let requests = CallRequests {
            requests,
            path_of: |number| format!("requests[{number}]."),
        };
        let batch = self.batch(requests, caller, started, &cancel, false)?;
        let cost = batch.cost().part_of(batch.chunks().len());
        let jobs = Jobs::new(&self.pool, RequestClass::Bulk, cost, permit, cancel);
        let mut answers = self.answer(&batch, &jobs).await?;
        if batch.reranks() {
            answers = self.rerank(&batch, answers, &jobs).await?;
            answers = self.fetch(&batch, answers, &jobs).await?;
        }
        answers.0.iter().for_each(|answer| answer.count(&self.metrics));
        Ok(answers)
    }

    /// Questions that are answered together, planned for the time that is left.
    fn batch(
        &self,
        call: CallRequests,
        caller: &Caller,
        started: Instant,
        cancel: &Arc<SearchCancellation>,
        fetches_later: bool,
    ) -> Result<Arc<QuestionBatch>> {
        // The requests of a batch name the same one.
        let name = call.requests.first().map_or("", |first| &first.index);
        let index = Arc::clone(self.indexes.find(name, caller, || (call.path_of)(0))?);
        let generation = index.generation();
        let asked = Asked {
            generation: &generation,
            defaults: self.search_defaults.of(&index.name),
            caller,
            time: cancel.remaining(),
        };
        let items = asked.items(call)?;
        let at_once = self.pool.threads(RequestClass::Bulk);
        let searched = SearchedIndex {
            index,
            generation,
            filters: self.filters.clone(),
            scope: Scope::from_caller(caller),
        };
        let mut batch = QuestionBatch::new(searched, items, at_once, Arc::clone(cancel), started);
        if batch.reranks() && self.reranker.is_none() {
            return Err(Error::NoReranker);
        }
        batch.fetches_later = fetches_later || batch.reranks();
        Ok(Arc::new(batch))
    }

    /// The question tower that embeds for a generation.
    pub(super) fn tower_of(&self, snapshot: &Snapshot) -> Option<&ModelTower> {
        self.towers.find(&snapshot.manifest().model)
    }

    /// Why a document is, or is not, among the hits of a search. The budget is the reply memory that it takes.
    pub async fn explain(
        &self,
        search: v1::SearchRequest,
        key: String,
        caller: &Caller,
        time: Option<Duration>,
    ) -> Result<(v1::ExplainResponse, ReplyBudget)> {
        let (started, time) = (Instant::now(), self.time(time));
        let call = CallRequests {
            requests: vec![search],
            path_of: |_| "search.".to_owned(),
        };
        let name = call.requests.first().map_or("", |first| &first.index);
        let index = Arc::clone(self.indexes.find(name, caller, || (call.path_of)(0))?);
        let (cancel, _guard) = SearchCancellation::with_deadline(started, time);
        let generation = index.generation();
        let asked = Asked {
            generation: &generation,
            defaults: self.search_defaults.of(&index.name),
            caller,
            time,
        };
        let items = asked.items(call)?;
        let searched = SearchedIndex {
            index,
            generation,
            filters: self.filters.clone(),
            scope: Scope::from_caller(caller),
        };
        let batch = QuestionBatch::new(searched, items, 1, Arc::clone(&cancel), started);
        let explanation = IndexSize::from_snapshot(&batch.snapshot).explanation();
        let cost = [batch.cost(), explanation].into_iter().sum::<SearchCost>();
        let permit = self.pool.admit(RequestClass::Bulk, cost.total(), time)?;
        let jobs = Jobs::new(&self.pool, RequestClass::Bulk, cost, permit, Arc::clone(&cancel));
        if batch.generation.on_leaves().is_some() {
            return Box::pin(self.explain_by_leaves(Arc::new(batch), key, &jobs)).await;
        }
        self.embed(&batch).await?;
        let budget = self.memory.budget();
        let explained = jobs.start_dense(move || {
            let explained = explain(&batch, &key)?;
            budget.take_bytes(explained.bm25_explanation_json.len())?;
            Ok((explained, budget))
        });
        explained.await
    }
}

/// Of what, by whom and for how long a call asks.
struct Asked<'a> {
    generation: &'a ServedGeneration,
    /// What its requests mean where they leave parameters open.
    defaults: SearchDefaults,
    caller: &'a Caller,
    time: Duration,
}

impl Asked<'_> {
    /// The questions of a call with their plans, for the documents that exist for the caller.
    fn items(&self, call: CallRequests) -> Result<Vec<BatchItem>> {
        let CallRequests { requests, path_of: at } = call;
        let Self { generation, caller, .. } = *self;
        let (snapshot, measured) = (generation.snapshot(), generation.certificates());
        let default = Fusion::default_of(snapshot.manifest());
        let own = snapshot.fusion().map_or(default, |learned| default.learned(learned));
        let item = |(number, mut request): (usize, v1::SearchRequest)| {
            request.filter = caller.restrict(request.filter.take());
            self.defaults.fill(&mut request);
            let plan = SearchPlan::new(&request, self.time, &measured, own);
            check_units(&plan, || at(number))?;
            Ok(BatchItem {
                plan,
                filter: request.filter.as_ref().map(|filter| cached_as(caller, filter)),
                vector: question_vector(&request, &snapshot.manifest().model, || at(number))?,
                query: request.query,
                request_filter: request.filter,
            })
        };
        requests.into_iter().enumerate().map(item).collect()
    }
}
