//! The engines of a run, and one step for each in turn. An engine that fails leaves; the others go on. Only an interrupt ends the
//! run.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// One engine's part in a run.
pub(crate) trait EngineSession {
    /// The engine's name.
    fn engine(&self) -> &str;
}

/// The engines that are still measured, and those that failed.
pub(crate) struct Runner<'a, S> {
    pub(crate) sessions: Vec<S>,
    failures: Vec<(String, String)>,
    note: &'a dyn Fn(&str),
}

impl<'a, S: EngineSession> Runner<'a, S> {
    /// Without engines; `note` hears which of them fail.
    pub(crate) fn new(note: &'a dyn Fn(&str)) -> Self {
        Self { sessions: Vec::new(), failures: Vec::new(), note }
    }

    /// Takes an engine in, or notes why it cannot be.
    pub(crate) fn admit(&mut self, engine: &str, session: Result<S>) -> Result<()> {
        session.map(|session| self.sessions.push(session)).or_else(|error| self.fail(engine, error))
    }

    /// Does a step for every engine, beginning with another one each turn, so that none always follows the same one.
    pub(crate) fn each(&mut self, turn: usize, mut step: impl FnMut(&mut S) -> Result<()>) -> Result<()> {
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
    pub(crate) fn fail(&mut self, engine: &str, error: Error) -> Result<()> {
        if matches!(error, Error::Interrupted) {
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

    /// What each engine measured; then names and errors in the order of the failures.
    pub(crate) fn close<E>(self, close: impl Fn(S) -> E) -> (Vec<E>, Vec<(String, String)>) {
        (self.sessions.into_iter().map(close).collect(), self.failures)
    }
}
