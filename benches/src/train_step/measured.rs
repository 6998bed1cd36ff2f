//! What a run measured.

use serde::Serialize;

use super::protocol::Described;
use super::workload::Workload;
use crate::harness::{Conditions, OURS, Passes, Shaped as _};

/// One engine at one shape.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EngineAtShape {
    /// Itself in words.
    pub described: Described,
    /// One step with every batch.
    #[serde(flatten)]
    pub passes: Passes,
    /// Of each batch in the pass that warmed up: its weights are those of the model, then those that the steps made.
    pub losses: Vec<f64>,
    /// Real tokens of a pass.
    pub tokens: u64,
    /// The same with padding.
    pub computed_tokens: u64,
}

impl EngineAtShape {
    /// Share of padding in what the linear layers saw.
    pub fn padding_share(&self) -> f64 {
        self.computed_tokens.saturating_sub(self.tokens) as f64 / self.computed_tokens.max(1) as f64
    }

    /// The largest difference to another's losses of the same batches, in shares of those.
    pub fn loss_difference(&self, other: &Self) -> f64 {
        let pairs = self.losses.iter().zip(&other.losses);
        pairs.map(|(own, other)| (own - other).abs() / other.abs().max(f64::MIN_POSITIVE)).fold(0.0, f64::max)
    }
}

/// One shape.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShapeRun {
    /// Its name.
    pub name: String,
    /// Pairs of a batch.
    pub batch: usize,
    /// Batches, and so steps, of a pass.
    pub batches: usize,
    /// Real tokens of a pass.
    pub tokens: u64,
    /// Engines that were measured, in the order asked.
    pub engines: Vec<EngineAtShape>,
    /// Engines that failed, and why.
    pub failures: Vec<(String, String)>,
}

impl ShapeRun {
    /// One engine by name.
    pub fn engine(&self, name: &str) -> Option<&EngineAtShape> {
        self.engines.iter().find(|run| run.described.engine == name)
    }

    /// Milliseconds of a step in the median pass.
    pub fn step_ms(&self, run: &EngineAtShape) -> f64 {
        run.passes.median_s() * 1e3 / self.batches.max(1) as f64
    }

    /// Pairs per second of the median pass.
    pub fn pairs_per_s(&self, run: &EngineAtShape) -> f64 {
        (self.batch * self.batches) as f64 / run.passes.median_s()
    }

    /// Time of a step of `ours` over that of a peer: below 1 ours is faster.
    pub fn time_ratio(&self, ours: &str, peer: &str) -> Option<f64> {
        Some(self.engine(ours)?.passes.median_s() / self.engine(peer)?.passes.median_s())
    }

    /// Of an engine to the first one.
    pub fn loss_difference(&self, run: &EngineAtShape) -> f64 {
        self.engines.first().map_or(0.0, |first| run.loss_difference(first))
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// What was measured, where and when.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// In the workload's order.
    pub shapes: Vec<ShapeRun>,
}

impl Measured {
    /// Peers among the engines asked for.
    pub fn peers(&self) -> impl Iterator<Item = &str> {
        self.conditions.asked.iter().map(String::as_str).filter(|name| !Workload::is_ours(name))
    }

    /// Time of our step over a peer's at a shape.
    pub fn time_ratio(shape: &ShapeRun, peer: &str) -> Option<f64> {
        shape.time_ratio(OURS, peer)
    }

    /// Engines that were asked for and failed somewhere, as `engine at shape`.
    pub fn failed(&self) -> Vec<String> {
        self.conditions.failed(self.shapes.iter().map(|shape| (&shape.name, &shape.failures)))
    }
}
