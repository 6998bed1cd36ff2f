//! The CPU work of one request: search, fuse, fetch. Runs on a rayon thread.

use std::collections::HashMap;
use std::time::Instant;

use dyad_index::lexical::Question;
use dyad_index::search::NodeSet;
use dyad_index::snapshot::{Hit, Hits, Snapshot};

use super::answer::{AnswerHit, Compared, StageTimings};
use super::reply_memory::Share;
use super::stop::Stop;
use crate::error::Result;
use crate::fusion::{Placement, rrf};
use crate::plan::{Mode, Plan};

/// A stage's hits, and how long it took.
pub(super) type Timed = (Hits, u64);

pub(super) fn micros(since: Instant) -> u64 {
    since.elapsed().as_micros() as u64
}

/// What a filter lets pass.
#[derive(Debug, Default)]
pub(super) struct Passing {
    /// By shard; all nodes where absent.
    pub(super) sets: Option<Vec<NodeSet>>,
    /// What the filter asks for that no document has.
    pub(super) notes: Vec<String>,
    /// Microseconds.
    pub(super) took_us: u64,
}

/// The filter, if the plan has one.
pub(super) fn passing(snapshot: &Snapshot, plan: &Plan, stop: &Stop) -> Result<Passing> {
    let Some(filter) = &plan.filter else { return Ok(Passing::default()) };
    let started = Instant::now();
    let Some(sets) = snapshot.passing(filter, &|| stop.is_set())? else { return Err(stop.over()) };
    let notes = snapshot.filter_notes(filter)?;
    Ok(Passing { sets: Some(sets), notes, took_us: micros(started) })
}

/// BM25, if the plan has it.
pub(super) fn text(snapshot: &Snapshot, plan: &Plan, query: &str, passing: &Passing, stop: &Stop) -> Result<Timed> {
    let started = Instant::now();
    let is_set = || stop.is_set();
    let hits = match plan.text_depth {
        Some(depth) => {
            let found = snapshot.search_text(&Question::new(query), depth, passing.sets.as_deref(), Some(&is_set))?;
            stop.complete(found)?
        }
        None => Hits::default(),
    };
    Ok((hits, micros(started)))
}

/// The dense stage, if the plan has it and the question has a vector.
pub(super) fn dense(
    snapshot: &Snapshot,
    plan: &Plan,
    vector: Option<&[f32]>,
    passing: &Passing,
    stop: &Stop,
) -> Result<Timed> {
    let started = Instant::now();
    let is_set = || stop.is_set();
    let hits = match (plan.dense, vector) {
        (Some(stage), Some(vector)) => {
            let sets = passing.sets.as_deref();
            stop.complete(snapshot.search_dense(vector, stage.depth, stage.effort, sets, Some(&is_set))?)?
        }
        _ => Hits::default(),
    };
    Ok((hits, micros(started)))
}

/// Hits of the reply: the mode's ranking, or all three.
#[derive(Debug)]
pub(super) struct Ranked {
    pub(super) hits: Vec<AnswerHit>,
    pub(super) compared: Option<Compared>,
    pub(super) timings: StageTimings,
    /// Of the filter.
    pub(super) notes: Vec<String>,
}

/// Fuses what the stages found and reads the stored fields, as far as time and the reply's memory reach.
pub(super) fn rank(
    snapshot: &Snapshot,
    plan: &Plan,
    (dense, text): (&Timed, &Timed),
    filter_us: u64,
    share: &Share,
    stop: &Stop,
) -> Result<Ranked> {
    let started = Instant::now();
    let places = Places::new(&dense.0.hits, &text.0.hits);
    let single = |hits: &[Hit]| -> Vec<AnswerHit> { hits.iter().take(plan.k).map(|hit| places.of(hit)).collect() };
    let fused = || -> Vec<AnswerHit> {
        let fused = rrf(&[&dense.0.hits, &text.0.hits], plan.rrf_k, plan.k);
        fused.iter().map(|fused| places.of(&fused.hit)).collect()
    };
    let (mut hits, mut compared) = (Vec::new(), None);
    match plan.mode {
        Mode::Dense => hits = single(&dense.0.hits),
        Mode::Bm25 => hits = single(&text.0.hits),
        Mode::Hybrid => hits = fused(),
        Mode::Compare => {
            let (dense, bm25) = (single(&dense.0.hits), single(&text.0.hits));
            compared = Some(Compared { dense, bm25, hybrid: fused() });
        }
    }
    let fuse_us = micros(started);

    let started = Instant::now();
    if plan.documents {
        let lists = compared.as_mut().map(|all| [&mut all.dense, &mut all.bm25, &mut all.hybrid]);
        for hit in hits.iter_mut().chain(lists.into_iter().flatten().flatten()) {
            stop.check()?;
            let document = snapshot.document(hit.shard, hit.node)?;
            share.take(&document)?;
            hit.document = Some(document);
        }
    }
    let timings = StageTimings {
        dense_us: dense.1,
        bm25_us: text.1,
        filter_us,
        fuse_us,
        fetch_us: micros(started),
        ..StageTimings::default()
    };
    Ok(Ranked { hits, compared, timings, notes: Vec::new() })
}

/// Every document's places in the rankings that ran.
struct Places<'a> {
    dense: HashMap<&'a str, Placement>,
    text: HashMap<&'a str, Placement>,
}

impl<'a> Places<'a> {
    fn new(dense: &'a [Hit], text: &'a [Hit]) -> Self {
        let places = |hits: &'a [Hit]| {
            (1u32..).zip(hits).map(|(rank, hit)| (hit.key.as_str(), Placement { rank, score: hit.score })).collect()
        };
        Self { dense: places(dense), text: places(text) }
    }

    fn of(&self, hit: &Hit) -> AnswerHit {
        AnswerHit {
            key: hit.key.clone(),
            score: hit.score,
            dense: self.dense.get(hit.key.as_str()).copied(),
            bm25: self.text.get(hit.key.as_str()).copied(),
            shard: hit.shard,
            node: hit.node,
            document: None,
        }
    }
}
