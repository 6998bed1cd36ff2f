//! The order of a run: build or reuse, open, warm up, interleaved sweeps, latencies, memory.
//!
//! An engine that fails leaves the run with its error; the others go on. Only an interrupt ends the run.

use super::data::ReadyVectors;
use super::measured::{AnnEngineRun, AnnMeasurement, EngineFamily};
use super::protocol::{AnnDescription, AnnDetails};
use super::session::{AnnRun, SearchPass, start_worker};
use super::workload::{AnnJob, AnnWorkload};
use crate::error::{BenchError, BenchResult};
use crate::harness::{EngineRunner, MachineInfo, RunInfo, in_scratch};

/// Runs a workload; `note` hears what is being done.
pub fn run(job: &AnnJob<'_>, ready: &ReadyVectors, note: &dyn Fn(&str)) -> BenchResult<AnnMeasurement> {
    let (asked, (engines, failures)) = in_scratch(&job.settings.cache, |scratch| {
        let run = AnnRun::new(job, ready, note, scratch);
        let mut runner = EngineRunner::new(note);
        let asked = run.measure(&mut runner)?;
        Ok((asked, runner.close()))
    })?;
    Ok(AnnMeasurement {
        workload: job.workload.clone(),
        rows: ready.base.len(),
        dim: ready.base.dim(),
        queries: ready.queries.len(),
        cold: job.cold,
        memory_limit: job.memory_limit,
        engines,
        families: asked.families(),
        failures,
        skipped: asked.skipped,
        machine: MachineInfo::this(),
        stamp: RunInfo::now(),
    })
}

/// The engines of a run.
#[derive(Debug, Default)]
pub(super) struct AskedEngines {
    /// Each engine, and the name by which it was asked for: its own, or one that stands for several.
    pub(super) engines: Vec<(String, String)>,
    /// Members of such names that cannot run here, and why.
    pub(super) skipped: Vec<(String, String)>,
}

impl AskedEngines {
    /// Names that stand for several engines, in the order asked.
    fn families(&self) -> Vec<EngineFamily> {
        let mut families: Vec<EngineFamily> = Vec::new();
        for (engine, asked) in self.engines.iter().filter(|(engine, asked)| engine != asked) {
            match families.iter_mut().find(|family| family.name == *asked) {
                Some(family) => family.members.push(engine.clone()),
                None => families.push(EngineFamily {
                    name: asked.clone(),
                    members: vec![engine.clone()],
                }),
            }
        }
        families
    }
}

impl AnnRun<'_> {
    fn measure(&self, runner: &mut EngineRunner<'_, AnnEngineRun>) -> BenchResult<AskedEngines> {
        let asked = self.open_engines(runner)?;
        let workload = self.job.workload;
        (self.note)("warming up");
        runner.each(0, |session| self.warm_up(session, self.sweep(&asked, session.engine())))?;
        let &AnnWorkload {
            repeats,
            threads,
            least_ms,
            threaded_repeats,
            ..
        } = workload;
        let one_thread =
            (0..repeats).flat_map(|turn| [(turn, SearchPass::Batch(least_ms)), (turn, SearchPass::Single)]);
        let all_threads = (0..threaded_repeats).map(|turn| (turn, SearchPass::Threaded(threads, least_ms)));
        for (turn, pass) in one_thread.chain(all_threads) {
            (self.note)(&match pass {
                SearchPass::Batch(_) => format!("pass {} of {repeats}, batch calls", turn + 1),
                SearchPass::Single => format!("pass {} of {repeats}, single calls", turn + 1),
                SearchPass::Threaded(..) => {
                    format!(
                        "pass {} of {threaded_repeats}, batch calls on {threads} threads",
                        turn + 1
                    )
                }
            });
            let longest = runner
                .sessions
                .iter()
                .map(|session| session.run.points.len())
                .max()
                .unwrap_or(0);
            for at in 0..longest {
                // Another engine begins each pass of a kind, so that none always follows the same one.
                runner.each(turn, |session| self.measure_point(session, at, pass))?;
            }
        }
        runner.each(0, |session| self.measure_memory(session))?;
        Ok(asked)
    }

    /// Opens a session of every engine that was asked for, and says by which names.
    pub(super) fn open_engines(&self, runner: &mut EngineRunner<'_, AnnEngineRun>) -> BenchResult<AskedEngines> {
        let AskedEngines {
            mut engines,
            mut skipped,
        } = AskedEngines::default();
        for name in &self.job.settings.engines {
            match self.members(name) {
                Ok(AnnDetails {
                    variants,
                    skipped: reasons,
                    ..
                }) => {
                    // A family may have no member that runs here.
                    let own = variants.is_empty() && reasons.is_empty();
                    let members = if own { vec![name.clone()] } else { variants };
                    engines.extend(members.into_iter().map(|engine| (engine, name.clone())));
                    for (engine, reason) in reasons {
                        (self.note)(&format!("{engine} skipped: {reason}"));
                        skipped.push((engine, reason));
                    }
                }
                Err(error) => runner.fail(name, error)?,
            }
        }
        let unknown = |name: &&String| !engines.iter().any(|(engine, asked)| engine == *name || asked == *name);
        if let Some(name) = self
            .job
            .swept
            .iter()
            .filter(|name| !runner.has_failed(name))
            .find(unknown)
        {
            let known = engines
                .iter()
                .map(|(engine, _)| engine.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            return Err(BenchError::Refused(format!(
                "--sweep {name}: not among the engines of this run: {known}"
            )));
        }
        for (engine, _) in &engines {
            // A variant may also have been asked for by its own name.
            if runner.sessions.iter().all(|session| session.engine() != engine) {
                runner.admit(engine, self.open(engine))?;
            }
        }
        Ok(AskedEngines { engines, skipped })
    }

    /// Values that the workload or the command gives for an engine: under its name, or else under the one asked for.
    pub(super) fn sweep(&self, asked: &AskedEngines, engine: &str) -> Option<Vec<u32>> {
        let sweep = &self.job.workload.sweep;
        let asked = asked
            .engines
            .iter()
            .find(|(name, _)| name == engine)
            .map(|(_, asked)| asked);
        sweep.get(engine).or_else(|| sweep.get(asked?)).cloned()
    }

    /// The engines that a name stands for, as its worker describes them.
    fn members(&self, name: &str) -> BenchResult<AnnDetails> {
        let mut worker = start_worker(self.job, name, self.job.settings.deadline)?;
        let described: AnnDescription = worker.describe()?;
        worker.quit();
        Ok(described.more)
    }
}
