//! What harness and workers say to each other: one JSON object per line, one reply per request.
//!
//! A worker holds one engine and serves one shape. A request that fails is answered by `{"error": "..."}`, and the worker lives on.
//!
//! | op | reply |
//! |---|---|
//! | `describe` | [`Described`] |
//! | `open` | [`Opened`]: the model and its optimizer, ready to train |
//! | `prepare` | [`Prepared`]: reads the pairs, tokenizes them, makes batches of them in order |
//! | `steps` | [`Stepped`]: one step with each batch; the weights stay as the last step leaves them |
//! | `memory` | [`Memory`]; with `settle` freed memory is given back first and the peak begins anew |
//! | `quit` | `{}` or the end of the process |

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::harness;
pub use crate::harness::{Memory, Opened};

/// A request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Name, version, settings.
    Describe,
    /// Open a model.
    Open {
        /// Its directory.
        model: PathBuf,
        /// `cpu`, `cuda` or `cuda:N`.
        device: String,
        /// Threads that compute and tokenize.
        threads: usize,
        /// Of AdamW; constant.
        learning_rate: f64,
        /// What cosines are divided by.
        temperature: f64,
    },
    /// Load the pairs.
    Prepare {
        /// One JSON array of question and answer per line.
        pairs: PathBuf,
        /// Pairs of a batch.
        batch: usize,
    },
    /// One step with each batch.
    Steps,
    /// How much memory the worker has and had.
    Memory {
        /// Give back what is free, and begin a new peak.
        settle: bool,
    },
    /// End.
    Quit,
}

impl harness::Request for Request {
    fn op(&self) -> &'static str {
        match self {
            Self::Describe => "describe",
            Self::Open { .. } => "open",
            Self::Prepare { .. } => "prepare",
            Self::Steps => "steps",
            Self::Memory { .. } => "memory",
            Self::Quit => "quit",
        }
    }
}

/// An engine, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// Its name.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// How it is called, for the record.
    pub settings: String,
}

/// Loaded pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// How many.
    pub pairs: usize,
    /// Batches of them.
    pub batches: usize,
}

/// Steps taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stepped {
    /// Wall time from token ids to new weights, of all steps.
    pub seconds: f64,
    /// Of each batch, before its step.
    pub losses: Vec<f64>,
    /// Tokens of all questions and answers, special tokens counted, padding not.
    pub tokens: u64,
    /// The same with padding.
    pub computed_tokens: u64,
}
