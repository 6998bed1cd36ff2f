//! Live recall: some of the searches through graphs are compared with the exact search for the same question, filter and generation, on a
//! thread of its own that takes a given share of one core.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use dyad_index::snapshot::{DenseParams, Hit, SearchMode};

use super::batch::Batch;
use super::cancellation::Cancellation;
use super::filter_cache::AllowedNodes;
use crate::error::{Error, Result};
use crate::metrics::Metrics;

/// Hits that are compared.
const K: usize = 10;
/// Longest time of one exact search.
const TIME: Duration = Duration::from_secs(10);
/// As `nice` has it.
const LOWEST_PRIORITY: i32 = 19;
/// Longest pause after one.
const LONGEST_PAUSE: Duration = Duration::from_mins(10);

/// The thread's entrance.
#[derive(Debug)]
pub(super) struct LiveRecall(SyncSender<Arc<Batch>>);

impl LiveRecall {
    /// Starts the thread, which counts into `metrics`; `share` of one core, above 0, is what it takes. None where that is 0.
    pub(super) fn start(share: f64, metrics: Arc<Metrics>) -> Result<Option<Self>> {
        if share <= 0.0 {
            return Ok(None);
        }
        // Without a buffer: a search is taken when the thread waits for one, and not measured otherwise.
        let (sender, receiver) = sync_channel::<Arc<Batch>>(0);
        let failed = |error: &dyn std::fmt::Display| Error::Threads(error.to_string());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).thread_name(|_| "dyad-recall".to_owned());
        let pool = pool.start_handler(|_| lower_priority()).build();
        let pool = pool.map_err(|error| failed(&error))?;
        let run = move || {
            while let Ok(batch) = receiver.recv() {
                let started = Instant::now();
                match pool.install(|| compare(&batch)) {
                    Ok((found, expected)) => metrics.recall(&batch.index.name, found, expected),
                    Err(error) => tracing::debug!(%error, "a search was not compared with the exact one"),
                }
                // So that a generation that is no longer served is not kept open by the pause.
                drop(batch);
                std::thread::sleep(started.elapsed().mul_f64((1.0 / share - 1.0).max(0.0)).min(LONGEST_PAUSE));
            }
        };
        std::thread::Builder::new().name("dyad-recall".to_owned()).spawn(run).map_err(|error| failed(&error))?;
        Ok(Some(Self(sender)))
    }

    /// Offers the search of a batch of one question that has been answered.
    pub(super) fn offer(&self, batch: &Arc<Batch>) {
        let by_graph = batch.only_dense().is_some_and(|(params, _)| params.mode != SearchMode::Exact);
        if by_graph {
            _ = self.0.try_send(Arc::clone(batch));
        }
    }
}

/// The core is for searches that clients wait for.
fn lower_priority() {
    // The system takes a thread for a process here.
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), LOWEST_PRIORITY) {
        tracing::debug!(%error, "exact searches for the live recall have the priority of others");
    }
}

/// How many of the nearest the served search had found, and how many there are.
fn compare(batch: &Batch) -> Result<(u64, u64)> {
    let (cancel, _guard) = Cancellation::with_deadline(Instant::now(), TIME);
    let (Some((_, vector)), [item], [found]) = (batch.only_dense(), batch.items.as_slice(), batch.found.as_slice())
    else {
        return Err(Error::Internal);
    };
    let Some((served, _)) = found.dense.get() else { return Err(Error::Internal) };
    let allowed = match (&item.plan.filter, &item.filter) {
        (Some(filter), Some(encoded)) => {
            Some(AllowedNodes::of((filter, encoded), &batch.snapshot, batch.filters.as_deref(), &cancel)?.0)
        }
        _ => None,
    };
    let params = DenseParams { k: K, mode: SearchMode::Exact };
    let allowed = allowed.as_ref().map(|allowed| &*allowed.shards);
    let exact = batch.snapshot.search_dense(&[vector], &params, allowed, &*cancel)?.pop().ok_or(Error::Internal)?;
    let exact = cancel.complete(exact)?;
    let place = |hit: &Hit| (hit.shard, hit.node);
    let served: HashSet<_> = served.hits.iter().take(K).map(place).collect();
    let found = exact.hits.iter().filter(|hit| served.contains(&place(hit))).count();
    // A page of fewer hits is judged by these alone.
    Ok((found as u64, exact.hits.len().min(served.len().max(1)) as u64))
}
