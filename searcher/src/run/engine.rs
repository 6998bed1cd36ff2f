//! The served generation, the question tower, and a request's way through both.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use dyad_index::lexical::StoredDocument;
use dyad_index::snapshot::Snapshot;
use dyad_index::{Certificate, ModelRecord, manifest};
use dyad_proto::v1;
use prost::Message;
use tokio::sync::{Mutex, Semaphore};

use super::answer::Answer;
use super::batch::{Allowed, Batch, Chunk, Item};
use super::checksums;
use super::explain::{Explanation, explain};
use super::parts::Jobs;
use super::pool::{Class, Pool};
use super::reply_memory::{ReplyMemory, Share};
use super::stop::Stop;
use crate::error::{Error, Result};
use crate::fusion::Fusion;
use crate::plan::Plan;
use crate::question::QuestionTower;

/// How an engine runs.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Requests under way at once; more are refused. A quarter of the places is for batches and streams, which wait for
    /// them.
    pub max_requests: usize,
    /// Time for a request whose client sets no deadline.
    pub default_time: Duration,
    /// The generation to begin with; none: the one that `CURRENT` names.
    pub generation: Option<u64>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { max_requests: 512, default_time: Duration::from_secs(10), generation: None }
    }
}

/// Answers questions. Shared by all requests.
#[derive(Debug)]
pub struct Engine {
    pub(super) served: ArcSwap<Snapshot>,
    pub(super) tower: QuestionTower,
    pool: Pool,
    memory: ReplyMemory,
    /// Held while a generation is opened and swapped in, so that the one asked for last is the one that stays.
    pub(super) switching: Arc<Mutex<()>>,
    pub(super) verifying: Arc<Semaphore>,
    /// Whether the last question found no tower, so that the log tells once.
    pub(super) tower_is_down: AtomicBool,
    pub(super) index: PathBuf,
    config: EngineConfig,
}

/// Answers in the order of their questions, and what their documents take of the memory for replies.
pub type Answers = (Vec<Answer>, Share);

/// How a request waits for its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Not at all: a searcher that is full refuses.
    Refused,
    /// In a queue with batches, until its deadline.
    Queued,
}

/// Refuses a tower whose vectors do not live in the index's space, even at the same dimension.
pub(super) fn check_model(index: &ModelRecord, tower: &ModelRecord) -> Result<()> {
    if index.fingerprint == tower.fingerprint && index.dim == tower.dim {
        return Ok(());
    }
    Err(Error::Model { index: Box::new(index.clone()), tower: Box::new(tower.clone()) })
}

impl Engine {
    /// Opens a generation of an index and checks that the tower fits it.
    pub fn open(index: &Path, tower: QuestionTower, config: EngineConfig) -> Result<Self> {
        let snapshot = match config.generation {
            Some(generation) => Snapshot::open_manifest(index, manifest::load(index, generation)?)?,
            None => Snapshot::open(index)?,
        };
        check_model(&snapshot.manifest().model, tower.model())?;
        let snapshot = Arc::new(snapshot);
        checksums::check_in_background(&snapshot);
        Ok(Self {
            served: ArcSwap::new(snapshot),
            tower,
            pool: Pool::new(config.max_requests)?,
            memory: ReplyMemory::new(),
            switching: Arc::new(Mutex::new(())),
            verifying: Arc::new(Semaphore::new(1)),
            tower_is_down: AtomicBool::new(false),
            index: index.to_owned(),
            config,
        })
    }

