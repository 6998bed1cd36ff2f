//! One engine's part in a run: its worker and what it has measured so far.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::index_cache::Index;
use super::measured::{EngineRun, MemoryOverTime, Point};
use super::protocol::{Described, Done, Memory, Mode, Opened, Prepared, Request, Searched};
use super::recall::Judge;
use crate::dataset::npy;
use crate::harness::{self, Error, Result, Worker, percentile};

/// Deadlines of one engine.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// A build.
    pub build: Duration,
    /// Anything else.
    pub other: Duration,
}

/// How one pass over all queries is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// One thread, over all queries once.
    Once,
    /// Timed, one thread, at least so many milliseconds.
    Single(u32),
    /// Timed, all threads, at least so many milliseconds.
    Threaded(usize, u32),
    /// One call per query.
    Each,
}

/// What one pass took.
struct Timed {
    seconds: f64,
    rounds: u32,
    latencies_us: Vec<f64>,
}

/// An engine with an open index.
#[derive(Debug)]
pub(super) struct Seat {
    worker: Worker,
    described: Described,
    index: Index,
    deadline: Duration,
    scratch: PathBuf,
    open_ms: f64,
    first_query_us: f64,
    baseline: Memory,
    opened: Memory,
    points: Vec<Point>,
    recalls: Vec<Vec<f64>>,
    memory: Option<MemoryOverTime>,
}

impl harness::Seat for Seat {
    fn engine(&self) -> &str {
        self.worker.engine()
    }
}

