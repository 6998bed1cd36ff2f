//! The question tower: text to vector, in this process or over gRPC.
//!
//! | file | what lives there |
//! |---|---|
//! | `local.rs` | a model in this process (feature `torch`) |
//! | `remote.rs` | an encoder service |

#[cfg(feature = "torch")]
mod local;
mod remote;

use std::time::{Duration, Instant};

use dyad_index::{Metric, ModelRecord};

use crate::error::{Error, Result};

#[cfg(feature = "torch")]
pub use local::LocalOptions;

/// Vectors of questions, and where the time went.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Embedded {
    /// One row of `dim` values per question.
    pub vectors: Vec<f32>,
    /// Waiting behind other requests, microseconds.
    pub queue_us: u64,
    /// Text to tokens, microseconds.
    pub tokenize_us: u64,
    /// Forward pass, or the whole remote call, microseconds.
    pub embed_us: u64,
}

/// Where questions are embedded.
#[derive(Debug, Clone)]
pub enum QuestionTower {
    /// In this process.
    #[cfg(feature = "torch")]
    Local(local::Local),
    /// In an encoder service.
    Remote(Box<remote::Remote>),
}

impl QuestionTower {
    /// Connects to an encoder service.
    pub async fn connect(url: &str) -> Result<Self> {
        Ok(Self::Remote(Box::new(remote::Remote::connect(url).await?)))
    }

    /// Loads a model directory into this process.
    #[cfg(feature = "torch")]
    pub async fn load(model: &std::path::Path, options: LocalOptions) -> Result<Self> {
        Ok(Self::Local(local::Local::load(model, options).await?))
    }

    /// The tower's model.
    pub fn model(&self) -> &ModelRecord {
        match self {
            #[cfg(feature = "torch")]
            Self::Local(tower) => tower.model(),
            Self::Remote(tower) => tower.model(),
        }
    }

    /// Completes when the model's thread has ended, which it does only by a failure.
    pub async fn ended(&self) {
        match self {
            #[cfg(feature = "torch")]
            Self::Local(tower) => tower.ended().await,
            Self::Remote(_) => std::future::pending().await,
        }
    }

    /// Whether the tower answers now.
    pub async fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Embeds questions within a time; gives one finite vector each, of the model's dimension.
    pub async fn embed(&self, questions: Vec<String>, time: Duration) -> Result<Embedded> {
        let count = questions.len();
        let deadline = Instant::now() + time;
        let embedding = async {
            match self {
                #[cfg(feature = "torch")]
                Self::Local(tower) => tower.embed(questions, deadline).await,
                Self::Remote(tower) => tower.embed(questions, time).await,
            }
        };
        let embedded = tokio::time::timeout_at(deadline.into(), embedding).await;
        let embedded = embedded.map_err(|_| failed(format!("no vector within {time:?}"), true))??;
        let expected = count * self.model().dim;
        if embedded.vectors.len() != expected || embedded.vectors.iter().any(|value| !value.is_finite()) {
            return Err(failed(format!("expected {expected} finite values, got {}", embedded.vectors.len()), false));
        }
        Ok(embedded)
    }
}

fn failed(reason: impl Into<String>, transient: bool) -> Error {
    Error::Tower { reason: reason.into(), transient }
}

/// A model as the wire describes it.
pub(crate) fn record(model: &dyad_proto::v1::ModelInfo) -> ModelRecord {
    ModelRecord {
        name: model.name.clone(),
        fingerprint: model.fingerprint.clone(),
        dim: model.dim as usize,
        metric: Metric::Cosine,
        max_tokens: model.max_tokens as usize,
    }
}
