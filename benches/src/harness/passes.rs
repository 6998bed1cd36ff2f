//! What the passes of one engine took.

use std::time::Duration;

use serde::Serialize;

use super::error::Result;
use super::process::{Request, Worker};
use super::replies::{Memory, Opened};
use super::statistics::median;

/// Time and memory of an engine that opens a model and makes passes over its inputs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Passes {
    /// Milliseconds from files to ready.
    pub open_ms: f64,
    /// Seconds of each timed pass.
    pub seconds: Vec<f64>,
    /// Before `open`, libraries loaded.
    pub baseline: Memory,
    /// After the timed passes; its peak is that of these passes alone.
    pub served: Memory,
}

impl Passes {
    /// Has a worker open its model by this request; no pass is made yet.
    pub fn open(worker: &mut Worker, request: &impl Request, deadline: Duration) -> Result<Self> {
        let baseline = worker.memory(true, deadline)?;
        let Opened { open_ms } = worker.ask(request, deadline)?;
        Ok(Self { open_ms, seconds: Vec::new(), baseline, served: baseline })
    }

    /// Seconds of the median pass.
    pub fn median_s(&self) -> f64 {
        median(&self.seconds).unwrap_or(f64::NAN)
    }

    /// Peak memory of the passes less what the process had before `open`.
    pub fn peak_bytes(&self) -> u64 {
        self.served.peak_bytes.saturating_sub(self.baseline.rss_bytes)
    }
}
