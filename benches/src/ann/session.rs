//! One engine's part in a run: its index, its worker, and what it has measured so far.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::data::Ready;
use super::measured::{EngineRun, FirstPass, Index, MemoryOverTime, Point};
use super::protocol::{Build, Described, Mode, Prepared, QueryFilter, Request, Searched};
use super::recall::Judge;
use super::worker;
use super::workload::{Job, Workload};
use crate::dataset::npy;
use crate::error::{Error, Result};
use crate::harness::{EngineSession, Opened, Worker, drop_pages, files_under, percentile};

/// How one pass over all queries is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// Batch calls on one thread, for at least this many milliseconds; with 0 over all queries once.
    Batch(u32),
    /// The same on this many threads.
    Threaded(usize, u32),
    /// One timed call per query, one thread.
    Single,
}

/// What all engines of a run share.
pub(super) struct Run<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) ready: &'a Ready,
    /// Hash of the vectors.
    pub(super) key: String,
    /// What filters read of the rows, where there are filters: the file, and its hash.
    pub(super) attributes: Option<(PathBuf, String)>,
    pub(super) judge: Judge<'a>,
    /// Indexes so far and their files, by engine.
    pub(super) made: RefCell<BTreeMap<String, (Index, PathBuf)>>,
    pub(super) note: &'a dyn Fn(&str),
    pub(super) scratch: &'a Path,
}

impl Run<'_> {
    /// Starts the worker of an engine, with a deadline for each answer.
    pub(super) fn start(&self, engine: &str, deadline: Duration) -> Result<(Worker, Described)> {
        let own = worker::ENGINES.contains(&engine).then_some("ann");
        let command = self.job.programs.command(engine, own);
        let mut worker = Worker::start(engine, command, deadline, self.job.cancel.clone())?;
        let described = worker.describe()?;
        Ok((worker, described))
    }
}

impl Index {
    /// Has a worker build an index; or reuses one of an earlier run, where the job allows it and vectors and settings are the same; or copies
    /// that of another engine of the run, where the engine says that its own would be the same. Returns the index and the folder of its
    /// files.
    ///
    /// ```text
    /// CACHE/index/<engine>-<key>/record.json    what was built, from what, how long it took
    /// CACHE/index/<engine>-<key>/files/         what the engine wrote
    /// ```
    pub(super) fn make(worker: &mut Worker, described: &Described, run: &Run<'_>) -> Result<(Self, PathBuf)> {
        let base = run.ready.base_path.clone();
        let &Workload { metric, m, ef_construction, threads, seed, .. } = run.job.workload;
        let Described { engine, version, settings, more } = described;
        let attributes = run.attributes.as_ref().filter(|_| more.reads_attributes);
        let key = [&run.key].into_iter().chain(attributes.map(|(_, hash)| hash)).cloned().collect::<Vec<_>>().join(" ");
        let attributes = attributes.map(|(path, _)| path.clone());
        let made_from = format!(
            "{engine} {version} | {settings} | {} | {} | m {m} | ef_construction {ef_construction} | threads {threads} | seed {seed}",
            key,
            metric.name()
        );
        let dir = run.job.cache.join("index").join(format!("{engine}-{:016x}", xxh3_64(made_from.as_bytes())));
        let (record, files) = (dir.join("record.json"), dir.join("files"));
        if run.job.keep_indexes && record.exists() {
            let read = serde_json::from_slice(&fs_err::read(&record)?);
            let index: Self = read.map_err(|error| Error::kept(&record, error))?;
            if index.made_from == made_from {
                let (index, files) = (Self { reused: true, ..index }, fs_err::canonicalize(files)?);
                run.made.borrow_mut().insert(engine.clone(), (index.clone(), files.clone()));
                return Ok((index, files));
            }
        }
        if dir.exists() {
            fs_err::remove_dir_all(&dir)?;
        }
        fs_err::create_dir_all(&files)?;
        let files = fs_err::canonicalize(files)?;
        let of = more.index_of.as_ref().and_then(|other| run.made.borrow().get(other).cloned());
        let index = if let Some((Self { built, .. }, other)) = of {
            for file in files_under(&other)? {
                let copy = files.join(file.strip_prefix(&other).unwrap_or(&file));
                fs_err::create_dir_all(copy.parent().unwrap_or(&files))?;
                fs_err::copy(file, copy)?;
            }
            Self { made_from, built, reused: true }
        } else {
            let build = Build { base, attributes, metric, m, ef_construction, threads, seed, dir: files.clone() };
            Self { made_from, built: worker.ask(&Request::Build(build))?, reused: false }
        };
        run.made.borrow_mut().insert(engine.clone(), (index.clone(), files.clone()));
        fs_err::write(record, serde_json::to_vec_pretty(&index).map_err(std::io::Error::from)?)?;
        Ok((index, files))
    }
}

/// An engine with an open index.
#[derive(Debug)]
pub(super) struct Session<'a> {
    worker: Worker,
    judge: &'a Judge<'a>,
    scratch: PathBuf,
    pub(super) run: EngineRun,
}

impl EngineSession for Session<'_> {
    fn engine(&self) -> &str {
        self.worker.engine()
    }
}

