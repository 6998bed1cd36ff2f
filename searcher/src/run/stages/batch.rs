//! Questions that are answered together; a single one is a batch of one. Questions with equal parameters are searched
//! together, interleaved, to hide the latency of memory. Every answer is the one that its question alone would get.
//!
//! The parts of the work run on the threads of [`crate::run::resources::pool`], for some of the filters at a time:
//! [`QuestionBatch::filter`], then [`QuestionBatch::text`] and [`QuestionBatch::dense`] in any order or in parallel.
//! The part that ends last goes on to [`QuestionBatch::answers`].

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use dyad_index::search::NodeSet;
use dyad_index::snapshot::{DenseParams, Snapshot};
use dyad_proto::v1;
use rayon::prelude::*;

use super::answer::Answers;
use super::chunk::Chunk;
use super::group_by_key::group_by_key;
use super::pages::JoinedSearch;
use super::part_results::{Allowed, FilteredNodes, PartResults, Timed};
use crate::error::Result;
use crate::plan::SearchPlan;
use crate::run::resources::cancellation::SearchCancellation;
use crate::run::resources::reply_memory::ReplyBudget;
use crate::run::served::filter_cache::{AllowedNodes, FilterCache};
use crate::run::served::generation::ServedGeneration;
use crate::run::served::scope::Scope;
use crate::run::served::served_index::ServedIndex;

/// Fewest questions that are searched together while other threads have work: as many as are interleaved on one thread.
const MIN_INTERLEAVED: usize = 8;

/// One question of a batch.
#[derive(Debug, Clone)]
pub(in crate::run) struct BatchItem {
    pub(in crate::run) plan: SearchPlan,
    pub(in crate::run) query: String,
    /// The vector of the question, where the request has one.
    pub(in crate::run) vector: Option<Vec<f32>>,
    /// The filter as the cache knows it: equal bytes are equal filters.
    pub(in crate::run) filter: Option<Vec<u8>>,
    /// The filter as leaves are told of it.
    pub(in crate::run) request_filter: Option<v1::Filter>,
}

/// A question's vector, or why there is none.
#[derive(Debug, Default)]
pub(in crate::run) struct QuestionVector {
    pub(in crate::run) values: Option<Vec<f32>>,
    /// Tokens that the tower has read of the question.
    pub(in crate::run) tokens: u32,
    /// Whether the question has more.
    pub(in crate::run) truncated: bool,
    pub(in crate::run) timings: v1::Timings,
    pub(in crate::run) degraded: Option<String>,
}

/// The generation of an index that answers the questions of a call.
#[derive(Debug)]
pub(in crate::run) struct SearchedIndex {
    /// The index.
    pub(in crate::run) index: Arc<ServedIndex>,
    /// The generation of the index.
    pub(in crate::run) generation: Arc<ServedGeneration>,
    /// The cache of the nodes that filters allow, where there is one.
    pub(in crate::run) filters: Option<Arc<FilterCache>>,
    /// The documents that exist for the caller; all where absent.
    pub(in crate::run) scope: Option<Scope>,
}

/// All questions of one call.
#[derive(Debug)]
pub(in crate::run) struct QuestionBatch {
    pub(in crate::run) index: Arc<ServedIndex>,
    /// The generation of the index that answers.
    pub(in crate::run) generation: Arc<ServedGeneration>,
    /// Its shards that are open here.
    pub(in crate::run) snapshot: Arc<Snapshot>,
    pub(in crate::run) items: Vec<BatchItem>,
    pub(in crate::run) vectors: OnceLock<Vec<QuestionVector>>,
    pub(in crate::run) found: Vec<PartResults>,
    /// Numbers of the questions with the same filter.
    groups: Vec<Vec<usize>>,
    chunks: Vec<Chunk>,
    /// Parts that are not done yet.
    open: AtomicUsize,
    pub(in crate::run) filters: Option<Arc<FilterCache>>,
    pub(in crate::run) cancel: Arc<SearchCancellation>,
    pub(in crate::run) started: Instant,
    /// Whether the parts leave the documents to [`QuestionBatch::fetch`].
    pub(in crate::run) fetches_later: bool,
    /// Whether rankings with too few groups are read deeper by whoever makes the answers; else there are none.
    reads_deeper: AtomicBool,
    /// The documents that exist for the caller; all where absent.
    pub(in crate::run) scope: Option<Scope>,
}

pub(in crate::run) fn micros(since: Instant) -> u64 {
    since.elapsed().as_micros() as u64
}

