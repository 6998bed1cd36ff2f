//! What the machine can do: a large matrix product with the same threads, between the passes of the engines.

use std::collections::BTreeMap;
use std::time::Duration;

use super::protocol::{Multiplied, Request};
use crate::harness::{Error, Result, Worker};

/// The worker that multiplies.
#[derive(Debug)]
pub(super) struct Limit {
    worker: Worker,
    device: String,
    threads: usize,
    deadline: Duration,
    gflops: BTreeMap<String, Vec<f64>>,
}

impl Limit {
    pub(super) fn new(worker: Worker, device: &str, threads: usize, deadline: Duration) -> Self {
        Self { worker, device: device.to_owned(), threads, deadline, gflops: BTreeMap::new() }
    }

    /// One more value of a number type.
    pub(super) fn measure(&mut self, dtype: &str) -> Result<()> {
        let request = Request::Matmul { dtype: dtype.to_owned(), device: self.device.clone(), threads: self.threads };
        let multiplied: Multiplied = self.worker.ask(&request, self.deadline)?;
        if !(multiplied.gflops.is_finite() && multiplied.gflops > 0.0) {
            return Err(Error::Reply {
                engine: self.worker.engine().to_owned(),
                op: "matmul",
                expected: "GFLOP/s above 0".to_owned(),
                got: multiplied.gflops.to_string(),
            });
        }
        self.gflops.entry(dtype.to_owned()).or_default().push(multiplied.gflops);
        Ok(())
    }

    /// What was measured since the last time, per number type.
    pub(super) fn take(&mut self) -> BTreeMap<String, Vec<f64>> {
        std::mem::take(&mut self.gflops)
    }

    pub(super) fn quit(self) {
        self.worker.quit();
    }
}
