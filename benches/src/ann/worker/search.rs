//! All queries on one thread or many, timed.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::engine::{QuerySettings, SearchableIndex};
use crate::ann::protocol::{CallMode, SearchedQueries};
use crate::dataset::Matrix;

/// Queries that one task carries.
const TASK: usize = 16;

/// Queries that are searched for under one filter, or none.
pub(super) struct FilterPart {
    pub(super) filter: Option<usize>,
    /// The numbers of the queries with this filter.
    pub(super) queries: Vec<usize>,
}

/// What is searched for: `k` hits of every query of the parts.
#[derive(Clone, Copy)]
pub(super) struct SearchQueries<'a> {
    pub(super) queries: &'a Matrix,
    pub(super) k: usize,
    pub(super) parts: &'a [FilterPart],
}

/// How it is searched for.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchCall {
    /// The value of the sweep parameter.
    pub(super) value: usize,
    pub(super) threads: usize,
    pub(super) mode: CallMode,
    /// Batch calls go on for this long.
    pub(super) least: Duration,
}

/// Searches for all queries, one part after the other: with one call per query, each timed; or with batch calls again
/// and again until `least` has passed, which evens out other load of the machine. `pool` keeps its threads, and what
/// they cache, between searches, as a server does. Gives `k` ids per query in the order of the queries, padded with -1,
/// and microseconds per query, none with batch calls.
pub(super) fn search(
    index: &dyn SearchableIndex,
    SearchQueries { queries, k, parts }: SearchQueries<'_>,
    SearchCall {
        value,
        threads,
        mode,
        least,
    }: SearchCall,
    pool: &mut Option<ThreadPool>,
) -> anyhow::Result<(Vec<i32>, Vec<f64>, SearchedQueries)> {
    let order: Vec<usize> = parts.iter().flat_map(|part| &part.queries).copied().collect();
    let all: Vec<&[f32]> = order.iter().map(|number| queries.row(*number)).collect();
    let mut found = vec![-1; all.len() * k];
    let mut latencies_us = Vec::new();
    if mode == CallMode::Batch && threads > 1 && pool.as_ref().is_none_or(|pool| pool.current_num_threads() != threads)
    {
        *pool = Some(
            ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .context("search threads")?,
        );
    }
    let started = Instant::now();
    let mut rounds = 0;
    while rounds == 0 || mode == CallMode::Batch && started.elapsed() < least {
        let (mut all, mut found) = (all.as_slice(), found.as_mut_slice());
        for FilterPart { filter, queries } in parts {
            let (some, out);
            (some, all) = all.split_at(queries.len());
            (out, found) = found.split_at_mut(queries.len() * k);
            let how = QuerySettings { value, filter: *filter };
            match pool {
                _ if mode == CallMode::Each => {
                    for (query, out) in some.iter().zip(out.chunks_mut(k.max(1))) {
                        let asked = Instant::now();
                        index.search(query, how, out);
                        latencies_us.push(asked.elapsed().as_secs_f64() * 1e6);
                    }
                }
                Some(pool) if threads > 1 => pool.install(|| {
                    let tasks = some.par_chunks(TASK).zip(out.par_chunks_mut((TASK * k).max(1)));
                    tasks.for_each(|(some, out)| index.search_batch(some, k, how, out));
                }),
                _ => index.search_batch(some, k, how, out),
            }
        }
        rounds += 1;
    }
    let seconds = started.elapsed().as_secs_f64() / f64::from(rounds);
    let mut ids = vec![-1; queries.len() * k];
    let mut latencies = vec![0.0; latencies_us.len()];
    for (place, number) in order.into_iter().enumerate() {
        ids[number * k..(number + 1) * k].copy_from_slice(&found[place * k..(place + 1) * k]);
        if mode == CallMode::Each {
            latencies[number] = latencies_us[place];
        }
    }
    Ok((ids, latencies, SearchedQueries { seconds, rounds }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Finds the value that it is asked with, and counts.
    #[derive(Default)]
    struct Counts(AtomicU32);

    impl SearchableIndex for Counts {
        fn dim(&self) -> usize {
            1
        }

        fn search(&self, query: &[f32], how: QuerySettings, out: &mut [i32]) {
            self.0.fetch_add(1, Ordering::Relaxed);
            // The filter, the value, and the query.
            out.copy_from_slice(&[
                how.filter.map_or(-1, |number| number as i32),
                how.value as i32,
                query[0] as i32,
            ]);
        }
    }

    #[test]
    fn rounds_are_gone_through_until_the_time_has_passed() {
        let queries = Matrix::new(1, (0..37u8).map(f32::from).collect());
        let part = |filter, which: fn(&usize) -> bool| FilterPart {
            filter,
            queries: (0..37).filter(which).collect(),
        };
        let (whole, parts) = (
            [part(None, |_| true)],
            [part(Some(0), |at| at % 2 == 1), part(Some(1), |at| at % 2 == 0)],
        );
        let mut pool = None;
        for (mode, count) in [(CallMode::Batch, 1), (CallMode::Batch, 2), (CallMode::Each, 1)] {
            for least in [Duration::ZERO, Duration::from_millis(5)] {
                for parts in [&whole[..], &parts] {
                    let index = Counts::default();
                    let questions = SearchQueries {
                        queries: &queries,
                        k: 3,
                        parts,
                    };
                    let (ids, _, found) = search(
                        &index,
                        questions,
                        SearchCall {
                            value: 7,
                            threads: count,
                            mode,
                            least,
                        },
                        &mut pool,
                    )
                    .unwrap();
                    let filter = |at: i32| if parts.len() == 1 { -1 } else { 1 - at % 2 };
                    assert_eq!(ids, (0..37).flat_map(|at| [filter(at), 7, at]).collect::<Vec<_>>());
                    assert_eq!(index.0.into_inner(), 37 * found.rounds);
                    if mode == CallMode::Each || least.is_zero() {
                        assert_eq!(found.rounds, 1);
                    } else {
                        assert!(found.seconds * f64::from(found.rounds) > 0.0049, "{found:?}");
                    }
                }
            }
        }
    }
}
