//! One engine's part at one shape: its worker and what it has measured so far.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::compare::smallest_cosine;
use super::measured::EngineAtShape;
use super::protocol::{Described, Encoded, Memory, Opened, Prepared, Request, Tuned};
use crate::dataset::{Matrix, npy};
use crate::harness::{Error, Result, Worker};

/// What every engine at a shape is given.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) model: &'a Path,
    pub(super) device: &'a str,
    pub(super) threads: usize,
    pub(super) cache: &'a Path,
    /// One JSON string per line.
    pub(super) texts_path: &'a Path,
    pub(super) texts: usize,
    pub(super) tokens: u64,
    pub(super) scratch: &'a Path,
    pub(super) deadline: Duration,
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

impl Seat {
    /// Opens the model and loads the texts.
    pub(super) fn open(mut worker: Worker, task: &Task<'_>) -> Result<Self> {
        let (engine, deadline) = (worker.engine().to_owned(), task.deadline);
        let described: Described = worker.ask(&Request::Describe, deadline)?;
        if described.engine != engine {
            return Err(Error::Reply {
                engine: engine.clone(),
                op: "describe",
                expected: engine,
                got: described.engine,
            });
        }
        let baseline = worker.ask(&Request::Memory { settle: true }, deadline)?;
        let opened: Opened = worker.ask(
            &Request::Open {
                model: task.model.to_owned(),
                device: task.device.to_owned(),
                threads: task.threads,
                cache: task.cache.to_owned(),
            },
            deadline,
        )?;
        let prepared: Prepared = worker.ask(&Request::Prepare { texts: task.texts_path.to_owned() }, deadline)?;
        if prepared.texts != task.texts {
            let (expected, got) = (format!("{} texts", task.texts), prepared.texts.to_string());
            return Err(Error::Reply { engine, op: "prepare", expected, got });
        }
        let run = EngineAtShape {
            described,
            tuned: String::new(),
            open_ms: opened.open_ms,
            seconds: Vec::new(),
            computed_tokens: None,
            baseline,
            served: baseline,
            smallest_cosine: 1.0,
        };
        let out = task.scratch.join(format!("{engine}.npy"));
        Ok(Self { worker, deadline, out, texts: task.texts, tokens: task.tokens, run })
    }

    pub(super) fn engine(&self) -> &str {
        self.worker.engine()
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
            return Err(self.reply("encode", format!("{} vectors", self.texts), vectors.len().to_string()));
        }
        let _: Memory = self.worker.ask(&Request::Memory { settle: true }, self.deadline)?;
        Ok(vectors)
    }

    /// Holds its vectors beside those of the first engine.
    pub(super) fn compare(&mut self, first: &Matrix, own: &Matrix) -> Result<()> {
        self.run.smallest_cosine = smallest_cosine(first, own).map_err(|expected| {
            self.reply("encode", expected, format!("{} vectors of {} values", own.len(), own.dim()))
        })?;
        Ok(())
    }

    /// One timed pass.
    pub(super) fn measure(&mut self) -> Result<()> {
        let encoded = self.encode(None)?;
        self.run.seconds.push(encoded.seconds);
        self.run.computed_tokens = encoded.computed_tokens;
        Ok(())
    }

    /// Reads the memory after all passes.
    pub(super) fn weigh(&mut self) -> Result<()> {
        self.run.served = self.worker.ask(&Request::Memory { settle: false }, self.deadline)?;
        Ok(())
    }

    /// Ends the worker and hands over what it measured.
    pub(super) fn close(self) -> EngineAtShape {
        self.worker.quit();
        self.run
    }

    fn encode(&mut self, out: Option<PathBuf>) -> Result<Encoded> {
        let encoded: Encoded = self.worker.ask(&Request::Encode { out }, self.deadline)?;
        if !(encoded.seconds.is_finite() && encoded.seconds > 0.0) {
            return Err(self.reply("encode", "a time above 0".to_owned(), encoded.seconds.to_string()));
        }
        // An engine that cuts texts shorter, or reads none of the prompt, does less work.
        if let Some(tokens) = encoded.tokens.filter(|&tokens| tokens != self.tokens) {
            return Err(self.reply("encode", format!("{} tokens", self.tokens), tokens.to_string()));
        }
        Ok(encoded)
    }

    fn reply(&self, op: &'static str, expected: String, got: String) -> Error {
        Error::Reply { engine: self.engine().to_owned(), op, expected, got }
    }
}
