//! Live recall: some of the searches through graphs are compared with the exact search for the same question, filter
//! and generation, on a thread of its own that takes a given share of one core.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use dyad_index::snapshot::{DenseParams, DocumentHit, SearchMode};

use super::resources::cancellation::SearchCancellation;
use super::resources::threads::yield_to_others;
use super::served::filter_cache::AllowedNodes;
use super::stages::batch::QuestionBatch;
use crate::error::{Error, Result};
use crate::metrics::{ComparedSearch, SearcherMetrics};

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
pub(super) struct LiveRecall(SyncSender<Arc<QuestionBatch>>);

impl LiveRecall {
    /// Starts the thread, which counts into `metrics`; `share` of one core, above 0, is what it takes. None where that
    /// is 0.
    pub(super) fn start(share: f64, metrics: Arc<SearcherMetrics>) -> Result<Option<Self>> {
        if share <= 0.0 {
            return Ok(None);
        }
        // Without a buffer: a search is taken when the thread waits for one, and not measured otherwise.
        let (sender, receiver) = sync_channel::<Arc<QuestionBatch>>(0);
        let failed = |error: &dyn std::fmt::Display| Error::Threads(error.to_string());
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .thread_name(|_| "dyad-recall".to_owned());
        let pool = pool.start_handler(|_| yield_to_others(LOWEST_PRIORITY)).build();
        let pool = pool.map_err(|error| failed(&error))?;
        let run = move || {
            while let Ok(batch) = receiver.recv() {
                let started = Instant::now();
                match pool.install(|| compare(&batch)) {
                    Ok(compared) => metrics.recall(&batch.index.name, &compared),
                    Err(error) => tracing::debug!(%error, "a search was not compared with the exact one"),
                }
                // So that a generation that is no longer served is not kept open by the pause.
                drop(batch);
                std::thread::sleep(
                    started
                        .elapsed()
                        .mul_f64((1.0 / share - 1.0).max(0.0))
                        .min(LONGEST_PAUSE),
                );
            }
        };
        std::thread::Builder::new()
            .name("dyad-recall".to_owned())
            .spawn(run)
            .map_err(|error| failed(&error))?;
        Ok(Some(Self(sender)))
    }

    /// Offers the search of a batch of one question that has been answered.
    pub(super) fn offer(&self, batch: &Arc<QuestionBatch>) {
        let by_graph = batch
            .only_dense()
            .is_some_and(|(params, _)| params.mode != SearchMode::Exact);
        if by_graph {
            _ = self.0.try_send(Arc::clone(batch));
        }
    }
}

/// Compares the served search with the exact one.
fn compare(batch: &QuestionBatch) -> Result<ComparedSearch> {
    let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), TIME);
    let (Some((params, vector)), [item], [found]) =
        (batch.only_dense(), batch.items.as_slice(), batch.found.as_slice())
    else {
        return Err(Error::Internal);
    };
    let Some((served, _)) = found.dense.get() else {
        return Err(Error::Internal);
    };
    let allowed = match (&item.plan.filter, &item.filter) {
        (Some(filter), Some(encoded)) => {
            let (is_scoped, cache) = (batch.scope.is_some(), batch.filters.as_deref());
            Some(AllowedNodes::find(filter, encoded, is_scoped, &batch.snapshot, cache, &cancel)?.0)
        }
        _ => None,
    };
    // A search for fewer hits is to find as many of the nearest, and no more are compared.
    let k = params.k.min(K);
    let params = DenseParams {
        k,
        mode: SearchMode::Exact,
    };
    let allowed = allowed.as_ref().map(|allowed| &*allowed.shards);
    let exact = batch
        .snapshot
        .search_dense(&[vector], &params, allowed, &*cancel)?
        .pop()
        .ok_or(Error::Internal)?;
    let exact = cancel.complete(exact)?;
    let (found, expected) = found_of(&served.hits, &exact.hits);
    Ok(ComparedSearch {
        found,
        expected,
        out_of_distribution: served.cost.out_of_distribution > 0,
    })
}

/// How many of the nearest are among the first hits, as many as there are nearest, of a search; and how many there are.
fn found_of(served: &[DocumentHit], exact: &[DocumentHit]) -> (u64, u64) {
    let place = |hit: &DocumentHit| (hit.shard, hit.node);
    let served: HashSet<_> = served.iter().take(exact.len()).map(place).collect();
    let found = exact.iter().filter(|hit| served.contains(&place(hit))).count();
    (found as u64, exact.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_are_compared_with_as_many_hits() {
        let hits = |nodes: &[u32]| -> Vec<DocumentHit> {
            nodes
                .iter()
                .map(|&node| DocumentHit {
                    score: 0.0,
                    shard: 0,
                    node,
                })
                .collect()
        };
        // The second nearest is not the nearest.
        assert_eq!(found_of(&hits(&[2]), &hits(&[1])), (0, 1));
        assert_eq!(found_of(&hits(&[2, 1, 3]), &hits(&[1, 2])), (2, 2));
        assert_eq!(found_of(&hits(&[3, 2, 1]), &hits(&[1, 2])), (1, 2));
        // A filter that allows three documents, of which one was found; and nothing found of what there is.
        assert_eq!(found_of(&hits(&[2]), &hits(&[1, 2, 3])), (1, 3));
        assert_eq!(found_of(&[], &hits(&[1, 2])), (0, 2));
        assert_eq!(found_of(&hits(&[1]), &[]), (0, 0));
    }
}
