//! One engine's part at one shape: its worker and what it has measured so far.

use std::path::Path;
use std::time::Duration;

use super::measured::EngineAtShape;
use super::protocol::{Described, Memory, Opened, Prepared, Request, Stepped};
use super::workload::{Shape, Workload};
use crate::harness::{Error, Result, Worker};

/// What every engine at a shape is given.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) workload: &'a Workload,
    pub(super) shape: &'a Shape,
    pub(super) device: &'a str,
    pub(super) threads: usize,
    /// As the protocol has them.
    pub(super) pairs_path: &'a Path,
    pub(super) deadline: Duration,
}

/// An engine with an open model and loaded pairs.
#[derive(Debug)]
pub(super) struct Seat {
    worker: Worker,
    deadline: Duration,
    batches: usize,
    run: EngineAtShape,
}

impl Seat {
    /// Opens the model and loads the pairs.
    pub(super) fn open(mut worker: Worker, task: &Task<'_>) -> Result<Self> {
        let (engine, deadline, shape) = (worker.engine().to_owned(), task.deadline, task.shape);
        let described: Described = worker.ask(&Request::Describe, deadline)?;
        if described.engine != engine {
            let (expected, got) = (engine.clone(), described.engine);
            return Err(Error::Reply { engine, op: "describe", expected, got });
        }
        let baseline = worker.ask(&Request::Memory { settle: true }, deadline)?;
        let opened: Opened = worker.ask(
            &Request::Open {
                model: task.workload.model.clone(),
                device: task.device.to_owned(),
                threads: task.threads,
                learning_rate: task.workload.learning_rate,
                temperature: task.workload.temperature,
            },
            deadline,
        )?;
        let prepare = Request::Prepare { pairs: task.pairs_path.to_owned(), batch: shape.batch };
        let prepared: Prepared = worker.ask(&prepare, deadline)?;
        let expected = Prepared { pairs: shape.batch * shape.batches, batches: shape.batches };
        if prepared != expected {
            let (expected, got) = (format!("{expected:?}"), format!("{prepared:?}"));
            return Err(Error::Reply { engine, op: "prepare", expected, got });
        }
        let run = EngineAtShape {
            described,
            open_ms: opened.open_ms,
            seconds: Vec::new(),
            losses: Vec::new(),
            tokens: 0,
            computed_tokens: 0,
            baseline,
            served: baseline,
        };
        Ok(Self { worker, deadline, batches: shape.batches, run })
    }

    pub(super) fn engine(&self) -> &str {
        self.worker.engine()
    }

    /// One untimed pass, after which the peak of memory begins anew. Its losses are kept: every engine begins with the same weights.
    pub(super) fn warm_up(&mut self) -> Result<()> {
        let stepped = self.steps()?;
        (self.run.losses, self.run.tokens) = (stepped.losses, stepped.tokens);
        self.run.computed_tokens = stepped.computed_tokens;
        let _: Memory = self.worker.ask(&Request::Memory { settle: true }, self.deadline)?;
        Ok(())
    }

    /// Real tokens of a pass.
    pub(super) fn tokens(&self) -> u64 {
        self.run.tokens
    }

    /// Refuses other tokens than the first engine's: an engine that cuts texts shorter does less work.
    pub(super) fn compare(&self, first: u64) -> Result<()> {
        if self.run.tokens == first {
            return Ok(());
        }
        Err(self.reply(format!("{first} tokens, as the first engine"), self.run.tokens.to_string()))
    }

    /// One timed pass.
    pub(super) fn measure(&mut self) -> Result<()> {
        let stepped = self.steps()?;
        self.run.seconds.push(stepped.seconds);
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

    fn steps(&mut self) -> Result<Stepped> {
        let stepped: Stepped = self.worker.ask(&Request::Steps, self.deadline)?;
        if !(stepped.seconds.is_finite() && stepped.seconds > 0.0) {
            return Err(self.reply("a time above 0".to_owned(), stepped.seconds.to_string()));
        }
        if stepped.losses.len() != self.batches || !stepped.losses.iter().all(|loss| loss.is_finite()) {
            return Err(
                self.reply(format!("{} losses that are numbers", self.batches), format!("{:?}", stepped.losses))
            );
        }
        Ok(stepped)
    }

    fn reply(&self, expected: String, got: String) -> Error {
        Error::Reply { engine: self.engine().to_owned(), op: "steps", expected, got }
    }
}
