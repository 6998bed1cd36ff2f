//! All queries on one thread or many, timed.

use std::time::Instant;

use anyhow::Context as _;
use rayon::prelude::*;

use super::Opening;
use crate::ann::protocol::Mode;
use crate::dataset::Matrix;

/// Queries that one task carries.
const TASK: usize = 16;

/// Hits and times.
pub(super) struct Found {
    /// `k` per query, padded with -1.
    pub(super) ids: Vec<i32>,
    /// One per query; empty with mode `batch`.
    pub(super) latencies_us: Vec<f64>,
    /// Wall time of all queries.
    pub(super) seconds: f64,
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

/// Searches for all queries.
pub(super) fn search(index: &dyn Opening, queries: &Matrix, k: usize, value: usize, hands: &Hands<'_>) -> Found {
    let mut ids = vec![-1; queries.len() * k];
    let mut latencies_us = Vec::with_capacity(queries.len());
    let started = Instant::now();
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
        }
        Hands::Many(pool) => pool.install(|| {
            let tasks = ids.par_chunks_mut((TASK * k).max(1)).enumerate();
            tasks.for_each(|(task, out)| {
                let count = out.len() / k.max(1);
                let some: Vec<&[f32]> = (0..count).map(|at| queries.row(task * TASK + at)).collect();
                index.search_batch(&some, k, value, out);
            });
        }),
    }
    let seconds = started.elapsed().as_secs_f64();
    Found { ids, latencies_us, seconds }
}