impl<'a> Session<'a> {
    /// Builds or reuses an engine's index, opens it in a fresh process with its files in the page cache, or out of it, and loads the queries.
    pub(super) fn open(run: &'a Run<'a>, engine: &str) -> Result<Self> {
        let (mut builder, described) = run.start(engine, run.job.build_deadline)?;
        (run.note)(&format!("{engine}: index"));
        let (index, files) = Index::make(&mut builder, &described, run)?;
        builder.quit();
        let how = if index.reused { "reused, built" } else { "built" };
        (run.note)(&format!("{engine}: {how} in {:.1} s", index.built.build_s));
        let (mut worker, described) = run.start(engine, run.job.deadline)?;
        let baseline = worker.memory(true)?;
        for file in files_under(&files)? {
            if run.job.cold {
                drop_pages(&file)?;
            } else {
                std::io::copy(&mut fs_err::File::open(file)?, &mut std::io::sink())?;
            }
        }
        if let Some(bytes) = run.job.memory_limit {
            worker.limit_memory(bytes)?;
        }
        let Opened { open_ms } = worker.ask(&Request::Open { dir: files })?;
        let opened = worker.memory(true)?;
        let prepare = Request::Prepare { queries: run.ready.queries_path.clone(), k: run.judge.k };
        let prepared: Prepared = worker.ask(&prepare)?;
        let words = |queries: usize| format!("{queries} queries");
        worker.require("prepare", words(run.judge.queries.len()), words(prepared.queries))?;
        let (judge, scratch) = (&run.judge, run.scratch.join(engine));
        let memory = MemoryOverTime { baseline, opened, served: opened, evicted: opened, evicted_pass: opened };
        let run = EngineRun { described, index, open_ms, first_pass: FirstPass::default(), points: Vec::new(), memory };
        Ok(Self { worker, judge, scratch, run })
    }

    /// Searches once with every value, untimed, until the ceiling is reached: later values are left out of the sweep.
    pub(super) fn warm_up(&mut self, values: Option<Vec<u32>>, ceiling: f64) -> Result<()> {
        let values = values.unwrap_or_else(|| self.run.described.more.defaults.clone());
        let middle = values.get(values.len() / 2).copied().unwrap_or(1);
        let (Searched { seconds, .. }, latencies) = self.search(middle, Pass::Single)?;
        self.run.first_pass = FirstPass {
            value: middle,
            first_us: latencies.first().copied().unwrap_or(0.0),
            seconds,
            p50_us: percentile(&latencies, 0.5),
            p99_us: percentile(&latencies, 0.99),
        };
        for value in values {
            self.search(value, Pass::Batch(0))?;
            let recall = self.judge.recall(&self.ids()?);
            self.run.points.push(Point { value, ..Point::default() });
            if recall >= ceiling {
                break;
            }
        }
        Ok(())
    }

    /// One pass over all queries at one value of the sweep; nothing where the sweep is shorter.
    pub(super) fn measure(&mut self, at: usize, pass: Pass) -> Result<()> {
        let Some(value) = self.run.points.get(at).map(|point| point.value) else { return Ok(()) };
        if matches!(pass, Pass::Threaded(..)) && self.run.described.more.single_threaded {
            return Ok(());
        }
        let (Searched { seconds, rounds }, latencies_us) = self.search(value, pass)?;
        let ids = self.ids()?;
        let point = &mut self.run.points[at];
        match pass {
            Pass::Batch(_) => {
                point.rounds = if point.seconds.is_empty() { rounds } else { point.rounds.min(rounds) };
                point.seconds.push(seconds);
                point.recalls.push(self.judge.recall(&ids));
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
        self.run.memory.served = self.worker.memory(true)?;
        let _: Value = self.worker.ask(&Request::Evict)?;
        self.run.memory.evicted = self.worker.memory(true)?;
        let points = &self.run.points;
        let middle = points.get(points.len() / 2).map_or(1, |point| point.value);
        self.search(middle, Pass::Batch(0))?;
        self.run.memory.evicted_pass = self.worker.memory(true)?;
        Ok(())
    }

    /// Ends the worker and hands over what it measured.
    pub(super) fn close(self) -> EngineRun {
        self.worker.quit();
        self.run
    }

    /// Searches under these filters from here on.
    pub(super) fn filter(&mut self, filters: &[QueryFilter]) -> Result<()> {
        let _: Value = self.worker.ask(&Request::Filter { filters: filters.to_vec() })?;
        Ok(())
    }

    /// The error of a search that returned what it may not.
    pub(super) fn unexpected(&self, expected: &str, got: impl std::fmt::Display) -> Error {
        self.worker.unexpected("search", expected, got)
    }

    /// A search for all queries, and the microseconds of each with [`Pass::Single`].
    pub(super) fn search(&mut self, value: u32, pass: Pass) -> Result<(Searched, Vec<f64>)> {
        let (threads, least_ms) = match pass {
            Pass::Batch(least) => (1, least),
            Pass::Threaded(threads, least) => (threads, least),
            Pass::Single => (1, 0),
        };
        let mode = if pass == Pass::Single { Mode::Each } else { Mode::Batch };
        let latencies = (pass == Pass::Single).then(|| self.scratch.with_extension("latencies.npy"));
        let out = self.ids_path();
        let request = Request::Search { value, threads, mode, least_ms, out, latencies: latencies.clone() };
        let searched: Searched = self.worker.ask(&request)?;
        self.worker.above_zero("search", "a time above 0", searched.seconds)?;
        Ok((searched, latencies.map_or(Ok(Vec::new()), |path| npy::read_f64(&path))?))
    }

    /// What the last search found.
    pub(super) fn ids(&self) -> Result<Vec<i64>> {
        let (k, ids) = npy::read_ids(&self.ids_path())?;
        let words = |ids: usize, k: usize| format!("{ids} ids, {k} per query");
        let expected = words(self.judge.queries.len() * self.judge.k, self.judge.k);
        self.worker.require("search", expected, words(ids.len(), k))?;
        match self.judge.foreign(&ids) {
            Some(id) => Err(self.worker.unexpected("search", "ids of rows, or -1", id)),
            None => Ok(ids),
        }
    }

    fn ids_path(&self) -> PathBuf {
        self.scratch.with_extension("ids.npy")
    }
}
