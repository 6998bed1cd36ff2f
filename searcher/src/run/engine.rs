//! The served generation, the question tower, and a request's way through both.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use dyad_index::lexical::StoredDocument;
use dyad_index::snapshot::Snapshot;
use dyad_index::{Certificate, ModelRecord, manifest};
use dyad_proto::v1;
use prost::Message;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use super::answer::{Answer, StageTimings};
use super::batch;
use super::explain::{Explanation, explain};
use super::pool::{Class, Pool, finish};
use super::reply_memory::{ReplyMemory, Share};
use super::stages::{self, Passing, Ranked, Timed};
use super::stop::Stop;
use crate::error::{Error, Result};
use crate::plan::{Mode, Plan};
use crate::question::{Embedded, QuestionTower};

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
    tower_is_down: AtomicBool,
    pub(super) index: PathBuf,
    config: EngineConfig,
}

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

/// What happened to the question on its way to a vector.
struct Vector {
    values: Option<Vec<f32>>,
    timings: StageTimings,
    degraded: Option<String>,
}

impl Engine {
    /// Opens a generation of an index and checks that the tower fits it.
    pub fn open(index: &Path, tower: QuestionTower, config: EngineConfig) -> Result<Self> {
        let snapshot = match config.generation {
            Some(generation) => Snapshot::open_manifest(index, manifest::load(index, generation)?)?,
            None => Snapshot::open(index)?,
        };
        check_model(&snapshot.manifest().model, tower.model())?;
        Ok(Self {
            served: ArcSwap::from_pointee(snapshot),
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

    /// Answers one question. BM25 runs while the question is being embedded. The share is what the answer's documents
    /// take of the memory for replies.
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
        // Held by the work itself: what goes on after the client has left still counts.
        let permit = Arc::new(match admission {
            Admission::Refused => self.pool.admit(class, time)?,
            Admission::Queued => self.pool.admit_many(1, &stop).await?,
        });
        let snapshot = self.snapshot();
        let plan = Arc::new(Plan::new(&request, time, &certificates(&snapshot)));
        let query: Arc<str> = request.query.into();
        let text = {
            let (snapshot, plan, query, stop) =
                (Arc::clone(&snapshot), Arc::clone(&plan), Arc::clone(&query), Arc::clone(&stop));
            Arc::new(move || {
                let passing = stages::passing(&snapshot, &plan, &stop)?;
                let text = stages::text(&snapshot, &plan, &query, &passing, &stop)?;
                Ok::<(Passing, Timed), Error>((passing, text))
            })
        };
        // Work that need not wait for the vector begins before it; where there is none, it is done with the rest.
        let early = (plan.text_depth.is_some() || plan.filter.is_some()).then(|| {
            let (permit, text) = (Arc::clone(&permit), Arc::clone(&text));
            self.pool.spawn(class, move || {
                let _permit = permit;
                text()
            })
        });
        let mut vectors = self.vectors(&[&plan], vec![query.to_string()]).await?;
        let vector = vectors.remove(0);
        let early = match early {
            Some(early) => Some(finish(early, &stop).await??),
            None => None,
        };
        let rank = {
            let (snapshot, plan, stop) = (Arc::clone(&snapshot), Arc::clone(&plan), Arc::clone(&stop));
            let values = vector.values.clone();
            move |share: &Share| {
                let late = if early.is_some() { None } else { Some(text()?) };
                let Some((passing, text)) = early.as_ref().or(late.as_ref()) else { return Err(Error::Internal) };
                let dense = stages::dense(&snapshot, &plan, values.as_deref(), passing, &stop)?;
                let computed = dense.0.distance_computations;
                let ranked = stages::rank(&snapshot, &plan, (&dense, text), passing.took_us, share, &stop)?;
                Ok((Ranked { notes: passing.notes.clone(), ..ranked }, computed))
            }
        };
        let ((ranked, computed), share) = self.fetch(class, permit, &stop, rank).await?;
        Ok((answer(&snapshot, &plan, ranked, &vector, computed, started), share))
    }

    /// Does work that reads documents. Where the memory for replies has run out it is done once more, as soon as what the
    /// largest reply takes is reserved: first come, first served.
    async fn fetch<T: Send + 'static>(
        &self,
        class: Class,
        permit: Arc<OwnedSemaphorePermit>,
        stop: &Stop,
        work: impl Fn(&Share) -> Result<T> + Send + Sync + 'static,
    ) -> Result<(T, Share)> {
        let work = Arc::new(work);
        let done = |share: Share| {
            let (work, permit) = (Arc::clone(&work), Arc::clone(&permit));
            self.pool.spawn(class, move || {
                let _permit = permit;
                work(&share).map(|value| (value, share))
            })
        };
        match finish(done(self.memory.share()), stop).await? {
            Err(Error::FullReplies { .. }) => {
                let reserved = self.memory.reserve(stop).await?;
                finish(done(reserved), stop).await?
            }
            other => other,
        }
    }

    /// Answers many questions: one call to the tower, then those that ask for the same are walked together. The order is
    /// kept.
    pub async fn search_batch(
        &self,
        requests: Vec<v1::SearchRequest>,
        time: Option<Duration>,
    ) -> Result<(Vec<Answer>, Share)> {
        let started = Instant::now();
        let time = time.unwrap_or(self.config.default_time);
        let (stop, _waiting) = Stop::after(started, time);
        let permit = self.pool.admit_many(requests.len(), &stop).await?;
        let snapshot = self.snapshot();
        let measured = certificates(&snapshot);
        // What is left after waiting for a place.
        let left = stop.deadline().saturating_duration_since(Instant::now());
        let plans: Vec<Plan> = requests.iter().map(|request| Plan::new(request, left, &measured)).collect();
        drop(measured);
        let filter = |request: &v1::SearchRequest| request.filter.as_ref().map(Message::encode_to_vec);
        let filters: Vec<Vec<u8>> = requests.iter().map(|request| filter(request).unwrap_or_default()).collect();
        let queries: Vec<String> = requests.into_iter().map(|request| request.query).collect();
        let vectors = self.vectors(&plans.iter().collect::<Vec<_>>(), queries.clone()).await?;
        let items = plans.into_iter().zip(queries).zip(filters).zip(&vectors);
        let item = |(((plan, query), filter), vector): (((Plan, String), Vec<u8>), &Vector)| batch::Item {
            plan,
            query,
            filter,
            vector: vector.values.clone(),
        };
        let items: Vec<_> = items.map(item).collect();
        let answer_all = {
            let stop = Arc::clone(&stop);
            move |share: &Share| {
                let found = batch::answer_all(&snapshot, &items, share, &stop)?;
                let answers =
                    found.into_iter().zip(&items).zip(&vectors).map(|(((ranked, computed), item), vector)| {
                        answer(&snapshot, &item.plan, ranked, vector, computed, started)
                    });
                Ok(answers.collect())
            }
        };
        self.fetch(Class::Bulk, Arc::new(permit), &stop, answer_all).await
    }

    /// Vectors for the plans that have a dense stage, in one call to the tower. A plan that can answer without one
    /// does so, degraded, when the tower fails.
    async fn vectors(&self, plans: &[&Plan], queries: Vec<String>) -> Result<Vec<Vector>> {
        let wanted = |plan: &Plan| plan.dense.is_some();
        let texts: Vec<String> =
            plans.iter().zip(queries).filter(|(plan, _)| wanted(plan)).map(|(_, query)| query).collect();
        let time = plans.iter().filter(|plan| wanted(plan)).map(|plan| plan.tower_time).min();
        let embedded = match time {
            Some(time) => self.tower.embed(texts, time).await,
            None => Ok(Embedded::default()),
        };
        if time.is_some() {
            self.note_tower(embedded.as_ref().err());
        }
        let mut rows = match &embedded {
            Ok(embedded) => embedded.vectors.chunks_exact(self.tower.model().dim.max(1)),
            Err(_) => [].chunks_exact(1),
        };
        let mut vectors = Vec::with_capacity(plans.len());
        let mut failure = None;
        for plan in plans {
            let mut vector = Vector { values: None, timings: StageTimings::default(), degraded: None };
            match &embedded {
                _ if !wanted(plan) => {}
                Ok(times) => {
                    vector.values = rows.next().map(<[f32]>::to_vec);
                    vector.timings.queue_us = times.queue_us;
                    vector.timings.tokenize_us = times.tokenize_us;
                    vector.timings.embed_us = times.embed_us;
                }
                Err(error) if plan.mode != Mode::Dense => {
                    vector.degraded = Some(format!("no question vector, BM25 alone answered: {error}"));
                }
                Err(_) => failure = Some(()),
            }
            vectors.push(vector);
        }
        match (failure, embedded) {
            (Some(()), Err(error)) => Err(error),
            _ => Ok(vectors),
        }
    }

    /// Logs that the tower has gone, or that it is back: once each.
    fn note_tower(&self, error: Option<&Error>) {
        match error {
            // Too much to do is no failure.
            Some(Error::TowerBusy { .. } | Error::TowerLate(_)) => {}
            Some(error) => {
                if !self.tower_is_down.swap(true, Ordering::Relaxed) {
                    tracing::warn!("the question tower gives no vectors, BM25 answers where it may: {error}");
                }
            }
            None => {
                if self.tower_is_down.swap(false, Ordering::Relaxed) {
                    tracing::info!("the question tower gives vectors again");
                }
            }
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
        let read = {
            let stop = Arc::clone(&stop);
            move |share: &Share| {
                let (mut found, mut missing) = (Vec::new(), Vec::new());
                for key in &keys {
                    stop.check()?;
                    match snapshot.find(key) {
                        Some((shard, node)) => {
                            let document = snapshot.document(shard, node)?;
                            share.take(&document)?;
                            found.push(document);
                        }
                        None => missing.push(key.clone()),
                    }
                }
                Ok((found, missing))
            }
        };
        let ((found, missing), share) = self.fetch(Class::Interactive, Arc::new(permit), &stop, read).await?;
        Ok((found, missing, share))
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
        let work = {
            let stop = Arc::clone(&stop);
            self.pool.spawn(Class::Bulk, move || {
                let _permit = permit;
                explain(&snapshot, &query, &vector, &key, stage, &stop)
            })
        };
        Ok((finish(work, &stop).await??, generation))
    }
}

/// What every shard measured of itself.
fn certificates(snapshot: &Snapshot) -> Vec<&Certificate> {
    snapshot.shards().iter().map(|shard| shard.dense.certificate()).collect()
}

fn answer(
    snapshot: &Snapshot,
    plan: &Plan,
    ranked: Ranked,
    vector: &Vector,
    computed: u64,
    started: Instant,
) -> Answer {
    let timings = StageTimings {
        total_us: stages::micros(started),
        queue_us: vector.timings.queue_us,
        tokenize_us: vector.timings.tokenize_us,
        embed_us: vector.timings.embed_us,
        ..ranked.timings
    };
    Answer {
        mode: plan.mode,
        hits: ranked.hits,
        compared: ranked.compared,
        k: plan.k,
        timings,
        degraded: vector.degraded.clone(),
        generation: snapshot.manifest().generation,
        fingerprint: snapshot.manifest().model.fingerprint.clone(),
        ef: if vector.values.is_some() { plan.ef() } else { 0 },
        recall_note: plan.recall_note.clone().filter(|_| vector.values.is_some()),
        distance_computations: computed,
        notes: ranked.notes,
    }
}
