//! A workload: which model, which pairs in which batches, which engines. Read from TOML; unknown keys are refused.

use std::path::PathBuf;

use serde::Deserialize;

use super::worker;
use crate::harness::{self, NamedShape, Parts, Shaped};

/// Engines of a workload that names none.
const ENGINES: [&str; 3] = ["dyad", "sentence-transformers", "sentence-transformers-no-dropout"];

/// A run to be done. Losses are compared with those of the first engine.
pub type Job<'a> = harness::Job<'a, Workload>;

/// What one run measures. `benches/workloads/README.md` says what every key means.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name in records.
    pub name: String,
    /// Directory of the model.
    pub model: PathBuf,
    /// Timed passes.
    #[serde(default = "defaults::repeats")]
    pub repeats: usize,
    /// Threads of every engine; 0: as many as the machine has.
    #[serde(default)]
    pub threads: usize,
    /// Of AdamW; constant.
    #[serde(default = "defaults::learning_rate")]
    pub learning_rate: f64,
    /// What cosines are divided by.
    #[serde(default = "defaults::temperature")]
    pub temperature: f64,
    /// Engines measured where the command names none.
    #[serde(default = "defaults::engines")]
    pub engines: Vec<String>,
    /// Sets of batches.
    #[serde(rename = "shape")]
    pub shapes: Vec<Shape>,
}

/// Some batches, a step with each of which is a pass.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Name in records.
    pub name: String,
    /// Examples of any form that is trained on.
    pub pairs: PathBuf,
    /// Pairs of a batch.
    pub batch: usize,
    /// Batches of a pass.
    pub batches: usize,
}

mod defaults {
    //! Values of keys that a workload does not name.

    pub(super) fn repeats() -> usize {
        7
    }
    pub(super) fn learning_rate() -> f64 {
        5e-5
    }
    pub(super) fn temperature() -> f64 {
        0.05
    }
    pub(super) fn engines() -> Vec<String> {
        super::ENGINES.map(str::to_owned).to_vec()
    }
}

impl Shaped for Workload {
    type Shape = Shape;
    const OWN: &'static [&'static str] = &worker::ENGINES;
    const WORKER: &'static str = "train-step-worker";

    fn parts(&mut self) -> Parts<'_, Shape> {
        let Self { name, model, repeats, threads, engines, shapes, .. } = self;
        Parts { name, model, repeats, threads: *threads, engines, shapes }
    }

    fn check(&self) -> Result<(), String> {
        for (name, value) in [("learning_rate", self.learning_rate), ("temperature", self.temperature)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(format!("`{name}`: expected a number above 0, got {value}"));
            }
        }
        Ok(())
    }
}

impl NamedShape for Shape {
    const FILES: &'static str = "pairs";

    fn name(&self) -> &str {
        &self.name
    }

    fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        std::iter::once(&mut self.pairs)
    }

    fn check(&self) -> Result<(), String> {
        let Self { name, batch, batches, .. } = self;
        if *batch < 2 || *batches == 0 {
            return Err(format!("`shape.{name}`: expected batches of 2 pairs at least, got {batches} of {batch}"));
        }
        Ok(())
    }
}
