//! Dense searches of single requests that wait for a thread at the same time are run by one job, interleaved on its
//! thread.
//!
//! Nothing is delayed for it: a search starts as soon as a thread is free, together with a fair share of those that
//! have come meanwhile.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use dyad_index::snapshot::DocumentHit;
use dyad_index::{Cancel, SearchHits};
use dyad_proto::admission::Admitted;
use tokio::sync::oneshot;

use super::resources::cancellation::SearchCancellation;
use super::resources::reply_memory::ReplyBudget;
use super::stages::answer::Answers;
use super::stages::batch::{QuestionBatch, micros};
use super::stages::part_results::Allowed;
use crate::error::{Error, Result};

/// Most searches of one job: as many as are interleaved on one thread.
const MOST: usize = 8;

/// The dense search of one request.
#[derive(Debug)]
pub(super) struct DenseSearch {
    /// The batch, of one question.
    pub(super) batch: Arc<QuestionBatch>,
    pub(super) allowed: Arc<Vec<Allowed>>,
    pub(super) budget: ReplyBudget,
    pub(super) permit: Arc<Admitted>,
    pub(super) done: oneshot::Sender<Result<Option<Answers>>>,
}

impl DenseSearch {
    /// Whether both are of the same shards, parameters and allowed nodes.
    fn is_like(&self, other: &Self) -> bool {
        let params = |search: &Self| search.batch.only_dense().map(|(params, _)| *params);
        let allowed = |search: &Self| search.allowed.first().and_then(Option::as_ref).map(Arc::as_ptr);
        Arc::ptr_eq(&self.batch.snapshot, &other.batch.snapshot)
            && params(self) == params(other)
            && allowed(self) == allowed(other)
    }

    /// Hands the result over; goes on to the answer, where this was the request's last part.
    fn finish(self, searched: Result<()>) {
        let Self {
            batch,
            budget,
            permit,
            done,
            ..
        } = self;
        let answered = searched.and_then(|()| batch.finish_part(budget));
        drop(permit);
        // The receiver is gone once the client has left.
        _ = done.send(answered);
    }
}

/// The searches that wait for a thread. For each of them there is a job that calls [`Self::run`]; it need not be that
/// search which the job then runs.
#[derive(Debug, Default)]
pub(super) struct Gather(Mutex<VecDeque<DenseSearch>>);

impl Gather {
    pub(super) fn add(&self, search: DenseSearch) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(search);
    }

    /// The search that has waited longest, and others like it: a share of all that wait for one of the `threads`. Those
    /// whose clients have left are dropped.
    fn take(&self, threads: usize) -> Vec<DenseSearch> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|search| !search.done.is_closed());
        let most = waiting.len().div_ceil(threads.max(1)).min(MOST);
        let mut taken: Vec<DenseSearch> = waiting.pop_front().into_iter().collect();
        let mut at = 0;
        while let (true, Some(next), Some(first)) = (taken.len() < most, waiting.get(at), taken.first()) {
            if next.is_like(first) {
                taken.extend(waiting.remove(at));
            } else {
                at += 1;
            }
        }
        taken
    }

    /// Runs searches that wait, for one of the `threads`; returns how many.
    pub(super) fn run(&self, threads: usize) -> u32 {
        let mut searches = self.take(threads);
        let (served, started) = (searches.len() as u32, Instant::now());
        match search(&searches) {
            Ok(found) => {
                let took = micros(started);
                for (search, hits) in searches.into_iter().zip(found) {
                    let kept = search
                        .batch
                        .cancel
                        .complete(hits)
                        .map(|hits| search.batch.keep_dense((hits, took)));
                    search.finish(kept);
                }
            }
            // Of the shards or the parameters, which all have in common.
            Err(error) => {
                let first = searches.pop();
                for search in searches {
                    search.finish(Err(Error::Internal));
                }
                if let Some(search) = first {
                    search.finish(Err(error));
                }
            }
        }
        served
    }
}

/// Cancelled when all are.
struct All<'a>(Vec<&'a SearchCancellation>);

impl Cancel for All<'_> {
    fn is_cancelled(&self) -> bool {
        self.0.iter().all(|cancel| cancel.is_cancelled())
    }
}

/// The hits of searches that are alike.
fn search(searches: &[DenseSearch]) -> Result<Vec<SearchHits<DocumentHit>>> {
    let asked: Option<Vec<_>> = searches.iter().map(|search| search.batch.only_dense()).collect();
    let asked = asked.ok_or(Error::Internal)?;
    let (Some(first), Some((params, _))) = (searches.first(), asked.first()) else {
        return Ok(Vec::new());
    };
    let vectors: Vec<&[f32]> = asked.iter().map(|(_, vector)| *vector).collect();
    let allowed = first
        .allowed
        .first()
        .and_then(Option::as_ref)
        .map(|allowed| &*allowed.shards);
    let cancel = All(searches.iter().map(|search| &*search.batch.cancel).collect());
    Ok(first.batch.snapshot.search_dense(&vectors, params, allowed, &cancel)?)
}
