//! One engine's part in a run: its index, its worker, and what it has measured so far.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::data::ReadyVectors;
use super::measured::{AnnEngineRun, FirstPass, IndexRecord, MemoryOverTime, SweepPoint};
use super::protocol::{AnnDescription, AnnRequest, CallMode, IndexBuild, PreparedQueries, SearchedQueries};
use super::recall::RecallJudge;
use super::worker;
use super::workload::{AnnJob, AnnWorkload};
use crate::dataset::npy;
use crate::error::{BenchError, BenchResult};
use crate::harness::{EngineSession, OpenedReply, WorkerProcess, drop_pages, files_under, percentile};

/// How one pass over all queries is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchPass {
    /// Batch calls on one thread, for at least this many milliseconds; with 0 over all queries once.
    Batch(u32),
    /// Batch calls on this many threads, for at least this many milliseconds.
    Threaded(usize, u32),
    /// One timed call per query, on one thread.
    Single,
}

/// An engine with an open index and loaded queries.
pub(super) type AnnSession = EngineSession<AnnEngineRun>;

/// What all engines of a run share.
pub(super) struct AnnRun<'a> {
    pub(super) job: &'a AnnJob<'a>,
    pub(super) ready: &'a ReadyVectors,
    /// Hash of the vectors.
    pub(super) key: String,
    /// What filters read of the rows, where there are filters: the file, and its hash.
    pub(super) attributes: Option<(PathBuf, String)>,
    pub(super) judge: RecallJudge<'a>,
    /// Indexes so far and their files, by engine.
    pub(super) made: RefCell<BTreeMap<String, (IndexRecord, PathBuf)>>,
    pub(super) note: &'a dyn Fn(&str),
    pub(super) scratch: &'a Path,
}

impl IndexRecord {
    /// Has a worker build an index; or reuses one of an earlier run, where the job allows it and vectors and settings
    /// are the same; or copies that of another engine of the run, where the engine says that its own would be the same.
    /// Returns the index and the folder of its files.
    ///
    /// ```text
    /// CACHE/index/<engine>-<key>/record.json    what was built, from what, how long it took
    /// CACHE/index/<engine>-<key>/files/         what the engine wrote
    /// ```
    pub(super) fn make(
        worker: &mut WorkerProcess,
        described: &AnnDescription,
        run: &AnnRun<'_>,
    ) -> BenchResult<(Self, PathBuf)> {
        let base = run.ready.base_path.clone();
        let &AnnWorkload {
            metric,
            m,
            ef_construction,
            threads,
            seed,
            ..
        } = run.job.workload;
        let AnnDescription {
            engine,
            version,
            settings,
            more,
        } = described;
        let attributes = run.attributes.as_ref().filter(|_| more.reads_attributes);
        let key = [&run.key]
            .into_iter()
            .chain(attributes.map(|(_, hash)| hash))
            .cloned()
            .collect::<Vec<_>>()
            .join(" ");
        let attributes = attributes.map(|(path, _)| path.clone());
        let made_from = format!(
            "{engine} {version} | {settings} | {} | {} | m {m} | ef_construction {ef_construction} | threads {threads} | seed {seed}",
            key,
            metric.name()
        );
        let dir = run
            .job
            .settings
            .cache
            .join("index")
            .join(format!("{engine}-{:016x}", xxh3_64(made_from.as_bytes())));
        let (record, files) = (dir.join("record.json"), dir.join("files"));
        if run.job.keep_indexes && record.exists() {
            let read = serde_json::from_slice(&fs_err::read(&record)?);
            let index: Self = read.map_err(|error| BenchError::kept(&record, error))?;
            if index.made_from == made_from {
                let (index, files) = (Self { reused: true, ..index }, fs_err::canonicalize(files)?);
                run.made
                    .borrow_mut()
                    .insert(engine.clone(), (index.clone(), files.clone()));
                return Ok((index, files));
            }
        }
        if dir.exists() {
            fs_err::remove_dir_all(&dir)?;
        }
        fs_err::create_dir_all(&files)?;
        let files = fs_err::canonicalize(files)?;
        let same = more
            .index_of
            .as_ref()
            .and_then(|other| run.made.borrow().get(other).cloned());
        let index = if let Some((Self { built, .. }, other)) = same {
            for file in files_under(&other)? {
                let copy = files.join(file.strip_prefix(&other).unwrap_or(&file));
                fs_err::create_dir_all(copy.parent().unwrap_or(&files))?;
                fs_err::copy(file, copy)?;
            }
            Self {
                made_from,
                built,
                reused: true,
            }
        } else {
            let build = IndexBuild {
                attributes,
                ..run.job.workload.index_build(base, files.clone())
            };
            Self {
                made_from,
                built: worker.ask(&AnnRequest::Build(build))?,
                reused: false,
            }
        };
        run.made
            .borrow_mut()
            .insert(engine.clone(), (index.clone(), files.clone()));
        fs_err::write(record, serde_json::to_vec_pretty(&index).map_err(std::io::Error::from)?)?;
        Ok((index, files))
    }
}

