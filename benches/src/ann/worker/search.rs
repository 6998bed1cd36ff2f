//! All queries on one thread or many, timed.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use rayon::prelude::*;

use super::engine::Opening;
use crate::ann::protocol::Mode;
use crate::dataset::Matrix;

/// Queries that one task carries.
const TASK: usize = 16;

/// Hits and times.
#[derive(Debug)]
pub(super) struct Found {
    /// `k` per query, padded with -1.
    pub(super) ids: Vec<i32>,
    /// One per query; empty with mode `batch`.
    pub(super) latencies_us: Vec<f64>,
    /// Wall time of all queries once.
    pub(super) seconds: f64,
    /// How often they were searched for.
    pub(super) rounds: u32,
}

/// Threads that stay between searches, as those of a server do, with what they keep for the next search.
#[derive(Default)]
pub(super) struct Threads {
    pool: Option<rayon::ThreadPool>,
}

/// How queries are handed out.
pub(super) enum Hands<'a> {
    /// To this thread, each one timed.
    Each,
    /// To this thread.
    One,
    /// To many.
    Many(&'a rayon::ThreadPool),
}

impl Threads {
    /// Those for one search; started here where there are not just as many.
    pub(super) fn of(&mut self, threads: usize, mode: Mode) -> anyhow::Result<Hands<'_>> {
        if mode == Mode::Each || threads <= 1 {
            return Ok(if mode == Mode::Each { Hands::Each } else { Hands::One });
        }
        let fits = |pool: &rayon::ThreadPool| pool.current_num_threads() == threads;
        let pool = match self.pool.take().filter(fits) {
            Some(pool) => pool,
            None => rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("search threads")?,
        };
        Ok(Hands::Many(self.pool.insert(pool)))
    }
}

/// Searches for all queries; with a batch call again and again until `least` has passed, which evens out what else a machine
/// does. Hands of [`Hands::Each`] go through them once.
pub(super) fn search(
    index: &dyn Opening,
    queries: &Matrix,
    k: usize,
    value: usize,
    hands: &Hands<'_>,
    least: Duration,
) -> Found {
    let mut ids = vec![-1; queries.len() * k];
    let mut latencies_us = Vec::with_capacity(queries.len());
    let started = Instant::now();
    let mut rounds = 1;
    match hands {
        Hands::Each => {
            for (query, out) in queries.rows().zip(ids.chunks_mut(k.max(1))) {
                let asked = Instant::now();
                index.search(query, value, out);
                latencies_us.push(asked.elapsed().as_secs_f64() * 1e6);
            }
        }
        Hands::One => {
            let all: Vec<&[f32]> = queries.rows().collect();
            index.search_batch(&all, k, value, &mut ids);
            while started.elapsed() < least {
                index.search_batch(&all, k, value, &mut ids);
                rounds += 1;
            }
        }
        Hands::Many(pool) => pool.install(|| {
            let mut round = || {
                let tasks = ids.par_chunks_mut((TASK * k).max(1)).enumerate();
                tasks.for_each(|(task, out)| {
                    let count = out.len() / k.max(1);
                    let some: Vec<&[f32]> = (0..count).map(|at| queries.row(task * TASK + at)).collect();
                    index.search_batch(&some, k, value, out);
                });
            };
            round();
            while started.elapsed() < least {
                round();
                rounds += 1;
            }
        }),
    }
    let seconds = started.elapsed().as_secs_f64() / f64::from(rounds);
    Found { ids, latencies_us, seconds, rounds }
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
            2
        }

        fn search(&self, _query: &[f32], value: usize, out: &mut [i32]) {
            self.0.fetch_add(1, Ordering::Relaxed);
            out.fill(value as i32);
        }
    }

    #[test]
    fn rounds_are_gone_through_until_the_time_has_passed() {
        let queries = Matrix::new(2, vec![1.0; 2 * 37]);
        let mut threads = Threads::default();
        for (mode, count) in [(Mode::Batch, 1), (Mode::Batch, 2), (Mode::Each, 1)] {
            let hands = threads.of(count, mode).unwrap();
            for least in [Duration::ZERO, Duration::from_millis(5)] {
                let index = Counts::default();
                let found = search(&index, &queries, 3, 7, &hands, least);
                assert_eq!(found.ids, [7; 37 * 3]);
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
