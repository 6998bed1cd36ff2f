//! A workload: which model, which pairs in which batches, which engines. Read from TOML; unknown keys are refused.

use std::path::PathBuf;

use serde::Deserialize;

use crate::harness;

/// Some batches, a step with each of which is a pass.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    pub(crate) name: String,
    pub(crate) pairs: PathBuf,
    pub(crate) batch: usize,
    pub(crate) batches: usize,
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
        let Self { name, batch, batches, .. } = self;
        if *batch < 2 || *batches == 0 {
            return Err(format!("`shape.{name}`: expected batches of 2 pairs at least, got {batches} of {batch}"));
        }
        Ok(())
    }
}