impl<'a> AnnRun<'a> {
    /// A run without indexes so far.
    pub(super) fn new(job: &'a AnnJob<'a>, ready: &'a ReadyVectors, note: &'a dyn Fn(&str), scratch: &'a Path) -> Self {
        let workload = job.workload;
        let judge = RecallJudge::new(&ready.base, &ready.queries, &ready.truth, workload.k, workload.metric);
        Self {
            job,
            ready,
            key: ready.key(),
            attributes: None,
            judge,
            made: RefCell::default(),
            note,
            scratch,
        }
    }

    /// Builds or reuses an engine's index, opens it in a fresh process with its files in the page cache, or out of it,
    /// and loads the queries.
    pub(super) fn open(&self, engine: &str) -> BenchResult<AnnSession> {
        let mut builder = start_worker(self.job, engine, self.job.build_deadline)?;
        let described = builder.describe()?;
        (self.note)(&format!("{engine}: index"));
        let (index, files) = IndexRecord::make(&mut builder, &described, self)?;
        builder.quit();
        let how = if index.reused { "reused, built" } else { "built" };
        (self.note)(&format!("{engine}: {how} in {:.1} s", index.built.build_s));
        let mut worker = start_worker(self.job, engine, self.job.settings.deadline)?;
        let described = worker.describe()?;
        let baseline = worker.memory(true)?;
        for file in files_under(&files)? {
            if self.job.cold {
                drop_pages(&file)?;
            } else {
                std::io::copy(&mut fs_err::File::open(file)?, &mut std::io::sink())?;
            }
        }
        if let Some(bytes) = self.job.memory_limit {
            worker.limit_memory(bytes)?;
        }
        let OpenedReply { open_ms } = worker.ask(&AnnRequest::Open { dir: files })?;
        let opened = worker.memory(true)?;
        load_queries(&mut worker, self.ready, self.judge.k)?;
        let memory = MemoryOverTime {
            baseline,
            opened,
            served: opened,
            evicted: opened,
            evicted_pass: opened,
        };
        let run = AnnEngineRun {
            described,
            index,
            open_ms,
            first_pass: FirstPass::default(),
            points: Vec::new(),
            memory,
        };
        Ok(AnnSession { worker, run })
    }

    /// Searches once with every value, untimed, until the ceiling is reached: later values are left out of the sweep.
    pub(super) fn warm_up(&self, session: &mut AnnSession, values: Option<Vec<u32>>) -> BenchResult<()> {
        let values = values.unwrap_or_else(|| session.run.described.more.defaults.clone());
        let middle = values.get(values.len() / 2).copied().unwrap_or(1);
        let (SearchedQueries { seconds, .. }, latencies) = self.search(session, middle, SearchPass::Single)?;
        session.run.first_pass = FirstPass {
            value: middle,
            first_us: latencies.first().copied().unwrap_or(0.0),
            seconds,
            p50_us: percentile(&latencies, 0.5),
            p99_us: percentile(&latencies, 0.99),
        };
        for value in values {
            self.search(session, value, SearchPass::Batch(0))?;
            let recall = self.judge.recall(&self.read_ids(session)?);
            session.run.points.push(SweepPoint {
                value,
                ..SweepPoint::default()
            });
            if recall >= self.job.workload.ceiling {
                break;
            }
        }
        Ok(())
    }

    /// One pass over all queries at one value of the sweep; nothing where the sweep is shorter.
    pub(super) fn measure_point(&self, session: &mut AnnSession, at: usize, pass: SearchPass) -> BenchResult<()> {
        let Some(value) = session.run.points.get(at).map(|point| point.value) else {
            return Ok(());
        };
        if matches!(pass, SearchPass::Threaded(..)) && session.run.described.more.single_threaded {
            return Ok(());
        }
        let (SearchedQueries { seconds, rounds }, latencies_us) = self.search(session, value, pass)?;
        let ids = self.read_ids(session)?;
        let point = &mut session.run.points[at];
        match pass {
            SearchPass::Batch(_) => {
                point.rounds = if point.seconds.is_empty() {
                    rounds
                } else {
                    point.rounds.min(rounds)
                };
                point.seconds.push(seconds);
                point.recalls.push(self.judge.recall(&ids));
                point.recall = point.recalls.iter().sum::<f64>() / point.recalls.len() as f64;
            }
            SearchPass::Threaded(..) => point.seconds_all_threads.push(seconds),
            SearchPass::Single => {
                point.passes_p50_us.push(percentile(&latencies_us, 0.5));
                point.passes_p99_us.push(percentile(&latencies_us, 0.99));
                (point.latencies_us, point.ids) = (latencies_us, ids);
            }
        }
        Ok(())
    }

