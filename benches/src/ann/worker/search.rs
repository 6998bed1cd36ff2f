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

/// Searches for all queries. Threads are started before the clock is.
pub(super) fn search(
    index: &dyn Opening,
    queries: &Matrix,
    k: usize,
    value: usize,
    threads: usize,
    mode: Mode,
) -> anyhow::Result<Found> {
    let mut ids = vec![-1; queries.len() * k];
    let mut latencies_us = Vec::new();
    let jobs = queries.rows().zip(ids.chunks_mut(k.max(1)));
    let seconds = match (mode, threads) {
        (Mode::Each, _) => {
            latencies_us.reserve(queries.len());
            let started = Instant::now();
            for (query, out) in jobs {
                let asked = Instant::now();
                index.search(query, value, out);
                latencies_us.push(asked.elapsed().as_secs_f64() * 1e6);
            }
            started.elapsed().as_secs_f64()
        }
        (Mode::Batch, ..=1) => {
            let started = Instant::now();
            for (query, out) in jobs {
                index.search(query, value, out);
            }
            started.elapsed().as_secs_f64()
        }
        (Mode::Batch, threads) => {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("search threads")?;
            pool.install(|| {
                let started = Instant::now();
                let tasks = ids.par_chunks_mut((TASK * k).max(1)).enumerate();
                tasks.for_each(|(task, out)| {
                    for (at, out) in out.chunks_mut(k.max(1)).enumerate() {
                        index.search(queries.row(task * TASK + at), value, out);
                    }
                });
                started.elapsed().as_secs_f64()
            })
        }
    };
    Ok(Found { ids, latencies_us, seconds })
}
