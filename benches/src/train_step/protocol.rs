//! A shape of a workload (unknown keys are refused), and what harness and workers say to each other about steps: one
//! JSON object per line, one reply per request. What all protocols share is in `harness/serve.rs`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::harness;

/// Some batches, a step with each of which is a pass.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainStepShape {
    pub(crate) name: String,
    pub(crate) pairs: PathBuf,
    pub(crate) batch: usize,
    pub(crate) batches: usize,
    /// Learning rate of AdamW; the default is that of sentence-transformers' trainer.
    #[serde(default = "learning_rate")]
    pub(crate) learning_rate: f64,
}

defaults! {
    learning_rate: f64 = 5e-5;
}

impl harness::TaskShape for TrainStepShape {
    const NAME: &'static str = "train-step";
    const OWN: &'static [&'static str] = &["dyad", "dyad-bf16", "dyad-cached"];
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
        let Self {
            name,
            batch,
            batches,
            learning_rate,
            ..
        } = self;
        if !(learning_rate.is_finite() && *learning_rate > 0.0) {
            return Err(format!(
                "`shape.{name}.learning_rate`: expected a number above 0, got {learning_rate}"
            ));
        }
        if *batch < 2 || *batches == 0 {
            return Err(format!(
                "`shape.{name}`: expected batches of 2 pairs at least, got {batches} of {batch}"
            ));
        }
        Ok(())
    }
}

/// A request to a worker, which serves one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum TrainStepRequest {
    /// Open a model and its optimizer, AdamW at a constant rate; cosines are divided by the temperature.
    Open {
        model: PathBuf,
        device: String,
        threads: usize,
        learning_rate: f64,
        temperature: f64,
    },
    /// Read the pairs, one JSON array of question and answer per line, tokenize them, and make batches of them in
    /// order.
    Prepare { pairs: PathBuf, batch: usize },
    /// One step with each batch; the weights stay as the last step leaves them.
    Steps,
}

/// Loaded pairs.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PreparedPairs {
    pub(super) pairs: usize,
    pub(super) batches: usize,
}

/// Steps taken.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SteppedReply {
    /// Wall time from token ids to new weights, of all steps.
    pub(super) seconds: f64,
    /// Loss of each batch before its step.
    pub(super) losses: Vec<f64>,
    /// Tokens of all questions and answers, special tokens counted, padding not.
    pub(super) tokens: u64,
    /// Tokens of all questions and answers, padding counted.
    pub(super) computed_tokens: u64,
}