impl Seat {
    /// Opens an index whose files are in the page cache, and loads the queries.
    pub(super) fn open(
        mut worker: Worker,
        described: Described,
        index: Index,
        (queries, judge): (&Path, &Judge<'_>),
        scratch: &Path,
        deadline: Duration,
    ) -> Result<Self> {
        let baseline = worker.ask(&Request::Rss, deadline)?;
        warm_page_cache(&index.files)?;
        let opened: Opened = worker.ask(&Request::Open { dir: index.files.clone() }, deadline)?;
        let after_open = worker.ask(&Request::Rss, deadline)?;
        let request = Request::Prepare { queries: queries.to_owned(), k: judge.k() };
        let prepared: Prepared = worker.ask(&request, deadline)?;
        if prepared.queries != judge.queries() {
            let expected = format!("{} queries", judge.queries());
            return Err(worker.unexpected("prepare", expected, prepared.queries.to_string()));
        }
        Ok(Self {
            scratch: scratch.join(worker.engine()),
            worker,
            described,
            index,
            deadline,
            open_ms: opened.open_ms,
            first_query_us: 0.0,
            baseline,
            opened: after_open,
            points: Vec::new(),
            recalls: Vec::new(),
            memory: None,
        })
    }

    /// Values that the engine itself proposes.
    pub(super) fn defaults(&self) -> Vec<u32> {
        self.described.defaults.clone()
    }

    /// Searches once with every value, untimed, until the ceiling is reached: later values are left out of the sweep.
    pub(super) fn warm_up(&mut self, values: &[u32], ceiling: f64, judge: &Judge<'_>) -> Result<()> {
        let middle = values.get(values.len() / 2).copied().unwrap_or(1);
        let latencies = self.search(middle, Pass::Each)?.latencies_us;
        self.first_query_us = latencies.first().copied().unwrap_or(0.0);
        for &value in values {
            self.search(value, Pass::Once)?;
            let recall = judge.recall(&self.ids(judge)?);
            self.points.push(Point { value, ..Point::default() });
            self.recalls.push(Vec::new());
            if recall >= ceiling {
                break;
            }
        }
        Ok(())
    }

    /// How many values are left in the sweep.
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    /// One pass over all queries at one value of the sweep; nothing where the sweep is shorter.
    pub(super) fn measure(&mut self, at: usize, pass: Pass, judge: &Judge<'_>) -> Result<()> {
        let Some(value) = self.points.get(at).map(|point| point.value) else { return Ok(()) };
        let Timed { seconds, rounds, latencies_us } = self.search(value, pass)?;
        let ids = self.ids(judge)?;
        let recall = judge.recall(&ids);
        let Some((point, recalls)) = self.points.get_mut(at).zip(self.recalls.get_mut(at)) else { return Ok(()) };
        match pass {
            Pass::Once => {}
            Pass::Single(_) => {
                point.rounds = if point.seconds.is_empty() { rounds } else { point.rounds.min(rounds) };
                point.seconds.push(seconds);
                recalls.push(recall);
                point.recall = recalls.iter().sum::<f64>() / recalls.len() as f64;
            }
            Pass::Threaded(..) => point.threaded_seconds.push(seconds),
            Pass::Each => {
                point.p50_us = percentile(&latencies_us, 0.5);
                point.p99_us = percentile(&latencies_us, 0.99);
                (point.latencies_us, point.ids) = (latencies_us, ids);
            }
        }
        Ok(())
    }

    /// Reads the memory after all searches, cool, and serving again.
    pub(super) fn weigh(&mut self) -> Result<()> {
        let served = self.worker.ask(&Request::Rss, self.deadline)?;
        let _: Done = self.worker.ask(&Request::Cool, self.deadline)?;
        let cooled = self.worker.ask(&Request::Rss, self.deadline)?;
        let middle = self.points.get(self.points.len() / 2).map_or(1, |point| point.value);
        self.search(middle, Pass::Once)?;
        let served_cool = self.worker.ask(&Request::Rss, self.deadline)?;
        self.memory =
            Some(MemoryOverTime { baseline: self.baseline, opened: self.opened, served, cooled, served_cool });
        Ok(())
    }

    /// Ends the worker and hands over what it measured.
    pub(super) fn close(self) -> EngineRun {
        self.worker.quit();
        EngineRun {
            described: self.described,
            index: self.index.record,
            reused: self.index.reused,
            open_ms: self.open_ms,
            first_query_us: self.first_query_us,
            points: self.points,
            memory: self.memory,
        }
    }

    fn ids_path(&self) -> PathBuf {
        self.scratch.with_extension("ids.npy")
    }

    fn search(&mut self, value: u32, pass: Pass) -> Result<Timed> {
        let latencies = (pass == Pass::Each).then(|| self.scratch.with_extension("latencies.npy"));
        let request = Request::Search {
            value,
            threads: if let Pass::Threaded(threads, _) = pass { threads } else { 1 },
            mode: if pass == Pass::Each { Mode::Each } else { Mode::Batch },
            least_ms: match pass {
                Pass::Single(least) | Pass::Threaded(_, least) => least,
                Pass::Once | Pass::Each => 0,
            },
            out: self.ids_path(),
            latencies: latencies.clone(),
        };
        let searched: Searched = self.worker.ask(&request, self.deadline)?;
        self.worker.above_zero("search", "a time above 0", searched.seconds)?;
        let latencies_us = latencies.map_or(Ok(Vec::new()), |path| npy::read_f64(&path))?;
        Ok(Timed { seconds: searched.seconds, rounds: searched.rounds, latencies_us })
    }

    /// What the last search found.
    fn ids(&self, judge: &Judge<'_>) -> Result<Vec<i64>> {
        let (k, ids) = npy::read_ids(&self.ids_path())?;
        if k != judge.k() || ids.len() != judge.queries() * k {
            let expected = format!("ids of {} queries, {} each", judge.queries(), judge.k());
            return Err(self.unexpected(&expected, format!("{} ids, {k} each", ids.len())));
        }
        if let Some(id) = judge.foreign(&ids) {
            return Err(self.unexpected("ids of rows, or -1", id.to_string()));
        }
        Ok(ids)
    }

    fn unexpected(&self, expected: &str, got: String) -> Error {
        self.worker.unexpected("search", expected, got)
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
