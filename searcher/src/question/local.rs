//! A question tower in this process, on the model thread of the encoder crate.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};

use dyad_encoder::serve::{EncodeError, EncodeOptions, Handle, ServedModelOptions};
use dyad_encoder::{Compute, Device, ModelKind, PromptOptions, Tower};
use dyad_index::{Metric, ModelRecord};

use super::embedded::{EmbeddedQuestions, failed, is_cross_encoder};
use crate::error::{Error, Result};

/// Device, data type and threads of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalOptions {
    /// `cpu` or `cuda:N`.
    pub device: String,
    /// `f32`, `bf16`, `f16` or, on the CPU, `int8`.
    pub dtype: String,
    /// Threads that it computes on; 0 uses every core.
    pub threads: usize,
    /// Prompts in place of those of the model's files.
    pub prompts: PromptOptions,
}

impl LocalOptions {
    pub(crate) fn compute(&self) -> std::result::Result<Compute, String> {
        Ok(Compute {
            device: self.device.parse()?,
            dtype: self.dtype.parse()?,
            threads: (self.threads > 0).then_some(self.threads),
        })
    }
}

/// A model on a thread of its own.
#[derive(Debug, Clone)]
pub struct Local {
    handle: Handle,
    model: ModelRecord,
    /// Whether the tower takes all cores of this machine.
    pub(super) takes_all_cores: bool,
}

impl Local {
    pub(super) async fn load(model: &Path, options: LocalOptions) -> Result<Self> {
        let compute = options.compute().map_err(|reason| failed(reason, false))?;
        let directory = model.to_owned();
        let settings = ServedModelOptions {
            prompts: options.prompts,
            ..ServedModelOptions::new(compute)
        };
        let started = tokio::task::spawn_blocking(move || Handle::start(&directory, settings)).await;
        let handle = started
            .map_err(|error| failed(error.to_string(), false))?
            .map_err(|error| failed(error.to_string(), false))?;
        if handle.info().kind == ModelKind::CrossEncoder {
            return Err(failed(is_cross_encoder(&handle.info().name), false));
        }
        Ok(Self::running(handle, &compute))
    }

    /// A model that runs already, with these settings.
    pub(super) fn running(handle: Handle, compute: &Compute) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let info = handle.info();
        let model = ModelRecord {
            name: info.name.clone(),
            fingerprint: info.fingerprint.clone(),
            dim: info.dim,
            full_dim: None,
            metric: Metric::Cosine,
            max_tokens: info.max_tokens,
        };
        Self {
            handle,
            model,
            takes_all_cores: takes_all(compute, cores),
        }
    }

    pub(super) fn model(&self) -> &ModelRecord {
        &self.model
    }

    /// Completes when the model's thread has ended.
    pub(super) async fn ended(&self) {
        self.handle.ended().await;
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.handle.has_ended() {
            Err(stopped(&EncodeError::Stopped))
        } else {
            Ok(())
        }
    }

    pub(super) async fn embed(
        &self,
        questions: Vec<String>,
        deadline: Instant,
        time: Duration,
    ) -> Result<EmbeddedQuestions> {
        let options = EncodeOptions::until(deadline);
        let encoded = self.handle.encode(Tower::Question, questions, options).await;
        let encoded = encoded.map_err(|error| refused(&error, time))?;
        Ok(EmbeddedQuestions {
            vectors: encoded.vectors,
            tokens: encoded.tokens,
            truncated: encoded.truncated,
            queue_us: encoded.queue_us,
            tokenize_us: encoded.tokenize_us,
            embed_us: encoded.embed_us,
        })
    }
}

fn takes_all(compute: &Compute, cores: usize) -> bool {
    compute.device == Device::Cpu && compute.threads.is_none_or(|threads| threads >= cores)
}

/// The error of a call: the tower is busy, late, or has failed.
fn refused(error: &EncodeError, time: Duration) -> Error {
    match error {
        EncodeError::QueueFull { .. } | EncodeError::Overloaded { .. } | EncodeError::TooLarge { .. } => {
            Error::TowerBusy {
                reason: error.to_string(),
                retry_after: error.retry_after(),
            }
        }
        EncodeError::Deadline { .. } => Error::TowerLate(time),
        EncodeError::Stopped => stopped(error),
        _ => failed(error.to_string(), false),
    }
}

/// The model's thread has ended: another searcher may answer, or this one after a restart.
fn stopped(error: &EncodeError) -> Error {
    failed(error.to_string(), true)
}

#[cfg(test)]
mod tests {
    use dyad_proto::pushback::RETRY_PUSHBACK;
    use tonic::{Code, Status};

    use super::*;

    #[test]
    fn busy_late_and_gone_are_three_statuses() {
        let status = |error| Status::from(refused(&error, Duration::from_secs(1)));
        let (wait, left) = (Duration::from_millis(1500), Duration::from_secs(1));
        let busy = status(EncodeError::Overloaded { ahead: 5, wait, left });
        assert!(
            busy.code() == Code::ResourceExhausted && busy.message().contains("Try again in 500 ms"),
            "{busy}"
        );
        assert_eq!(busy.metadata().get(RETRY_PUSHBACK).unwrap(), "500");
        let full = status(EncodeError::QueueFull {
            needed: 1,
            waiting: 2,
            limit: 2,
        });
        assert_eq!(full.code(), Code::ResourceExhausted);
        let late = status(EncodeError::Deadline { waited_ms: 962 });
        assert!(
            late.code() == Code::DeadlineExceeded && late.message().contains("1.0s"),
            "{late}"
        );
        assert_eq!(status(EncodeError::Stopped).code(), Code::Unavailable);
        assert_eq!(status(EncodeError::NoTexts).code(), Code::Internal);
    }

    #[test]
    fn a_tower_with_fewer_threads_or_on_a_gpu_leaves_cores_free() {
        let takes = |device, threads| {
            takes_all(
                &Compute {
                    device,
                    threads,
                    ..Compute::default()
                },
                4,
            )
        };
        assert!(takes(Device::Cpu, None) && takes(Device::Cpu, Some(4)) && takes(Device::Cpu, Some(9)));
        assert!(!takes(Device::Cpu, Some(3)) && !takes(Device::Cuda(0), None));
    }
}
