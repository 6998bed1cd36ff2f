//! Options that every command takes: which model, and where and how it computes.

use std::path::PathBuf;

use clap::Args;

use crate::device::{Compute, Device, Dtype};
use crate::tokenize::Budget;

#[derive(Debug, Clone, Args)]
pub(crate) struct ModelOptions {
    /// Directory of the model: sentence-transformers (also ours), a plain Hugging Face directory, or a pair of them
    #[arg(long, value_name = "DIR")]
    pub(crate) model: PathBuf,
    /// cpu, cuda or cuda:N
    #[arg(long, default_value_t = Device::Cpu)]
    pub(crate) device: Device,
    /// Data type of the computation: f32, bf16, f16, or int8 (CPU: weights and activations of linear maps are rounded)
    #[arg(long, default_value_t = Dtype::F32)]
    pub(crate) dtype: Dtype,
    /// Threads that the model computes on, on the CPU [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Rows times the longest row of a batch at most, or of all batches that a service is at [default: 2048 on the CPU,
    /// 1024 in int8, 65536 on a GPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_tokens: Option<u32>,
}

impl ModelOptions {
    pub(crate) fn compute(&self) -> Compute {
        Compute {
            device: self.device,
            dtype: self.dtype,
            threads: self.threads.map(usize::from),
        }
    }

    pub(crate) fn budget(&self) -> Budget {
        let default = Budget::of(self.device, self.dtype);
        Budget {
            tokens: self.batch_tokens.map_or(default.tokens, |tokens| tokens as usize),
            ..default
        }
    }
}
