//! What harness and workers say to each other: one JSON object per line, one reply per request.
//!
//! A worker holds one engine and serves one shape. It reads requests from stdin, answers on stdout and may write anything to
//! stderr. A request that fails is answered by `{"error": "..."}`, and the worker lives on.
//!
//! | op | reply |
//! |---|---|
//! | `describe` | [`Described`] |
//! | `open` | [`Opened`]: the model, ready to embed |
//! | `prepare` | [`Prepared`]: loads the texts, as many JSON strings as lines |
//! | `tune` | [`Tuned`]: tries the engine's own settings on some of the texts and keeps the best |
//! | `encode` | [`Encoded`]: all texts in one call, text in and f32 vectors out; with `out` they are written after the clock stops |
//! | `memory` | [`Memory`]; with `settle` freed memory is given back first and the peak begins anew |
//! | `matmul` | [`Multiplied`]: one engine only, the machine's limit |
//! | `quit` | `{}` or the end of the process |

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::harness;
pub use crate::harness::{Memory, Opened};

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
        /// For what an engine makes of a model and keeps.
        cache: PathBuf,
    },
    /// Load the texts.
    Prepare {
        /// One JSON string per line.
        texts: PathBuf,
    },
    /// Find the engine's best settings for these texts.
    Tune,
    /// Embed all texts.
    Encode {
        /// `.npy` float32 `[n, d]`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        out: Option<PathBuf>,
    },
    /// How much memory the worker has and had.
    Memory {
        /// Give back what is free, and begin a new peak.
        settle: bool,
    },
    /// Multiply two large matrices.
    Matmul {
        /// `f32` or `bf16`.
        dtype: String,
        /// `cpu`, `cuda` or `cuda:N`.
        device: String,
        /// Threads that compute.
        threads: usize,
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
            Self::Tune => "tune",
            Self::Encode { .. } => "encode",
            Self::Memory { .. } => "memory",
            Self::Matmul { .. } => "matmul",
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
    /// Number type of its products, which names the limit that it is compared with: `f32`, `bf16`, `int8`.
    pub dtype: String,
    /// How it is called, for the record.
    pub settings: String,
}

/// Loaded texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// How many.
    pub texts: usize,
}

/// Chosen settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuned {
    /// In words; empty where there is nothing to choose.
    pub settings: String,
}

/// Embedded texts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Encoded {
    /// Wall time from texts to vectors.
    pub seconds: f64,
    /// Tokens of all texts, special tokens counted, padding not; where the engine knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Tokens that the linear layers saw, padding counted; where the engine knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed_tokens: Option<u64>,
}

/// A product of two large square matrices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Multiplied {
    /// Of the fastest of several.
    pub gflops: f64,
}
