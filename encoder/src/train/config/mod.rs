//! Configuration of a training run: one TOML file.
//!
//! | file | what |
//! |---|---|
//! | `default.toml` | every setting with its default, as `dyad-encoder train --print-config` prints it |
//! | `read.rs` | a file to a [`Config`]: stages over the common tables, unknown keys by name |
//! | `check.rs` | what the types allow and training does not |
//! | `model.rs` | the model that training begins from |
//! | `stage.rs` | data, batch, loss, optimizer and length of a stage |
//! | `run.rs` | evaluation, checkpoints, log |
//! | `text.rs` | settings that are words |
//! | `same.rs` | whether a run goes on under the settings it began with |

mod check;
mod model;
mod read;
mod run;
mod same;
mod stage;
#[cfg(test)]
mod tests;
mod text;

pub use model::{EncoderInit, EncoderKind, ModelConfig, PoolingKind, TrainedKind};
pub use read::DEFAULT;
pub use run::{CheckpointConfig, Criterion, EvaluationConfig, LogConfig};
pub(crate) use same::{RunProgress, first_difference};
pub use stage::{
    BatchConfig, ClippingConfig, DataConfig, DistillationConfig, DistillationKind, EndxConfig, LossConfig,
    MatryoshkaConfig, MineConfig, Stage, TrainingConfig,
};

use serde::{Deserialize, Serialize};

use crate::device::{Compute, Device, Dtype};

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Config {
    /// Seed of all that is random.
    pub seed: u64,
    /// Device of the model.
    #[serde(with = "text")]
    pub device: Device,
    /// `F32`, or `Bf16` for mixed precision.
    #[serde(with = "text")]
    pub dtype: Dtype,
    /// Threads of one operator on the CPU; 0 for one per core.
    pub threads: usize,
    /// The model that training begins from.
    pub model: ModelConfig,
    /// At least one.
    pub stages: Vec<Stage>,
    /// Exact search on the way.
    pub evaluation: EvaluationConfig,
    /// Checkpoints.
    pub checkpoints: CheckpointConfig,
    /// Metrics.
    pub log: LogConfig,
}

impl Config {
    /// Device, data type and threads.
    pub fn compute(&self) -> Compute {
        Compute {
            device: self.device,
            dtype: self.dtype,
            threads: (self.threads > 0).then_some(self.threads),
        }
    }
}
