//! What a run measured.

use serde::Serialize;

use super::engines::{OURS, is_ours};
use super::protocol::{Described, Memory};
use crate::harness::{Machine, Stamp, median};

/// One engine at one shape.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EngineAtShape {
    /// Itself in words.
    pub described: Described,
    /// Milliseconds from files to ready to train.
    pub open_ms: f64,
    /// Seconds of each pass, one step with every batch.
    pub seconds: Vec<f64>,
    /// Of each batch in the pass that warmed up: its weights are those of the model, then those that the steps made.
    pub losses: Vec<f64>,
    /// Real tokens of a pass.
    pub tokens: u64,
    /// The same with padding.
    pub computed_tokens: u64,
    /// Before `open`, libraries loaded.
    pub baseline: Memory,
    /// After the timed passes; its peak is that of these passes alone.
    pub served: Memory,
}

impl EngineAtShape {
    /// Seconds of the median pass.
    pub fn median_s(&self) -> f64 {
        median(&self.seconds).unwrap_or(f64::NAN)
    }

    /// Peak memory of the passes less what the process had before `open`.
    pub fn peak_bytes(&self) -> u64 {
        self.served.peak_bytes.saturating_sub(self.baseline.rss_bytes)
    }

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
        run.median_s() * 1e3 / self.batches.max(1) as f64
    }

    /// Pairs per second of the median pass.
    pub fn pairs_per_s(&self, run: &EngineAtShape) -> f64 {
        (self.batch * self.batches) as f64 / run.median_s()
    }

    /// Time of a step of `ours` over that of a peer: below 1 ours is faster.
    pub fn time_ratio(&self, ours: &str, peer: &str) -> Option<f64> {
        Some(self.engine(ours)?.median_s() / self.engine(peer)?.median_s())
    }

    /// Of an engine to the first one.
    pub fn loss_difference(&self, run: &EngineAtShape) -> f64 {
        self.engines.first().map_or(0.0, |first| run.loss_difference(first))
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// The workload's name.
    pub workload: String,
    /// The model directory's name.
    pub model: String,
    /// Where the engines computed.
    pub device: String,
    /// Threads of every engine.
    pub threads: usize,
    /// Timed passes.
    pub repeats: usize,
    /// Engines asked for.
    pub asked: Vec<String>,
    /// In the workload's order.
    pub shapes: Vec<ShapeRun>,
    /// Where.
    pub machine: Machine,
    /// When, and of which source.
    pub stamp: Stamp,
}

impl Measured {
    /// Peers among the engines asked for.
    pub fn peers(&self) -> impl Iterator<Item = &str> {
        self.asked.iter().map(String::as_str).filter(|name| !is_ours(name))
    }

    /// Time of our step over a peer's at a shape.
    pub fn time_ratio(shape: &ShapeRun, peer: &str) -> Option<f64> {
        shape.time_ratio(OURS, peer)
    }

    /// Engines that were asked for and failed somewhere, as `engine at shape`.
    pub fn failed(&self) -> Vec<String> {
        let names = |shape: &ShapeRun| {
            shape.failures.iter().map(|(engine, _)| format!("{engine} at {}", shape.name)).collect::<Vec<_>>()
        };
        self.shapes.iter().flat_map(names).collect()
    }
}
