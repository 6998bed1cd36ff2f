//! Opens a checkpoint to be trained: all of its weights, or adapters next to them.

use std::path::Path;

use super::adapters::AdapterInit;
use super::load::OpenMode;
use super::open::Model;
use crate::checkpoint::Checkpoint;
use crate::device::Compute;
use crate::error::Error;
use crate::nn::LoraSettings;

impl Model {
    /// Opens the same directories to be trained; without `dyad.json` nothing is frozen.
    ///
    /// With bf16 tensors are kept in f32, and products are in bfloat16 (mixed precision).
    pub fn open_for_training(directory: &Path, compute: &Compute) -> Result<Self, Error> {
        Self::open_checked(&Checkpoint::read(directory)?, compute, OpenMode::Training)
    }

    /// Opens a dual encoder, or a cross encoder, to be trained by adapters (LoRA, Hu et al. 2022), whose initial values
    /// are those of `seed`: of its transformers nothing else learns. [`Self::write`] merges them.
    pub fn open_for_adapters(
        directory: &Path,
        compute: &Compute,
        settings: &LoraSettings,
        seed: u64,
    ) -> Result<Self, Error> {
        let checkpoint = Checkpoint::read(directory)?;
        let adapters = AdapterInit { settings, seed };
        let model = Self::load(&checkpoint, compute, OpenMode::Training, Some(&adapters))?;
        model.check_manifest(&checkpoint)?;
        Ok(model)
    }

    /// Opens a cross encoder to be trained, as [`Self::open_for_training`] does a dual encoder.
    #[cfg(feature = "train")]
    pub(crate) fn open_cross_encoder_for_training(directory: &Path, compute: &Compute) -> Result<Self, Error> {
        Self::open_scoring(&Checkpoint::read(directory)?, compute, OpenMode::Training)
    }
}
