//! A workload: which model, which pairs in which batches, which engines. Read from TOML; unknown keys are refused.

use std::path::PathBuf;

use serde::Deserialize;

use crate::harness;

/// Some batches, a step with each of which is a pass.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    pub(crate) name: String,
    pub(crate) pairs: PathBuf,
    pub(crate) batch: usize,
    pub(crate) batches: usize,
    /// Of AdamW; the default is that of sentence-transformers' trainer.
    #[serde(default = "learning_rate")]
    pub(crate) learning_rate: f64,
}

defaults! {
    learning_rate: f64 = 5e-5;
}

impl harness::Shape for Shape {
    const OWN: &'static [&'static str] = &["dyad"];
    const WORKER: &'static str = "train-step-worker";
    const ENGINES: &'static [&'static str] = &["dyad", "sentence-transformers", "sentence-transformers-no-dropout"];
    const REPEATS: usize = 7;
    const FILES: &'static str = "pairs";

    fn name(&self) -> &str {
        &self.name
    }

    fn files(&mut self) -> Vec<&mut PathBuf> {
        vec![&mut self.pairs]
    }

    fn check(&self) -> Result<(), String> {
        let Self { name, batch, batches, learning_rate, .. } = self;
        if !(learning_rate.is_finite() && *learning_rate > 0.0) {
            return Err(format!("`shape.{name}.learning_rate`: expected a number above 0, got {learning_rate}"));
        }
        if *batch < 2 || *batches == 0 {
            return Err(format!("`shape.{name}`: expected batches of 2 pairs at least, got {batches} of {batch}"));
        }
        Ok(())
    }
}
