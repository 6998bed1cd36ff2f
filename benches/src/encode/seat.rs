//! One engine's part at one shape: its worker and what it has measured so far.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::compare::smallest_cosine;
use super::measured::EngineAtShape;
use super::protocol::{Described, Encoded, Prepared, Request, Tuned};
use super::workload::Job;
use crate::dataset::{Matrix, npy};
use crate::harness::{self, Error, Passes, Result, Worker};

/// What every engine at a shape is given.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) model: &'a Path,
    /// One JSON string per line.
    pub(super) texts_path: &'a Path,
    pub(super) texts: usize,
    pub(super) tokens: u64,
    pub(super) scratch: &'a Path,
}

/// An engine with an open model and loaded texts.
#[derive(Debug)]
pub(super) struct Seat {
    worker: Worker,
    deadline: Duration,
    out: PathBuf,
    texts: usize,
    tokens: u64,
    run: EngineAtShape,
}

impl harness::Seat for Seat {
    fn engine(&self) -> &str {
        self.worker.engine()
    }
}

impl Seat {
    /// Opens the model and loads the texts.
    pub(super) fn open(mut worker: Worker, task: &Task<'_>) -> Result<Self> {
        let &Task { job, texts, tokens, .. } = task;
        let deadline = job.deadline;
        let described = worker.describe(deadline, |described: &Described| &described.engine)?;
        let open = Request::Open {
            model: task.model.to_owned(),
            device: job.device.clone(),
            threads: job.threads,
            cache: job.cache.clone(),
        };
        let passes = Passes::open(&mut worker, &open, deadline)?;
        let prepared: Prepared = worker.ask(&Request::Prepare { texts: task.texts_path.to_owned() }, deadline)?;
        if prepared.texts != texts {
            return Err(worker.unexpected("prepare", format!("{texts} texts"), prepared.texts.to_string()));
        }
        let run =
            EngineAtShape { described, tuned: String::new(), passes, computed_tokens: None, smallest_cosine: 1.0 };
        let out = task.scratch.join(format!("{}.npy", worker.engine()));
        Ok(Self { worker, deadline, out, texts, tokens, run })
    }

    /// The number type whose products limit this engine.
    pub(super) fn limited_by(&self) -> &str {
        self.run.limited_by()
    }

    /// Lets the engine choose its settings; then one untimed pass that warms up, after which the peak of memory begins anew.
    pub(super) fn warm_up(&mut self) -> Result<Matrix> {
        let tuned: Tuned = self.worker.ask(&Request::Tune, self.deadline)?;
        self.run.tuned = tuned.settings;
        self.encode(Some(self.out.clone()))?;
        let vectors = npy::read_vectors(&self.out)?;
        fs_err::remove_file(&self.out)?;
        if vectors.len() != self.texts {
            return Err(self.unexpected(format!("{} vectors", self.texts), vectors.len().to_string()));
        }
        self.worker.memory(true, self.deadline)?;
        Ok(vectors)
    }

    /// Holds its vectors beside those of the first engine.
    pub(super) fn compare(&mut self, first: &Matrix, own: &Matrix) -> Result<()> {
        self.run.smallest_cosine = smallest_cosine(first, own)
            .map_err(|expected| self.unexpected(expected, format!("{} vectors of {} values", own.len(), own.dim())))?;
        Ok(())
    }

    /// One timed pass.
    pub(super) fn measure(&mut self) -> Result<()> {
        let encoded = self.encode(None)?;
        self.run.passes.seconds.push(encoded.seconds);
        self.run.computed_tokens = encoded.computed_tokens;
        Ok(())
    }

    /// Reads the memory after all passes.
    pub(super) fn weigh(&mut self) -> Result<()> {
        self.run.passes.served = self.worker.memory(false, self.deadline)?;
        Ok(())
    }

    /// Ends the worker and hands over what it measured.
    pub(super) fn close(self) -> EngineAtShape {
        self.worker.quit();
        self.run
    }

    fn encode(&mut self, out: Option<PathBuf>) -> Result<Encoded> {
        let encoded: Encoded = self.worker.ask(&Request::Encode { out }, self.deadline)?;
        self.worker.above_zero("encode", "a time above 0", encoded.seconds)?;
        // An engine that cuts texts shorter, or reads none of the prompt, does less work.
        if let Some(tokens) = encoded.tokens.filter(|&tokens| tokens != self.tokens) {
            return Err(self.unexpected(format!("{} tokens", self.tokens), tokens.to_string()));
        }
        Ok(encoded)
    }

    fn unexpected(&self, expected: String, got: String) -> Error {
        self.worker.unexpected("encode", expected, got)
    }
}
