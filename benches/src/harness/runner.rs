//! The engines of a run, and one step for each in turn. An engine that fails leaves; the others go on. Only an
//! interrupt ends the run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use dyad_command::JobCancellation;

use super::process::{WorkerProcess, WorkerPrograms};
use crate::error::{BenchError, BenchResult};

/// Which engines are compared, and how their workers are run.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// Names of the engines, in order.
    pub engines: Vec<String>,
    /// Where the programs of the workers are.
    pub programs: WorkerPrograms,
    /// Folder of scratch files, and of what is made once and kept.
    pub cache: PathBuf,
    /// Time for each answer of a worker.
    pub deadline: Duration,
    /// Ends the run.
    pub cancel: JobCancellation,
}

/// The worker of one engine, and what a run knows of the engine so far.
#[derive(Debug)]
pub struct EngineSession<R> {
    pub(crate) worker: WorkerProcess,
    pub(crate) run: R,
}

impl<R> EngineSession<R> {
    /// The engine's name.
    pub(crate) fn engine(&self) -> &str {
        self.worker.engine()
    }

    /// Ends the worker, and gives what was measured.
    pub(crate) fn close(self) -> R {
        self.worker.quit();
        self.run
    }
}

/// The engines that are still measured, and those that failed.
pub(crate) struct EngineRunner<'a, R> {
    pub(crate) sessions: Vec<EngineSession<R>>,
    failures: Vec<(String, String)>,
    note: &'a dyn Fn(&str),
}

impl<'a, R> EngineRunner<'a, R> {
    /// A runner without engines; `note` hears which of them fail.
    pub(crate) fn new(note: &'a dyn Fn(&str)) -> Self {
        Self {
            sessions: Vec::new(),
            failures: Vec::new(),
            note,
        }
    }

    /// Takes an engine in, or notes why it cannot be.
    pub(crate) fn admit(&mut self, engine: &str, session: BenchResult<EngineSession<R>>) -> BenchResult<()> {
        session
            .map(|session| self.sessions.push(session))
            .or_else(|error| self.fail(engine, error))
    }

    /// Does a step for every engine, beginning with another one each turn, so that none always follows the same one.
    pub(crate) fn each(
        &mut self,
        turn: usize,
        mut step: impl FnMut(&mut EngineSession<R>) -> BenchResult<()>,
    ) -> BenchResult<()> {
        let mut failed = BTreeMap::new();
        let count = self.sessions.len();
        for at in (0..count).map(|position| (position + turn) % count) {
            if let Err(error) = step(&mut self.sessions[at]) {
                failed.insert(at, error);
            }
        }
        for (gone, (at, error)) in failed.into_iter().enumerate() {
            let engine = self.sessions.remove(at - gone).engine().to_owned();
            self.fail(&engine, error)?;
        }
        Ok(())
    }

    /// Notes an engine's failure; an interrupt is nobody's failure and ends the run.
    pub(crate) fn fail(&mut self, engine: &str, error: BenchError) -> BenchResult<()> {
        if matches!(error, BenchError::Interrupted) {
            return Err(error);
        }
        (self.note)(&format!("{engine} failed: {error}"));
        self.failures.push((engine.to_owned(), error.to_string()));
        Ok(())
    }

    /// Whether an engine is among those that failed.
    pub(crate) fn has_failed(&self, engine: &str) -> bool {
        self.failures.iter().any(|(name, _)| name == engine)
    }

    /// Ends all workers: what each engine measured; then names and errors in the order of the failures.
    pub(crate) fn close(self) -> (Vec<R>, Vec<(String, String)>) {
        (
            self.sessions.into_iter().map(EngineSession::close).collect(),
            self.failures,
        )
    }
}
