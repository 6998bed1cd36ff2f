//! A run's directory: held by one process; in it the model that training begins from.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_files::{DirLock, LockError};

use super::TrainError;
use super::config::{Config, EncoderInit, TrainedKind};
use crate::model::{CrossEncoder, create_cross_encoder, create_from_scratch, create_over, create_with, is_sealed};
use crate::transform::Creation;

/// Makes the directory of a run, and keeps other processes from training there until the lock is dropped.
pub(super) fn lock(out: &Path) -> Result<DirLock, TrainError> {
    if out.exists() && !out.is_dir() {
        return Err(TrainError::NoDirectory { path: out.to_owned() });
    }
    fs_err::create_dir_all(out)?;
    DirLock::acquire(out, Duration::ZERO).map_err(|error| match error {
        LockError::Io(error) => error.into(),
        held @ LockError::Held { .. } => TrainError::Locked(held),
    })
}

/// The directory that training begins from: the model itself, or two towers or a cross encoder that are made from it
/// once.
pub(super) fn initial_model(config: &Config, out: &Path) -> Result<PathBuf, TrainError> {
    let model = &config.model;
    if model.path.as_os_str().is_empty() {
        let expected = "the directory of a model to begin from".to_owned();
        return Err(TrainError::Setting {
            setting: "model.path".into(),
            expected,
            got: "nothing".into(),
        });
    }
    let as_it_is = match model.kind {
        TrainedKind::DualEncoder => model.sharing.is_none(),
        TrainedKind::CrossEncoder => CrossEncoder::is_at(&model.path)?,
    };
    if as_it_is {
        return Ok(model.path.clone());
    }
    let start = out.join("start");
    // What a power loss has torn is made again.
    if start.exists() && !is_sealed(&start)? {
        fs_err::remove_dir_all(&start)?;
    }
    if start.exists() {
        return Ok(start);
    }
    if let Some(sharing) = model.sharing {
        let creation = Creation {
            sharing,
            dim: model.dim,
            seed: config.seed,
        };
        let (from, aggregation) = (&model.path, model.aggregation());
        match (model.init, model.new_encoder()) {
            (EncoderInit::Random, encoder) => create_from_scratch(from, &start, &creation, encoder, aggregation)?,
            (EncoderInit::Pretrained, Some(encoder)) => create_over(from, &start, &creation, encoder, aggregation)?,
            (EncoderInit::Pretrained, None) => create_with(from, &start, &creation, aggregation)?,
        }
    } else {
        create_cross_encoder(&model.path, &start, config.seed)?;
    }
    Ok(start)
}
