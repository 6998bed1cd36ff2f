//! A question tower in this process: the encoder crate's model thread.

use std::path::Path;
use std::time::Instant;

use dyad_encoder::serve::{EncodeError, EncodeOptions, Handle, Options};
use dyad_encoder::{Compute, Tower};
use dyad_index::{Metric, ModelRecord};

use super::{Embedded, failed};
use crate::error::Result;

/// Where and how a model directory computes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalOptions {
    /// `cpu` or `cuda:N`.
    pub device: String,
    /// `f32`, `bf16` or `f16`.
    pub dtype: String,
    /// Threads of one operator; 0 uses every core.
    pub threads: usize,
}

/// A model on a thread of its own.
#[derive(Debug, Clone)]
pub struct Local {
    handle: Handle,
    model: ModelRecord,
}

impl Local {
    pub(super) async fn load(model: &Path, options: LocalOptions) -> Result<Self> {
        let compute = Compute {
            device: options.device.parse().map_err(|reason: String| failed(reason, false))?,
            dtype: options.dtype.parse().map_err(|reason: String| failed(reason, false))?,
            threads: (options.threads > 0).then_some(options.threads),
        };
        let directory = model.to_owned();
        let started = tokio::task::spawn_blocking(move || Handle::start(&directory, Options::new(compute))).await;
        let handle = started
            .map_err(|error| failed(error.to_string(), false))?
            .map_err(|error| failed(error.to_string(), false))?;
        let info = handle.info();
        let model = ModelRecord {
            name: info.name.clone(),
            fingerprint: info.fingerprint.clone(),
            dim: info.dim,
            metric: Metric::Cosine,
            max_tokens: info.max_tokens,
        };
        Ok(Self { handle, model })
    }

    pub(super) fn model(&self) -> &ModelRecord {
        &self.model
    }

    pub(super) async fn ended(&self) {
        self.handle.ended().await;
    }

    pub(super) async fn embed(&self, questions: Vec<String>, deadline: Instant) -> Result<Embedded> {
        let options = EncodeOptions::until(deadline);
        let encoded = self.handle.encode(Tower::Question, questions, options).await.map_err(|error| {
            // A full queue passes; a model that failed or stopped does not.
            let transient = matches!(error, EncodeError::QueueFull { .. } | EncodeError::Deadline { .. });
            failed(error.to_string(), transient)
        })?;
        Ok(Embedded {
            vectors: encoded.vectors,
            queue_us: encoded.queue_us,
            tokenize_us: encoded.tokenize_us,
            embed_us: encoded.embed_us,
        })
    }
}
