//! All queries on one thread or many, timed.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::engine::Opening;
use crate::ann::protocol::{Mode, Searched};
use crate::dataset::Matrix;

/// Queries that one task carries.
const TASK: usize = 16;

/// Searches for all queries: with one call per query, each timed; or with batch calls again and again until `least` has passed, which
/// evens out other load of the machine. `pool` keeps its threads, and what they cache, between searches, as a server does.
/// Gives `k` ids per query, padded with -1, and microseconds per query, none with batch calls.
pub(super) fn search(
    index: &dyn Opening,
    (queries, k): (&Matrix, usize),
    value: usize,
    (threads, mode): (usize, Mode),
    least: Duration,
    pool: &mut Option<ThreadPool>,
) -> anyhow::Result<(Vec<i32>, Vec<f64>, Searched)> {
    let mut ids = vec![-1; queries.len() * k];
    let mut latencies_us = Vec::new();
    let all: Vec<&[f32]> = queries.rows().collect();
    if mode == Mode::Batch && threads > 1 && pool.as_ref().is_none_or(|pool| pool.current_num_threads() != threads) {
        *pool = Some(ThreadPoolBuilder::new().num_threads(threads).build().context("search threads")?);
    }
    let started = Instant::now();
    let mut rounds = 0;
    while rounds == 0 || mode == Mode::Batch && started.elapsed() < least {
        match pool {
            _ if mode == Mode::Each => {
                for (query, out) in all.iter().zip(ids.chunks_mut(k.max(1))) {
                    let asked = Instant::now();
                    index.search(query, value, out);
                    latencies_us.push(asked.elapsed().as_secs_f64() * 1e6);
                }
            }
            Some(pool) if threads > 1 => pool.install(|| {
                let tasks = all.par_chunks(TASK).zip(ids.par_chunks_mut((TASK * k).max(1)));
                tasks.for_each(|(some, out)| index.search_batch(some, k, value, out));
            }),
            _ => index.search_batch(&all, k, value, &mut ids),
        }
        rounds += 1;
    }
    let seconds = started.elapsed().as_secs_f64() / f64::from(rounds);
    Ok((ids, latencies_us, Searched { seconds, rounds }))
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
        let mut pool = None;
        for (mode, count) in [(Mode::Batch, 1), (Mode::Batch, 2), (Mode::Each, 1)] {
            for least in [Duration::ZERO, Duration::from_millis(5)] {
                let index = Counts::default();
                let (ids, _, found) = search(&index, (&queries, 3), 7, (count, mode), least, &mut pool).unwrap();
                assert_eq!(ids, [7; 37 * 3]);
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
