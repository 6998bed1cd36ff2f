//! What harness and workers say to each other about steps, one JSON object per line, one reply per request; and what is known of a
//! shape and of an engine there. What all protocols share is in `harness/serve.rs`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A request to a worker, which serves one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Request {
    /// Open a model and its optimizer, AdamW at a constant rate; cosines are divided by the temperature.
    Open { model: PathBuf, device: String, threads: usize, learning_rate: f64, temperature: f64 },
    /// Read the pairs, one JSON array of question and answer per line, tokenize them, and make batches of them in order.
    Prepare { pairs: PathBuf, batch: usize },
    /// One step with each batch; the weights stay as the last step leaves them.
    Steps,
}

/// Nothing beyond name, version and settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct More {}

/// Loaded pairs.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Prepared {
    pub(super) pairs: usize,
    pub(super) batches: usize,
}

/// Steps taken.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stepped {
    /// Wall time from token ids to new weights, of all steps.
    pub(super) seconds: f64,
    /// Of each batch, before its step.
    pub(super) losses: Vec<f64>,
    /// Tokens of all questions and answers, special tokens counted, padding not.
    pub(super) tokens: u64,
    /// The same with padding.
    pub(super) computed_tokens: u64,
}

/// An engine at a shape.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Point {
    /// Of each batch in the pass that warmed up: its weights are those of the model, then those that the steps made.
    pub(super) losses: Vec<f64>,
    /// Real tokens of a pass.
    pub(super) tokens: u64,
    /// The same with padding.
    pub(super) computed_tokens: u64,
}

/// Steps of training, at one shape.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrainStep {
    /// Pairs of a batch.
    pub(super) batch: usize,
    /// Batches, and so steps, of a pass.
    pub(super) batches: usize,
    /// Of AdamW.
    pub(super) learning_rate: f64,
    /// Real tokens of a pass, as the first engine counts them.
    pub(super) tokens: Option<u64>,
    pub(super) pairs: PathBuf,
}
