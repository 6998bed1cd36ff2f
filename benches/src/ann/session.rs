//! One engine's part in a run: its worker and what it has measured so far.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cache::Index;
use super::measured::{EngineRun, MemoryOverTime, Point};
use super::protocol::{Described, Done, Mode, Prepared, Request, Searched};
use super::recall::Judge;
use crate::dataset::npy;
use crate::harness::{self, Error, Memory, Opened, Result, Worker, percentile};

/// How one pass over all queries is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// One thread, over all queries once.
    Once,
    /// Timed batch calls, one thread, for at least this many milliseconds.
    Batch(u32),
    /// The same on this many threads.
    Threaded(usize, u32),
    /// One timed call per query, one thread.
    Single,
}

/// An engine with an open index.
#[derive(Debug)]
pub(super) struct Session {
    worker: Worker,
    deadline: Duration,
    scratch: PathBuf,
    /// Before `open`, and after it.
    memory: [Memory; 2],
    pub(super) run: EngineRun,
}

impl harness::EngineSession for Session {
    fn engine(&self) -> &str {
        self.worker.engine()
    }
}

impl Session {
    /// Opens an index whose files are in the page cache, and loads the queries.
    pub(super) fn open(
        mut worker: Worker,
        described: Described,
        index: Index,
        (queries, judge): (&Path, &Judge<'_>),
        scratch: &Path,
        deadline: Duration,
    ) -> Result<Self> {
        let baseline = worker.memory(true, deadline)?;
        warm_page_cache(&index.files)?;
        let Opened { open_ms } = worker.ask(&Request::Open { dir: index.files }, deadline)?;
        let opened = worker.memory(true, deadline)?;
        let prepare = Request::Prepare { queries: queries.to_owned(), k: judge.k() };
        let prepared: Prepared = worker.ask(&prepare, deadline)?;
        if prepared.queries != judge.queries() {
            let expected = format!("{} queries", judge.queries());
            return Err(worker.unexpected("prepare", expected, prepared.queries));
        }
        let (index, reused) = (index.record, index.reused);
        let run =
            EngineRun { described, index, reused, open_ms, first_query_us: 0.0, points: Vec::new(), memory: None };
        Ok(Self { scratch: scratch.join(worker.engine()), worker, deadline, memory: [baseline, opened], run })
    }

    /// Searches once with every value, untimed, until the ceiling is reached: later values are left out of the sweep.
    pub(super) fn warm_up(&mut self, values: Option<Vec<u32>>, ceiling: f64, judge: &Judge<'_>) -> Result<()> {
        let values = values.unwrap_or_else(|| self.run.described.more.defaults.clone());
        let middle = values.get(values.len() / 2).copied().unwrap_or(1);
        let (_, latencies) = self.search(middle, Pass::Single)?;
        self.run.first_query_us = latencies.first().copied().unwrap_or(0.0);
        for value in values {
            self.search(value, Pass::Once)?;
            let recall = judge.recall(&self.ids(judge)?);
            self.run.points.push(Point { value, ..Point::default() });
            if recall >= ceiling {
                break;
            }
        }
        Ok(())
    }

    /// One pass over all queries at one value of the sweep; nothing where the sweep is shorter.
    pub(super) fn measure(&mut self, at: usize, pass: Pass, judge: &Judge<'_>) -> Result<()> {
        let Some(value) = self.run.points.get(at).map(|point| point.value) else { return Ok(()) };
        let (Searched { seconds, rounds }, latencies_us) = self.search(value, pass)?;
        let ids = self.ids(judge)?;
        let point = &mut self.run.points[at];
        match pass {
            Pass::Once => {}
            Pass::Batch(_) => {
                point.rounds = if point.seconds.is_empty() { rounds } else { point.rounds.min(rounds) };
                point.seconds.push(seconds);
                point.recalls.push(judge.recall(&ids));
                point.recall = point.recalls.iter().sum::<f64>() / point.recalls.len() as f64;
            }
            Pass::Threaded(..) => point.seconds_all_threads.push(seconds),
            Pass::Single => {
                point.passes_p50_us.push(percentile(&latencies_us, 0.5));
                point.passes_p99_us.push(percentile(&latencies_us, 0.99));
                (point.latencies_us, point.ids) = (latencies_us, ids);
            }
        }
        Ok(())
    }

    /// Measures the memory after all searches, after eviction, and after one more pass.
    pub(super) fn measure_memory(&mut self) -> Result<()> {
        let served = self.worker.memory(true, self.deadline)?;
        let _: Done = self.worker.ask(&Request::Evict, self.deadline)?;
        let evicted = self.worker.memory(true, self.deadline)?;
        let points = &self.run.points;
        let middle = points.get(points.len() / 2).map_or(1, |point| point.value);
        self.search(middle, Pass::Once)?;
        let evicted_pass = self.worker.memory(true, self.deadline)?;
        let [baseline, opened] = self.memory;
        self.run.memory = Some(MemoryOverTime { baseline, opened, served, evicted, evicted_pass });
        Ok(())
    }

    /// Ends the worker and hands over what it measured.
    pub(super) fn close(self) -> EngineRun {
        self.worker.quit();
        self.run
    }

    /// A search for all queries, and the microseconds of each with [`Pass::Single`].
    fn search(&mut self, value: u32, pass: Pass) -> Result<(Searched, Vec<f64>)> {
        let (threads, least_ms) = match pass {
            Pass::Batch(least) => (1, least),
            Pass::Threaded(threads, least) => (threads, least),
            Pass::Once | Pass::Single => (1, 0),
        };
        let mode = if pass == Pass::Single { Mode::Each } else { Mode::Batch };
        let latencies = (pass == Pass::Single).then(|| self.scratch.with_extension("latencies.npy"));
        let out = self.ids_path();
        let request = Request::Search { value, threads, mode, least_ms, out, latencies: latencies.clone() };
        let searched: Searched = self.worker.ask(&request, self.deadline)?;
        self.worker.above_zero("search", "a time above 0", searched.seconds)?;
        Ok((searched, latencies.map_or(Ok(Vec::new()), |path| npy::read_f64(&path))?))
    }

    /// What the last search found.
    fn ids(&self, judge: &Judge<'_>) -> Result<Vec<i64>> {
        let unexpected = |expected: String, got: String| -> Error { self.worker.unexpected("search", expected, got) };
        let (k, ids) = npy::read_ids(&self.ids_path())?;
        if k != judge.k() || ids.len() != judge.queries() * k {
            let expected = format!("ids of {} queries, {} each", judge.queries(), judge.k());
            return Err(unexpected(expected, format!("{} ids, {k} each", ids.len())));
        }
        match judge.foreign(&ids) {
            Some(id) => Err(unexpected("ids of rows, or -1".to_owned(), id.to_string())),
            None => Ok(ids),
        }
    }

    fn ids_path(&self) -> PathBuf {
        self.scratch.with_extension("ids.npy")
    }
}

/// Reads all files under a directory once, so that every engine opens from memory.
fn warm_page_cache(dir: &Path) -> Result<()> {
    for entry in fs_err::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            warm_page_cache(&entry.path())?;
        } else {
            std::io::copy(&mut fs_err::File::open(entry.path())?, &mut std::io::sink())?;
        }
    }
    Ok(())
}
