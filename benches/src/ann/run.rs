//! The order of a run: build or reuse, open, warm up, interleaved sweeps, latencies, memory.
//!
//! An engine that fails leaves the run with its error; the others go on. Only an interrupt ends the run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_command::Cancellation;

use super::cache::{Reuse, build_or_reuse};
use super::data::Ready;
use super::measured::Measured;
use super::protocol::Described;
use super::recall::Judge;
use super::session::{Pass, Session};
use super::worker;
use super::workload::Workload;

use crate::harness::{EngineSession as _, Error, Machine, Programs, Result, RunInfo, Runner, Worker, in_scratch};

/// A run to be done.
#[derive(Debug)]
pub struct Job<'a> {
    /// What to measure.
    pub workload: &'a Workload,
    /// Engines, by names that may stand for several.
    pub engines: Vec<String>,
    /// Engines for which the command gives sweeps, by names that may stand for several: they must be in the run.
    pub swept: Vec<String>,
    /// Where the programs are.
    pub programs: Programs,
    /// Kept indexes, and scratch files.
    pub cache: PathBuf,
    /// When a kept index is good enough.
    pub reuse: Reuse,
    /// For a build.
    pub build_deadline: Duration,
    /// For any other answer of a worker.
    pub deadline: Duration,
    /// Ends the run.
    pub cancel: Cancellation,
}

/// Runs a workload; `note` hears what is being done.
pub fn run(job: &Job<'_>, ready: &Ready, note: &dyn Fn(&str)) -> Result<Measured> {
    let workload = job.workload;
    let judge = Judge::new(&ready.base, &ready.queries, &ready.truth, workload.k, workload.metric);
    let runner = in_scratch(&job.cache, |scratch| {
        let mut runner = Runner::new(note);
        Run { job, ready, judge, note, scratch }.measure(&mut runner)?;
        Ok(runner)
    })?;
    let (engines, failures) = runner.close(Session::close);
    Ok(Measured {
        workload: workload.name.clone(),
        metric: workload.metric.name(),
        rows: ready.base.len(),
        dim: ready.base.dim(),
        queries: ready.queries.len(),
        k: workload.k,
        m: workload.m,
        ef_construction: workload.ef_construction,
        threads: workload.all_threads(),
        repeats: workload.repeats,
        targets: workload.targets.clone(),
        engines,
        failures,
        machine: Machine::this(),
        stamp: RunInfo::now(),
    })
}

struct Run<'a> {
    job: &'a Job<'a>,
    ready: &'a Ready,
    judge: Judge<'a>,
    note: &'a dyn Fn(&str),
    scratch: &'a Path,
}

impl Run<'_> {
    fn measure(&self, runner: &mut Runner<'_, Session>) -> Result<()> {
        let workload = self.job.workload;
        // Each engine, and the name by which it was asked for: its own, or one that stands for several.
        let mut engines: Vec<(String, &str)> = Vec::new();
        for name in &self.job.engines {
            match self.members(name) {
                Ok(members) => engines.extend(members.into_iter().map(|engine| (engine, name.as_str()))),
                Err(error) => runner.fail(name, error)?,
            }
        }
        for (flag, names) in [("--rebuild", &self.job.reuse.rebuild), ("--sweep", &self.job.swept)] {
            let unknown = |name: &&String| !engines.iter().any(|(engine, asked)| engine == *name || asked == name);
            if let Some(name) = names.iter().filter(|name| !runner.has_failed(name)).find(unknown) {
                let known = engines.iter().map(|(engine, _)| engine.as_str()).collect::<Vec<_>>().join(", ");
                return Err(Error::NotInRun { flag, name: name.clone(), known });
            }
        }
        for (engine, asked) in &engines {
            // A variant may also have been asked for by its own name.
            if runner.sessions.iter().all(|session| session.engine() != engine) {
                let rebuild = self.job.reuse.rebuild.iter().any(|name| name == engine || name == asked);
                runner.admit(engine, self.session(engine, rebuild))?;
            }
        }
        // Values that the workload or the command gives for an engine: under its name, or else under the one asked for.
        let sweep = |engine: &str| {
            let asked = engines.iter().find(|(name, _)| name == engine).map(|(_, asked)| *asked);
            workload.sweep.get(engine).or_else(|| workload.sweep.get(asked?)).cloned()
        };
        (self.note)("warming up");
        runner.each(0, |session| session.warm_up(sweep(session.engine()), workload.ceiling, &self.judge))?;
        let (repeats, threads) = (workload.repeats, workload.all_threads());
        let one_thread = (0..repeats).flat_map(|turn| [(turn, Pass::Batch(workload.least_ms)), (turn, Pass::Single)]);
        let all_threads = (0..workload.threaded_repeats).map(|turn| (turn, Pass::Threaded(threads, workload.least_ms)));
        for (turn, pass) in one_thread.chain(all_threads) {
            let number = turn + 1;
            (self.note)(&match pass {
                Pass::Once | Pass::Batch(_) => format!("batch calls, pass {number} of {repeats}"),
                Pass::Single => format!("single calls, pass {number} of {repeats}"),
                Pass::Threaded(..) => format!("batch calls on {threads} threads, pass {number}"),
            });
            let longest = runner.sessions.iter().map(|session| session.run.points.len()).max().unwrap_or(0);
            for at in 0..longest {
                // Another engine begins each pass of a kind, so that none always follows the same one.
                runner.each(turn, |session| session.measure(at, pass, &self.judge))?;
            }
        }
        runner.each(0, Session::measure_memory)
    }

    fn start(&self, engine: &str) -> Result<(Worker, Described)> {
        let own = worker::ENGINES.contains(&engine).then_some("ann-worker");
        let mut worker = Worker::start(engine, self.job.programs.command(engine, own), self.job.cancel.clone())?;
        let described = worker.describe(self.job.deadline)?;
        Ok((worker, described))
    }

    /// The engines that a name stands for; its worker knows.
    fn members(&self, name: &str) -> Result<Vec<String>> {
        let (worker, described) = self.start(name)?;
        worker.quit();
        let variants = described.more.variants;
        Ok(if variants.is_empty() { vec![name.to_owned()] } else { variants })
    }

    /// Builds or reuses an engine's index, and opens it in a fresh process.
    fn session(&self, engine: &str, rebuild: bool) -> Result<Session> {
        let job = self.job;
        let (mut builder, described) = self.start(engine)?;
        (self.note)(&format!("{engine}: index"));
        let (vectors, kept) = ((job.workload, self.ready), (job.cache.as_path(), &job.reuse, rebuild));
        let index = build_or_reuse(&mut builder, &described, vectors, kept, job.build_deadline)?;
        builder.quit();
        (self.note)(&format!(
            "{engine}: {} in {:.1} s",
            if index.reused { "reused, built" } else { "built" },
            index.record.built.build_s
        ));
        let (worker, described) = self.start(engine)?;
        let queries = (self.ready.queries_path.as_path(), &self.judge);
        Session::open(worker, described, index, queries, self.scratch, job.deadline)
    }
}