impl QuestionBatch {
    /// `filters_at_once` filters are processed at a time: a batch of many filters holds few sets in memory, and a
    /// thread that waits for parts of one does not start all others.
    pub(in crate::run) fn new(
        searched: SearchedIndex,
        items: Vec<BatchItem>,
        filters_at_once: usize,
        cancel: Arc<SearchCancellation>,
        started: Instant,
    ) -> Self {
        let groups = group_by_key(
            items
                .iter()
                .enumerate()
                .map(|(number, item)| (item.filter.as_deref(), number)),
        );
        let groups: Vec<Vec<usize>> = groups.into_iter().map(|(_, group)| group).collect();
        let at_once = filters_at_once.max(1);
        let plans: Vec<&SearchPlan> = items.iter().map(|item| &item.plan).collect();
        let chunks: Vec<Chunk> = (0..groups.len())
            .step_by(at_once)
            .map(|start| Chunk::new(start..groups.len().min(start + at_once), &groups, &plans))
            .collect();
        let open = chunks
            .iter()
            .map(|chunk| usize::from(chunk.has_text) + usize::from(chunk.has_dense))
            .sum();
        let found = items.iter().map(|_| PartResults::default()).collect();
        let SearchedIndex {
            index,
            generation,
            filters,
            scope,
        } = searched;
        let snapshot = Arc::clone(generation.snapshot());
        let (vectors, open) = (OnceLock::new(), AtomicUsize::new(open));
        let fetches_later = false;
        Self {
            index,
            generation,
            snapshot,
            items,
            vectors,
            found,
            groups,
            chunks,
            open,
            filters,
            cancel,
            started,
            fetches_later,
            reads_deeper: AtomicBool::new(true),
            scope,
        }
    }