    /// Measures the memory after all searches, after eviction, and after one more pass.
    pub(super) fn measure_memory(&self, session: &mut AnnSession) -> BenchResult<()> {
        session.run.memory.served = session.worker.memory(true)?;
        let _: Value = session.worker.ask(&AnnRequest::Evict)?;
        session.run.memory.evicted = session.worker.memory(true)?;
        let points = &session.run.points;
        let middle = points.get(points.len() / 2).map_or(1, |point| point.value);
        self.search(session, middle, SearchPass::Batch(0))?;
        session.run.memory.evicted_pass = session.worker.memory(true)?;
        Ok(())
    }

    /// A search for all queries, and the microseconds of each with [`SearchPass::Single`].
    pub(super) fn search(
        &self,
        session: &mut AnnSession,
        value: u32,
        pass: SearchPass,
    ) -> BenchResult<(SearchedQueries, Vec<f64>)> {
        search(&mut session.worker, self.scratch, value, pass)
    }

    /// What the last search found.
    pub(super) fn read_ids(&self, session: &AnnSession) -> BenchResult<Vec<i64>> {
        let (k, ids) = read_ids(&session.worker, self.scratch)?;
        let words = |ids: usize, k: usize| format!("{ids} ids, {k} per query");
        let expected = words(self.judge.queries.len() * self.judge.k, self.judge.k);
        session.worker.require("search", expected, words(ids.len(), k))?;
        match self.judge.foreign(&ids) {
            Some(id) => Err(session.worker.unexpected("search", "ids of rows, or -1", id)),
            None => Ok(ids),
        }
    }
}

/// Starts the worker of an engine, with a deadline for each answer.
pub(super) fn start_worker(job: &AnnJob<'_>, engine: &str, deadline: Duration) -> BenchResult<WorkerProcess> {
    let own = worker::ENGINES.contains(&engine).then_some("ann");
    let command = job.settings.programs.command(engine, own);
    WorkerProcess::start(engine, command, deadline, job.settings.cancel.clone())
}

/// Has a worker load the queries.
pub(super) fn load_queries(worker: &mut WorkerProcess, ready: &ReadyVectors, k: usize) -> BenchResult<()> {
    let prepare = AnnRequest::Prepare {
        queries: ready.queries_path.clone(),
        k,
    };
    let prepared: PreparedQueries = worker.ask(&prepare)?;
    let words = |queries: usize| format!("{queries} queries");
    worker.require("prepare", words(ready.queries.len()), words(prepared.queries))
}

/// Has a worker search for all queries; the microseconds of each with [`SearchPass::Single`].
pub(super) fn search(
    worker: &mut WorkerProcess,
    scratch: &Path,
    value: u32,
    pass: SearchPass,
) -> BenchResult<(SearchedQueries, Vec<f64>)> {
    let (mode, threads, least_ms) = match pass {
        SearchPass::Batch(least) => (CallMode::Batch, 1, least),
        SearchPass::Threaded(threads, least) => (CallMode::Batch, threads, least),
        SearchPass::Single => (CallMode::Each, 1, 0),
    };
    let latencies = (pass == SearchPass::Single).then(|| scratch_file(worker, scratch, "latencies.npy"));
    let out = scratch_file(worker, scratch, "ids.npy");
    let request = AnnRequest::Search {
        value,
        threads,
        mode,
        least_ms,
        out,
        latencies: latencies.clone(),
    };
    let searched: SearchedQueries = worker.ask(&request)?;
    worker.above_zero("search", "a time above 0", searched.seconds)?;
    Ok((searched, latencies.map_or(Ok(Vec::new()), |path| npy::read_f64(&path))?))
}

/// What a worker's last search found: ids per query, and all ids.
pub(super) fn read_ids(worker: &WorkerProcess, scratch: &Path) -> BenchResult<(usize, Vec<i64>)> {
    npy::read_ids(&scratch_file(worker, scratch, "ids.npy"))
}

fn scratch_file(worker: &WorkerProcess, scratch: &Path, name: &str) -> PathBuf {
    scratch.join(format!("{}.{name}", worker.engine()))
}