    /// The generation that is served now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.served.load_full()
    }

    /// The question tower.
    pub fn tower(&self) -> &QuestionTower {
        &self.tower
    }

    /// Answers one question. The share is what the answer's documents take of the memory for replies.
    pub async fn search(
        &self,
        request: v1::SearchRequest,
        time: Option<Duration>,
        admission: Admission,
    ) -> Result<(Answer, Share)> {
        let started = Instant::now();
        let time = time.unwrap_or(self.config.default_time);
        // Dropped with this future, when the client goes away: the work ends soon after.
        let (stop, _waiting) = Stop::after(started, time);
        let class = if request.exact { Class::Bulk } else { Class::Interactive };
        let permit = match admission {
            Admission::Refused => self.pool.admit(class, time)?,
            Admission::Queued => self.pool.admit_many(1, &stop).await?,
        };
        let jobs = Jobs::new(&self.pool, class, permit, stop);
        let (mut answers, share) = self.answer(vec![request], time, started, &jobs).await?;
        Ok((answers.pop().ok_or(Error::Internal)?, share))
    }

    /// Answers many questions: one call to the tower, then those that ask for the same are walked together. The order is
    /// kept.
    pub async fn search_batch(&self, requests: Vec<v1::SearchRequest>, time: Option<Duration>) -> Result<Answers> {
        let started = Instant::now();
        let (stop, _waiting) = Stop::after(started, time.unwrap_or(self.config.default_time));
        let permit = self.pool.admit_many(requests.len(), &stop).await?;
        // What is left after waiting for a place.
        let left = stop.deadline().saturating_duration_since(Instant::now());
        let jobs = Jobs::new(&self.pool, Class::Bulk, permit, stop);
        self.answer(requests, left, started, &jobs).await
    }

    /// Answers questions together: some of the filters at a time, each with BM25 and the dense part side by side.
    async fn answer(
        &self,
        requests: Vec<v1::SearchRequest>,
        time: Duration,
        started: Instant,
        jobs: &Jobs<'_>,
    ) -> Result<Answers> {
        let snapshot = self.snapshot();
        let (measured, learned) = (certificates(&snapshot), snapshot.fusion().map(Fusion::from));
        let item = |request: v1::SearchRequest| Item {
            plan: Plan::new(&request, time, &measured, learned),
            filter: request.filter.as_ref().map(Message::encode_to_vec),
            query: request.query,
        };
        let items = requests.into_iter().map(item).collect();
        drop(measured);
        let at_once = self.pool.threads(jobs.class);
        let batch = Arc::new(Batch::new(snapshot, items, at_once, Arc::clone(&jobs.stop), started));
        let mut embedding = Some(self.embed(&batch));
        // The threads of a tower wait actively for each other, so also for one that BM25 keeps from its core: side by side, a
        // batch takes more processor time than one after the other. One question keeps the cores busy for too short a time.
        if batch.items.len() > 1
            && self.tower.takes_all_cores()
            && let Some(embedding) = embedding.take()
        {
            embedding.await?;
        }
        let mut answered = None;
        for chunk in batch.chunks() {
            let vectors = embedding.take();
            let vectors = async {
                match vectors {
                    Some(embedding) => embedding.await,
                    None => Ok(()),
                }
            };
            let parts = jobs.side_by_side(
                chunk.has_filter.then(|| work(&batch, chunk, Batch::filter)),
                chunk.has_text.then(|| self.part(&batch, chunk, Batch::text)),
                vectors,
                chunk.has_dense.then(|| self.part(&batch, chunk, Batch::dense)),
            );
            match parts.await {
                Ok(parts) => answered = parts.into_iter().flatten().flatten().next(),
                // All parts are done, and the documents had no room.
                Err(Error::FullReplies { .. }) => {
                    let share = self.memory.reserve(&jobs.stop).await?;
                    let batch = Arc::clone(&batch);
                    return jobs.start(move || Ok((batch.answers(&share)?, share))).await;
                }
                Err(error) => return Err(error),
            }
        }
        // A batch of no questions has no parts.
        if batch.chunks().is_empty() {
            return Ok((Vec::new(), self.memory.share()));
        }
        answered.ok_or(Error::Internal)
    }

    /// A part of a batch for some of its filters; the last one goes on to the answers.
    fn part(
        &self,
        batch: &Arc<Batch>,
        chunk: &Chunk,
        part: impl Fn(&Batch, &Chunk, &[Allowed]) -> Result<()> + Send + 'static,
    ) -> impl FnOnce(&Vec<Allowed>) -> Result<Option<Answers>> + Send + 'static {
        let (batch, chunk, share) = (Arc::clone(batch), chunk.clone(), self.memory.share());
        move |allowed| {
            part(&batch, &chunk, allowed)?;
            let answers = batch.is_last_part().then(|| batch.answers(&share)).transpose()?;
            Ok(answers.map(|answers| (answers, share)))
        }
    }

    /// Documents by key, in the order asked for, and the keys that the index does not hold.
    pub async fn documents(
        &self,
        keys: Vec<String>,
        time: Option<Duration>,
    ) -> Result<(Vec<StoredDocument>, Vec<String>, Share)> {
        let time = time.unwrap_or(self.config.default_time);
        let permit = self.pool.admit(Class::Interactive, time)?;
        let snapshot = self.snapshot();
        let (stop, _waiting) = Stop::after(Instant::now(), time);
        let jobs = Jobs::new(&self.pool, Class::Interactive, permit, Arc::clone(&stop));
        let keys: Arc<[String]> = keys.into();
        let read = |share: Share| {
            let (snapshot, keys, stop) = (Arc::clone(&snapshot), Arc::clone(&keys), Arc::clone(&stop));
            jobs.start(move || {
                let (mut found, mut missing) = (Vec::new(), Vec::new());
                for key in &*keys {
                    stop.check()?;
                    match snapshot.find(key)? {
                        Some((shard, node)) => {
                            let document = snapshot.document(shard, node)?;
                            share.take(&document)?;
                            found.push(document);
                        }
                        None => missing.push(key.clone()),
                    }
                }
                Ok((found, missing, share))
            })
        };
        match read(self.memory.share()).await {
            Err(Error::FullReplies { .. }) => read(self.memory.reserve(&stop).await?).await,
            read => read,
        }
    }

    /// Why a document is, or is not, among the hits of a question; and the generation that says so.
    pub async fn explain(&self, request: v1::ExplainRequest, time: Option<Duration>) -> Result<(Explanation, u64)> {
        let time = time.unwrap_or(self.config.default_time);
        let (stop, _waiting) = Stop::after(Instant::now(), time);
        let permit = self.pool.admit(Class::Bulk, time)?;
        let snapshot = self.snapshot();
        let stage = Plan::explained(&request, &certificates(&snapshot));
        let v1::ExplainRequest { query, key, .. } = request;
        let vector = self.tower.embed(vec![query.clone()], time).await?.vectors;
        let generation = snapshot.manifest().generation;
        let jobs = Jobs::new(&self.pool, Class::Bulk, permit, Arc::clone(&stop));
        let work = jobs.start(move || explain(&snapshot, &query, &vector, &key, stage, &stop));
        Ok((work.await?, generation))
    }
}

/// Some of a batch's work for some of its filters, to be done on another thread.
fn work<T>(
    batch: &Arc<Batch>,
    chunk: &Chunk,
    work: impl FnOnce(&Batch, &Chunk) -> T + Send + 'static,
) -> impl FnOnce() -> T + Send + 'static {
    let (batch, chunk) = (Arc::clone(batch), chunk.clone());
    move || work(&batch, &chunk)
}

/// What every shard measured of itself.
fn certificates(snapshot: &Snapshot) -> Vec<&Certificate> {
    snapshot.shards().iter().map(|shard| shard.dense.certificate()).collect()
}
