//! A workload: which model, which pairs in which batches, which engines. Read from TOML; unknown keys are refused.

use std::path::PathBuf;

use serde::Deserialize;

use crate::harness::{self, Parts, Shaped};

/// Engines that this binary holds.
pub(crate) const OWN: [&str; 1] = ["dyad"];
/// Engines of a workload that names none.
const ENGINES: [&str; 3] = ["dyad", "sentence-transformers", "sentence-transformers-no-dropout"];

/// What one run measures. `benches/workloads/README.md` says what every key means.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    pub(crate) name: String,
    pub(crate) model: PathBuf,
    #[serde(default = "repeats")]
    pub(crate) repeats: usize,
    #[serde(default)]
    pub(crate) threads: usize,
    #[serde(default = "learning_rate")]
    pub(crate) learning_rate: f64,
    #[serde(default = "temperature")]
    pub(crate) temperature: f64,
    #[serde(default = "engines")]
    pub(crate) engines: Vec<String>,
    #[serde(rename = "shape")]
    pub(crate) shapes: Vec<Shape>,
}

/// Some batches, a step with each of which is a pass.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    pub(crate) name: String,
    pub(crate) pairs: PathBuf,
    pub(crate) batch: usize,
    pub(crate) batches: usize,
}

defaults! {
    repeats: usize = 7;
    learning_rate: f64 = 5e-5;
    temperature: f64 = 0.05;
    engines: Vec<String> = ENGINES.map(str::to_owned).to_vec();
}

impl Shaped for Workload {
    type Shape = Shape;
    const OWN: &'static [&'static str] = &OWN;
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

impl harness::Shape for Shape {
    const FILES: &'static str = "pairs";

    fn name(&self) -> &str {
        &self.name
    }

    fn files(&mut self) -> Vec<&mut PathBuf> {
        vec![&mut self.pairs]
    }

    fn check(&self) -> Result<(), String> {
        let Self { name, batch, batches, .. } = self;
        if *batch < 2 || *batches == 0 {
            return Err(format!("`shape.{name}`: expected batches of 2 pairs at least, got {batches} of {batch}"));
        }
        Ok(())
    }
}
