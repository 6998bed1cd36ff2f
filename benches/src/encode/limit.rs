//! What the machine can do: a large matrix product with the same threads, between the passes of the engines.

use std::collections::BTreeMap;
use std::time::Duration;

use super::protocol::{Multiplied, Request};
use crate::harness::{Result, Worker};

/// The peers' engine that multiplies, and embeds nothing.
pub(super) const LIMIT: &str = "matmul";

/// Its worker.
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
        let gflops = self.worker.above_zero("matmul", "GFLOP/s above 0", multiplied.gflops)?;
        self.gflops.entry(dtype.to_owned()).or_default().push(gflops);
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
