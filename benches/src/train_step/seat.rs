//! One engine's part at one shape: its worker and what it has measured so far.

use std::path::Path;
use std::time::Duration;

use super::measured::EngineAtShape;
use super::protocol::{Described, Prepared, Request, Stepped};
use super::workload::{Job, Shape};
use crate::harness::{self, Error, Passes, Result, Worker};

/// An engine with an open model and loaded pairs.
#[derive(Debug)]
pub(super) struct Seat {
    worker: Worker,
    deadline: Duration,
    batches: usize,
    run: EngineAtShape,
}

impl harness::Seat for Seat {
    fn engine(&self) -> &str {
        self.worker.engine()
    }
}

impl Seat {
    /// Opens the model and loads the pairs, which lie at `pairs` as the protocol has them.
    pub(super) fn open(mut worker: Worker, job: &Job<'_>, shape: &Shape, pairs: &Path) -> Result<Self> {
        let (deadline, workload) = (job.deadline, job.workload);
        let described = worker.describe(deadline, |described: &Described| &described.engine)?;
        let open = Request::Open {
            model: workload.model.clone(),
            device: job.device.clone(),
            threads: job.threads,
            learning_rate: workload.learning_rate,
            temperature: workload.temperature,
        };
        let passes = Passes::open(&mut worker, &open, deadline)?;
        let prepare = Request::Prepare { pairs: pairs.to_owned(), batch: shape.batch };
        let prepared: Prepared = worker.ask(&prepare, deadline)?;
        let expected = Prepared { pairs: shape.batch * shape.batches, batches: shape.batches };
        if prepared != expected {
            return Err(worker.unexpected("prepare", format!("{expected:?}"), format!("{prepared:?}")));
        }
        let run = EngineAtShape { described, passes, losses: Vec::new(), tokens: 0, computed_tokens: 0 };
        Ok(Self { worker, deadline, batches: shape.batches, run })
    }

    /// One untimed pass, after which the peak of memory begins anew. Its losses are kept: every engine begins with the same weights.
    pub(super) fn warm_up(&mut self) -> Result<()> {
        let stepped = self.steps()?;
        (self.run.losses, self.run.tokens) = (stepped.losses, stepped.tokens);
        self.run.computed_tokens = stepped.computed_tokens;
        self.worker.memory(true, self.deadline)?;
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
        Err(self.unexpected(format!("{first} tokens, as the first engine"), self.run.tokens.to_string()))
    }

    /// One timed pass.
    pub(super) fn measure(&mut self) -> Result<()> {
        let stepped = self.steps()?;
        self.run.passes.seconds.push(stepped.seconds);
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

    fn steps(&mut self) -> Result<Stepped> {
        let stepped: Stepped = self.worker.ask(&Request::Steps, self.deadline)?;
        self.worker.above_zero("steps", "a time above 0", stepped.seconds)?;
        if stepped.losses.len() != self.batches || !stepped.losses.iter().all(|loss| loss.is_finite()) {
            let expected = format!("{} losses that are numbers", self.batches);
            return Err(self.unexpected(expected, format!("{:?}", stepped.losses)));
        }
        Ok(stepped)
    }

    fn unexpected(&self, expected: String, got: String) -> Error {
        self.worker.unexpected("steps", expected, got)
    }
}
