//! The order of a run: build or reuse, open, warm up, interleaved sweeps, latencies, memory.
//!
//! An engine that fails leaves the run with its error; the others go on. Only an interrupt ends the run.

use std::path::{Path, PathBuf};

use dyad_command::Cancellation;

use super::data::Ready;
use super::engines::start;
use super::index_cache::{Recipe, Reuse, build_or_reuse};
use super::measured::{Asked, Measured};
use super::protocol::Described;
use super::recall::Judge;
pub use super::seat::Deadlines;
use super::seat::{Pass, Seat};
use super::workload::Workload;
use crate::harness::{Error, Party, Programs, Result, Seat as _, Worker, in_scratch, machine, stamp};

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
    /// How long workers may take.
    pub deadlines: Deadlines,
    /// Ends the run.
    pub cancel: Cancellation,
}

/// Runs a workload; `note` hears what is being done.
pub fn run(job: &Job<'_>, ready: &Ready, note: &dyn Fn(&str)) -> Result<Measured> {
    let workload = job.workload;
    let judge = Judge::new(&ready.base, &ready.queries, &ready.truth, workload.k, workload.metric);
    let (asked, party) = in_scratch(&job.cache, |scratch| {
        let mut run = Run { job, ready, judge, note, scratch, asked: Vec::new() };
        let mut party = Party::new(note);
        run.measure(&mut party)?;
        Ok((run.asked, party))
    })?;
    let (engines, failures) = party.close(Seat::close);
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
        asked,
        engines,
        failures,
        machine: machine(),
        stamp: stamp(),
    })
}

struct Run<'a> {
    job: &'a Job<'a>,
    ready: &'a Ready,
    judge: Judge<'a>,
    note: &'a dyn Fn(&str),
    scratch: &'a Path,
    asked: Vec<Asked>,
}

impl Run<'_> {
    fn measure(&mut self, party: &mut Party<'_, Seat>) -> Result<()> {
        let workload = self.job.workload;
        for name in &self.job.engines {
            match self.members(name) {
                Ok(members) => self.asked.push(Asked { name: name.clone(), members }),
                Err(error) => party.fail(name, error)?,
            }
        }
        let rebuilt = self.known(&self.job.reuse.rebuild, party, |name, known| Error::Rebuild { name, known })?;
        self.known(&self.job.swept, party, |name, known| Error::Sweep { name, known })?;
        for Asked { members, .. } in &self.asked {
            for engine in members {
                // A variant may also have been asked for by its own name.
                if party.seats().iter().all(|seat| seat.engine() != engine) {
                    party.admit(engine, self.seat(engine, rebuilt.contains(engine)))?;
                }
            }
        }
        (self.note)("warming up");
        party.each(0, |seat| {
            let values = self.sweep(seat.engine()).unwrap_or_else(|| seat.defaults());
            seat.warm_up(&values, workload.ceiling, &self.judge)
        })?;
        let threaded = Pass::Threaded(workload.all_threads(), workload.least_ms);
        let passes = std::iter::repeat_n(Pass::Single(workload.least_ms), workload.repeats)
            .chain(std::iter::repeat_n(threaded, workload.threaded_repeats))
            .chain([Pass::Each]);
        for (number, pass) in passes.enumerate() {
            (self.note)(&match pass {
                Pass::Once | Pass::Single(_) => format!("one thread, pass {} of {}", number + 1, workload.repeats),
                Pass::Threaded(threads, _) => format!("{threads} threads, pass {}", number + 1 - workload.repeats),
                Pass::Each => "one call per query".to_owned(),
            });
            let longest = party.seats().iter().map(Seat::len).max().unwrap_or(0);
            for at in 0..longest {
                // Another engine begins every pass, so that none always follows the same one.
                party.each(number, |seat| seat.measure(at, pass, &self.judge))?;
            }
        }
        party.each(0, Seat::weigh)
    }

    fn start(&self, engine: &str) -> Result<(Worker, Described)> {
        let mut worker = start(&self.job.programs, engine, self.job.cancel.clone())?;
        let described = worker.describe(self.job.deadlines.other, |described: &Described| &described.engine)?;
        Ok((worker, described))
    }

    /// The engines that a name stands for; its worker knows.
    fn members(&self, name: &str) -> Result<Vec<String>> {
        let (worker, described) = self.start(name)?;
        worker.quit();
        Ok(if described.variants.is_empty() { vec![name.to_owned()] } else { described.variants })
    }

    /// Values that the workload or the command gives for an engine: under its name, or else under one that it is a member of.
    fn sweep(&self, engine: &str) -> Option<Vec<u32>> {
        let sweep = &self.job.workload.sweep;
        let of_family = || {
            let mut families = self.asked.iter().filter(|asked| asked.members.iter().any(|member| member == engine));
            families.find_map(|asked| sweep.get(&asked.name))
        };
        sweep.get(engine).or_else(of_family).cloned()
    }

    /// The engines behind names that a flag gives, each of which may stand for several; a name that is not in this run is
    /// refused.
    fn known(
        &self,
        names: &[String],
        party: &Party<'_, Seat>,
        refuse: impl Fn(String, String) -> Error,
    ) -> Result<Vec<String>> {
        let mut engines = Vec::new();
        for name in names {
            let group = self.asked.iter().find(|asked| asked.name == *name).map(|asked| asked.members.clone());
            let single = self.asked.iter().flat_map(|asked| &asked.members).find(|member| *member == name);
            let failed = party.has_failed(name);
            match (group, single, failed) {
                (Some(group), ..) => engines.extend(group),
                (None, None, false) => {
                    let known = self.asked.iter().map(|asked| asked.name.clone()).collect::<Vec<_>>().join(", ");
                    return Err(refuse(name.clone(), known));
                }
                _ => engines.push(name.clone()),
            }
        }
        Ok(engines)
    }

    /// Builds or reuses an engine's index, and opens it in a fresh process.
    fn seat(&self, engine: &str, rebuild: bool) -> Result<Seat> {
        let (job, deadlines) = (self.job, self.job.deadlines);
        let workload = job.workload;
        let (mut builder, described) = self.start(engine)?;
        let recipe = Recipe {
            base: &self.ready.base_path,
            data_key: &self.ready.key,
            metric: workload.metric,
            m: workload.m,
            ef_construction: workload.ef_construction,
            threads: workload.all_threads(),
            seed: workload.seed,
            rebuild,
        };
        (self.note)(&format!("{engine}: index"));
        let index = build_or_reuse(&mut builder, &described, &recipe, &job.cache, &job.reuse, deadlines.build)?;
        builder.quit();
        (self.note)(&format!(
            "{engine}: {} in {:.1} s",
            if index.reused { "reused, built" } else { "built" },
            index.record.built.build_s
        ));
        let (worker, described) = self.start(engine)?;
        let queries = (self.ready.queries_path.as_path(), &self.judge);
        Seat::open(worker, described, index, queries, self.scratch, deadlines.other)
    }
}
