//! The served generation, the question tower, and a request's way through both.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use dyad_index::lexical::StoredDocument;
use dyad_index::snapshot::Snapshot;
use dyad_index::storage::WriteLock;
use dyad_index::{Certificate, ModelRecord, manifest};
use dyad_proto::v1;
use tokio::sync::{Mutex, Semaphore};

use super::answer::{Answer, StageTimings};
use super::batch;
use super::explain::{Explanation, explain};
use super::pool::{Pool, finish, spawn};
use super::stages::{self, Ranked};
use super::stop::Stop;
use crate::error::{Error, Result};
use crate::plan::{Mode, Plan};
use crate::question::{Embedded, QuestionTower};

/// How an engine runs.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Requests under way at once; more are refused.
    pub max_requests: usize,
    /// Time for a request whose client sets no deadline.
    pub default_time: Duration,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { max_requests: 512, default_time: Duration::from_secs(10) }
    }
}

/// Answers questions. Shared by all requests.
#[derive(Debug)]
pub struct Engine {
    served: ArcSwap<Snapshot>,
    tower: QuestionTower,
    pool: Pool,
    /// Held while a generation is opened and swapped in, so that the one asked for last is the one that stays.
    switching: Mutex<()>,
    verifying: Semaphore,
    index: PathBuf,
    config: EngineConfig,
}

