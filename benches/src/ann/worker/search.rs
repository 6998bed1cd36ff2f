//! All queries on one thread or many, timed.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::engine::{How, Opening};
use crate::ann::protocol::{Mode, Searched};
use crate::dataset::Matrix;

/// Queries that one task carries.
const TASK: usize = 16;

/// Queries that are searched for under one filter, or none.
pub(super) struct Part {
    pub(super) filter: Option<usize>,
    /// Their numbers.
    pub(super) queries: Vec<usize>,
}

/// What is searched for: `k` hits of every query of the parts.
#[derive(Clone, Copy)]
pub(super) struct Questions<'a> {
    pub(super) queries: &'a Matrix,
    pub(super) k: usize,
    pub(super) parts: &'a [Part],
}

/// Searches for all queries, one part after the other: with one call per query, each timed; or with batch calls again and again until `least` has passed, which
/// evens out other load of the machine. `pool` keeps its threads, and what they cache, between searches, as a server does.
/// Gives `k` ids per query in the order of the queries, padded with -1, and microseconds per query, none with batch calls.
pub(super) fn search(
    index: &dyn Opening,
    Questions { queries, k, parts }: Questions<'_>,
    value: usize,
    (threads, mode): (usize, Mode),
    least: Duration,
    pool: &mut Option<ThreadPool>,
) -> anyhow::Result<(Vec<i32>, Vec<f64>, Searched)> {
    let order: Vec<usize> = parts.iter().flat_map(|part| &part.queries).copied().collect();
    let all: Vec<&[f32]> = order.iter().map(|number| queries.row(*number)).collect();
    let mut found = vec![-1; all.len() * k];
    let mut latencies_us = Vec::new();
    if mode == Mode::Batch && threads > 1 && pool.as_ref().is_none_or(|pool| pool.current_num_threads() != threads) {
        *pool = Some(ThreadPoolBuilder::new().num_threads(threads).build().context("search threads")?);
    }
    let started = Instant::now();
    let mut rounds = 0;
    while rounds == 0 || mode == Mode::Batch && started.elapsed() < least {
        let (mut all, mut found) = (all.as_slice(), found.as_mut_slice());
        for Part { filter, queries } in parts {
            let (some, out);
            (some, all) = all.split_at(queries.len());
            (out, found) = found.split_at_mut(queries.len() * k);
            let how = How { value, filter: *filter };
            match pool {
                _ if mode == Mode::Each => {
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
        if mode == Mode::Each {
            latencies[number] = latencies_us[place];
        }
    }
    Ok((ids, latencies, Searched { seconds, rounds }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Finds the value that it is asked with, and counts.
    #[derive(Default)]
    struct Counts(AtomicU32);

    impl Opening for Counts {
        fn dim(&self) -> usize {
            1
        }

        fn search(&self, query: &[f32], how: How, out: &mut [i32]) {
            self.0.fetch_add(1, Ordering::Relaxed);
            // The filter, the value, and the query.
            out.copy_from_slice(&[how.filter.map_or(-1, |number| number as i32), how.value as i32, query[0] as i32]);
        }
    }

    #[test]
    fn rounds_are_gone_through_until_the_time_has_passed() {
        let queries = Matrix::new(1, (0..37u8).map(f32::from).collect());
        let part = |filter, which: fn(&usize) -> bool| Part { filter, queries: (0..37).filter(which).collect() };
        let (whole, parts) =
            ([part(None, |_| true)], [part(Some(0), |at| at % 2 == 1), part(Some(1), |at| at % 2 == 0)]);
        let mut pool = None;
        for (mode, count) in [(Mode::Batch, 1), (Mode::Batch, 2), (Mode::Each, 1)] {
            for least in [Duration::ZERO, Duration::from_millis(5)] {
                for parts in [&whole[..], &parts] {
                    let index = Counts::default();
                    let questions = Questions { queries: &queries, k: 3, parts };
                    let (ids, _, found) = search(&index, questions, 7, (count, mode), least, &mut pool).unwrap();
                    let filter = |at: i32| if parts.len() == 1 { -1 } else { 1 - at % 2 };
                    assert_eq!(ids, (0..37).flat_map(|at| [filter(at), 7, at]).collect::<Vec<_>>());
                    assert_eq!(index.0.into_inner(), 37 * found.rounds);
                    if mode == Mode::Each || least.is_zero() {
                        assert_eq!(found.rounds, 1);
                    } else {
                        assert!(found.seconds * f64::from(found.rounds) > 0.0049, "{found:?}");
                    }
                }
            }
        }
    }
}