    pub(in crate::run) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// The questions of a chunk by filter, and the nodes that each filter allows.
    fn members<'a>(
        &'a self,
        chunk: &Chunk,
        allowed: &'a [Allowed],
    ) -> Vec<(Vec<BatchMember<'a>>, Option<&'a [NodeSet]>)> {
        let groups = self.groups.get(chunk.groups.clone()).unwrap_or_default();
        let member = |number: &usize| {
            let (item, found) = (self.items.get(*number)?, self.found.get(*number)?);
            let vector = self.vectors.get().and_then(|all| all.get(*number)?.values.as_deref());
            Some(BatchMember { item, found, vector })
        };
        let group = |(at, group): (usize, &Vec<usize>)| {
            let allowed = allowed.get(at).and_then(Option::as_deref);
            (
                group.iter().filter_map(member).collect(),
                allowed.map(|allowed| &*allowed.shards),
            )
        };
        groups.iter().enumerate().map(group).collect()
    }

    /// The nodes that each filter of the chunk allows, in order.
    pub(in crate::run) fn filter(&self, chunk: &Chunk) -> Result<Vec<Allowed>> {
        self.members(chunk, &[])
            .par_iter()
            .map(|(members, _)| self.filter_for(members))
            .collect()
    }

    /// The nodes that the filter of these questions allows; none where they have no filter.
    fn filter_for(&self, members: &[BatchMember<'_>]) -> Result<Allowed> {
        let Some(item) = members.first().map(|first| first.item) else {
            return Ok(None);
        };
        let (Some(filter), Some(encoded)) = (&item.plan.filter, &item.filter) else {
            return Ok(None);
        };
        let started = Instant::now();
        let (cache, cancel) = (self.filters.as_deref(), &*self.cancel);
        let (allowed, cached) =
            AllowedNodes::find(filter, encoded, self.scope.is_some(), &self.snapshot, cache, cancel)?;
        // Which fields other documents have is theirs.
        let notes = if self.scope.is_some() {
            Vec::new()
        } else {
            allowed.notes.clone()
        };
        let filtered = FilteredNodes {
            notes,
            documents: allowed.len(),
            took_us: micros(started),
            cached,
            allowed: Some(Arc::clone(&allowed)),
        };
        for member in members {
            member.found.filter.get_or_init(|| filtered.clone());
        }
        Ok(Some(allowed))
    }

    /// BM25 for the questions that want it.
    pub(in crate::run) fn text(&self, chunk: &Chunk, allowed: &[Allowed]) -> Result<()> {
        let groups = self.members(chunk, allowed);
        let all: Vec<_> = groups
            .iter()
            .flat_map(|(members, allowed)| members.iter().map(move |one| (one, *allowed)))
            .collect();
        all.into_par_iter()
            .try_for_each(|(BatchMember { item, found, .. }, allowed)| {
                if let Some(depth) = item.plan.text_depth {
                    let started = Instant::now();
                    let (question, statistics) = (self.snapshot.question(&item.query), self.statistics()?);
                    let weighed = question.weigh(statistics, &*self.cancel)?;
                    let weighed = weighed.ok_or_else(|| self.cancel.deadline_error())?;
                    let documents = self.document_scores(&weighed, &item.plan)?;
                    let hits =
                        self.snapshot
                            .search_weighed(&weighed, documents.as_ref(), depth, allowed, &*self.cancel)?;
                    let hits = self.cancel.complete(hits)?;
                    if item.plan.mode.fuses() && !question.terms().is_empty() {
                        let exactness = self.exactness(&weighed, &hits.hits)?;
                        found.exactness.get_or_init(|| exactness);
                    }
                    if documents.is_some() {
                        found.document_weight.get_or_init(|| item.plan.fusion.document_weight);
                    }
                    found.text.get_or_init(|| (hits, micros(started)));
                }
                Ok(())
            })
    }

    /// The dense part for the questions that want it and have a vector.
    pub(in crate::run) fn dense(&self, chunk: &Chunk, allowed: &[Allowed]) -> Result<()> {
        self.members(chunk, allowed)
            .par_iter()
            .try_for_each(|(members, allowed)| {
                let searches = members.iter().filter_map(|member| {
                    let plan = &member.item.plan;
                    Some(((plan.dense?, plan.dense_searches()), (member, member.vector?)))
                });
                let mut together = Vec::new();
                for (parameters, questions) in group_by_key(searches) {
                    let size = questions
                        .len()
                        .div_ceil(rayon::current_num_threads())
                        .max(MIN_INTERLEAVED);
                    together.extend(questions.chunks(size).map(|questions| (parameters, questions.to_vec())));
                }
                together
                    .into_par_iter()
                    .try_for_each(|((params, searches), questions)| self.search(params, searches, &questions, *allowed))
            })
    }

    /// Runs all parts of a batch with one filter, one after another; returns the nodes that it allows. The vectors are
    /// there.
    pub(in crate::run) fn run(&self) -> Result<Allowed> {
        let Some(chunk) = self.chunks.first() else {
            return Ok(None);
        };
        let allowed = if chunk.has_filter {
            self.filter(chunk)?
        } else {
            Vec::new()
        };
        let allowed = allowed.into_iter().next().flatten();
        self.search_allowed(&allowed)?;
        Ok(allowed)
    }

    /// Runs the searches of a batch with one filter, whose nodes are known, one after another. The vectors are there.
    pub(in crate::run) fn search_allowed(&self, allowed: &Allowed) -> Result<()> {
        let Some(chunk) = self.chunks.first() else {
            return Ok(());
        };
        if chunk.has_text {
            self.text(chunk, std::slice::from_ref(allowed))?;
        }
        if chunk.has_dense {
            self.dense(chunk, std::slice::from_ref(allowed))?;
        }
        Ok(())
    }

    /// Called by a part that is done; the last one makes the answers, whose documents take of the budget. None where it
    /// is not the last, or rankings have to be read deeper first.
    pub(in crate::run) fn finish_part(&self, budget: ReplyBudget) -> Result<Option<Answers>> {
        let is_last = self.open.fetch_sub(1, Ordering::AcqRel) <= 1;
        let answers = is_last.then(|| self.answers(&budget)).transpose()?;
        Ok(answers.flatten().map(|answers| (answers, budget)))
    }

    /// The dense search of a batch of one question, where it has only one and its vector is there: parameters and
    /// vector.
    pub(in crate::run) fn only_dense(&self) -> Option<(&DenseParams, &[f32])> {
        let [item] = self.items.as_slice() else { return None };
        let [vector] = self.vectors.get()?.as_slice() else {
            return None;
        };
        let [params] = item.plan.dense_searches() else {
            return None;
        };
        Some((params, vector.values.as_deref()?))
    }

    /// Keeps the result of that search.
    pub(in crate::run) fn keep_dense(&self, found: Timed) {
        if let [one] = self.found.as_slice() {
            one.dense.get_or_init(|| found);
        }
    }

    /// Searches for questions with equal parameters and filters. They are interleaved, so the time of each is that of
    /// all.
    fn search(
        &self,
        params: DenseParams,
        searches: &[DenseParams],
        questions: &[(&BatchMember<'_>, &[f32])],
        allowed: Option<&[NodeSet]>,
    ) -> Result<()> {
        let started = Instant::now();
        let vectors: Vec<&[f32]> = questions.iter().map(|(_, vector)| *vector).collect();
        let joined = JoinedSearch {
            snapshot: &self.snapshot,
            searches,
            allowed,
            cancel: &*self.cancel,
        };
        let all = joined.rankings(&vectors)?;
        let took = micros(started);
        for ((member, _), mut hits) in questions.iter().zip(all) {
            hits.hits.truncate(params.k);
            let hits = self.cancel.complete(hits)?;
            member.found.dense.get_or_init(|| (hits, took));
        }
        Ok(())
    }

    /// Whether rankings are read deeper where they have too few groups.
    pub(in crate::run) fn reads_deeper(&self) -> bool {
        self.reads_deeper.load(Ordering::Relaxed)
    }

    pub(in crate::run) fn read_deeper_from_now_on(&self, reads_deeper: bool) {
        self.reads_deeper.store(reads_deeper, Ordering::Relaxed);
    }
}

/// One question of a batch.
struct BatchMember<'a> {
    item: &'a BatchItem,
    found: &'a PartResults,
    vector: Option<&'a [f32]>,
}