/// Refuses a tower whose vectors do not live in the index's space, even at the same dimension.
fn check_model(index: &ModelRecord, tower: &ModelRecord) -> Result<()> {
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
    /// Opens the current generation of an index and checks that the tower fits it.
    pub fn open(index: &Path, tower: QuestionTower, config: EngineConfig) -> Result<Self> {
        let snapshot = Snapshot::open(index)?;
        check_model(&snapshot.manifest().model, tower.model())?;
        let pool = Pool::new(config.max_requests.max(1));
        let (served, switching) = (ArcSwap::from_pointee(snapshot), Mutex::new(()));
        Ok(Self { served, tower, pool, switching, verifying: Semaphore::new(1), index: index.to_owned(), config })
    }

    /// The generation that is served now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.served.load_full()
    }

    /// The question tower's model.
    pub fn tower_model(&self) -> &ModelRecord {
        self.tower.model()
    }

    /// Answers one question. BM25 runs while the question is being embedded.
    pub async fn search(&self, request: v1::SearchRequest, time: Option<Duration>) -> Result<Answer> {
        let started = Instant::now();
        let time = time.unwrap_or(self.config.default_time);
        // Dropped with this future, when the client goes away: the work ends soon after.
        let (stop, _waiting) = Stop::after(started, time);
        // Held by the work itself: what goes on after the client has left still counts.
        let permit = Arc::new(self.pool.admit(1)?);
        let snapshot = self.snapshot();
        let plan = Arc::new(Plan::new(&request, time, &certificates(&snapshot)));
        let query: Arc<str> = request.query.into();
        let text = {
            let (snapshot, plan, query) = (Arc::clone(&snapshot), Arc::clone(&plan), Arc::clone(&query));
            let (permit, stop) = (Arc::clone(&permit), Arc::clone(&stop));
            spawn(move || {
                let _permit = permit;
                let passing = stages::passing(&snapshot, &plan, &stop)?;
                let text = stages::text(&snapshot, &plan, &query, &passing, &stop)?;
                Ok::<_, Error>((passing, text))
            })
        };
        let mut vectors = self.vectors(&[&plan], vec![query.to_string()]).await?;
        let vector = vectors.remove(0);
        let (passing, text) = finish(text, &stop).await??;
        let ranked = {
            let (snapshot, plan) = (Arc::clone(&snapshot), Arc::clone(&plan));
            let (values, stop) = (vector.values.clone(), Arc::clone(&stop));
            spawn(move || {
                let _permit = permit;
                let dense = stages::dense(&snapshot, &plan, values.as_deref(), &passing, &stop)?;
                let computed = dense.0.distance_computations;
                let ranked = stages::rank(&snapshot, &plan, &dense, &text, passing.took_us)?;
                Ok::<_, Error>((Ranked { notes: passing.notes, ..ranked }, computed))
            })
        };
        let (ranked, computed) = finish(ranked, &stop).await??;
        Ok(answer(&snapshot, &plan, ranked, vector, computed, started))
    }

    /// Answers many questions: one call to the tower, then those that ask for the same are walked together. The order is
    /// kept.
    pub async fn search_batch(&self, requests: Vec<v1::SearchRequest>, time: Option<Duration>) -> Result<Vec<Answer>> {
        let started = Instant::now();
        let time = time.unwrap_or(self.config.default_time);
        let (stop, _waiting) = Stop::after(started, time);
        let permit = self.pool.admit(requests.len())?;
        let snapshot = self.snapshot();
        let measured = certificates(&snapshot);
        let plans: Vec<Plan> = requests.iter().map(|request| Plan::new(request, time, &measured)).collect();
        drop(measured);
        let queries: Vec<String> = requests.into_iter().map(|request| request.query).collect();
        let vectors = self.vectors(&plans.iter().collect::<Vec<_>>(), queries.clone()).await?;
        let work = {
            let stop = Arc::clone(&stop);
            spawn(move || {
                let _permit = permit;
                let item = |((plan, query), vector): ((Plan, String), &Vector)| batch::Item {
                    plan,
                    query,
                    vector: vector.values.clone(),
                };
                let items: Vec<_> = plans.into_iter().zip(queries).zip(&vectors).map(item).collect();
                let found = batch::answer_all(&snapshot, &items, &stop)?;
                let answers = found.into_iter().zip(items).zip(vectors).map(|(((ranked, computed), item), vector)| {
                    answer(&snapshot, &item.plan, ranked, vector, computed, started)
                });
                Ok(answers.collect())
            })
        };
        finish(work, &stop).await?
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

    /// Documents by key, in the order asked for, and the keys that the index does not hold.
    pub async fn documents(
        &self,
        keys: Vec<String>,
        time: Option<Duration>,
    ) -> Result<(Vec<StoredDocument>, Vec<String>)> {
        let permit = self.pool.admit(1)?;
        let snapshot = self.snapshot();
        let time = time.unwrap_or(self.config.default_time);
        let (stop, _waiting) = Stop::after(Instant::now(), time);
        let work = spawn(move || {
            let _permit = permit;
            let (mut found, mut missing) = (Vec::new(), Vec::new());
            for key in keys {
                match snapshot.find(&key) {
                    Some((shard, node)) => found.push(snapshot.document(shard, node)?),
                    None => missing.push(key),
                }
            }
            Ok((found, missing))
        });
        finish(work, &stop).await?
    }

    /// Why a document is, or is not, among the hits of a question; and the generation that says so.
    pub async fn explain(&self, request: v1::ExplainRequest, time: Option<Duration>) -> Result<(Explanation, u64)> {
        let time = time.unwrap_or(self.config.default_time);
        let (stop, _waiting) = Stop::after(Instant::now(), time);
        let permit = self.pool.admit(1)?;
        let snapshot = self.snapshot();
        let stage = Plan::explained(&request, &certificates(&snapshot));
        let v1::ExplainRequest { query, key, .. } = request;
        let vector = self.tower.embed(vec![query.clone()], time).await?.vectors;
        let generation = snapshot.manifest().generation;
        let work = {
            let stop = Arc::clone(&stop);
            spawn(move || {
                let _permit = permit;
                explain(&snapshot, &query, &vector, &key, stage, &stop)
            })
        };
        Ok((finish(work, &stop).await??, generation))
    }

    /// Opens the generation that `CURRENT` names and serves it; gives the old and the new number.
    pub async fn reload(&self) -> Result<(u64, u64)> {
        let _switching = self.switching.lock().await;
        self.swap_in_current().await
    }

    async fn swap_in_current(&self) -> Result<(u64, u64)> {
        let index = self.index.clone();
        let opened = tokio::task::spawn_blocking(move || Snapshot::open(&index));
        let snapshot = opened.await.map_err(|_| Error::Internal)??;
        check_model(&snapshot.manifest().model, self.tower.model())?;
        let generation = snapshot.manifest().generation;
        let previous = self.served.swap(Arc::new(snapshot)).manifest().generation;
        tracing::info!(previous, generation, "serving another generation");
        Ok((previous, generation))
    }

    /// Points `CURRENT` at an earlier generation (0: the one before the served) and serves it.
    pub async fn rollback(&self, generation: u64) -> Result<(u64, u64)> {
        let _switching = self.switching.lock().await;
        let served = self.snapshot().manifest().generation;
        let (index, tower) = (self.index.clone(), self.tower.model().clone());
        let pointed = tokio::task::spawn_blocking(move || {
            let present = manifest::generations(&index)?;
            let before = present.iter().rev().find(|known| **known < served).copied();
            let wanted = if generation == 0 { before.unwrap_or(0) } else { generation };
            // Opened before the pointer moves: a generation that cannot be served is not made current.
            let snapshot = Snapshot::open_manifest(&index, manifest::load(&index, wanted)?)?;
            check_model(&snapshot.manifest().model, &tower)?;
            manifest::point_to(&index, wanted, &WriteLock::acquire(&index)?)?;
            Ok::<_, Error>(())
        });
        pointed.await.map_err(|_| Error::Internal)??;
        self.swap_in_current().await
    }

    /// Reads every byte of the served generation; gives the problems found and the bytes read.
    pub async fn verify(&self) -> Result<(Vec<String>, u64)> {
        // Minutes of reading: on a thread of its own, and one at a time, so that no search waits behind it.
        let _one = self.verifying.try_acquire().map_err(|_| Error::Verifying)?;
        let snapshot = self.snapshot();
        let work = tokio::task::spawn_blocking(move || {
            dyad_index::verify::verify(snapshot.index(), snapshot.manifest(), None)
        });
        let findings = work.await.map_err(|_| Error::Internal)?;
        Ok((findings.problems, findings.bytes))
    }
}

/// What every shard measured of itself.
fn certificates(snapshot: &Snapshot) -> Vec<&Certificate> {
    snapshot.shards().iter().map(|shard| shard.dense.certificate()).collect()
}

fn answer(snapshot: &Snapshot, plan: &Plan, ranked: Ranked, vector: Vector, computed: u64, started: Instant) -> Answer {
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
        degraded: vector.degraded,
        generation: snapshot.manifest().generation,
        fingerprint: snapshot.manifest().model.fingerprint.clone(),
        ef: if vector.values.is_some() { plan.ef() } else { 0 },
        recall_note: plan.recall_note.clone().filter(|_| vector.values.is_some()),
        distance_computations: computed,
        notes: ranked.notes,
    }
}
