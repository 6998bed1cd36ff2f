//! A run's directory: held by one process; in it the bundles that training begins from, the best and the final one.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use super::TrainError;
use super::config::{Config, Weights};
use crate::dual::{Creation, Learned, create_drawn, create_over, create_with};
use crate::error::Error;

/// Makes the directory of a run, and keeps other processes from training there until the file is closed.
pub(super) fn lock(out: &Path) -> Result<File, TrainError> {
    fs_err::create_dir_all(out)?;
    let path = out.join("LOCK");
    let file = fs_err::File::create(&path)?.into_file();
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(TrainError::Locked { path: out.to_owned() }),
        Err(TryLockError::Error(error)) => {
            let reason = format!("locking `{}`: {error}. Put the run on a local disk", path.display());
            Err(std::io::Error::new(error.kind(), reason).into())
        }
    }
}

/// The directory that training begins from: the model itself, or two towers that are made from it once.
pub(super) fn start(config: &Config, out: &Path) -> Result<PathBuf, TrainError> {
    let model = &config.model;
    if model.from.as_os_str().is_empty() {
        let expected = "the directory of a model to begin from".to_owned();
        return Err(TrainError::Setting { setting: "model.from".into(), expected, got: "nothing".into() });
    }
    let Some(sharing) = model.sharing else { return Ok(model.from.clone()) };
    let start = out.join("start");
    if !start.exists() {
        let creation = Creation { sharing, dim: model.dim, seed: config.seed };
        let (from, aggregation) = (&model.from, model.aggregation());
        match (model.weights, model.new_encoder()) {
            (Weights::Drawn, encoder) => create_drawn(from, &start, &creation, encoder, aggregation)?,
            (Weights::Pretrained, Some(encoder)) => create_over(from, &start, &creation, encoder, aggregation)?,
            (Weights::Pretrained, None) => create_with(from, &start, &creation, aggregation)?,
        }
    }
    Ok(start)
}

/// Writes the model as it is now to `to`, in the place of what is there; `directory` is what it was opened from. What is at `to`
/// is whole at any time but between two renames, and [`recover`] mends that.
pub(super) fn replace(learned: &Learned, directory: &Path, to: &Path) -> Result<(), Error> {
    let [new, old] = beside(to);
    for leftover in [&new, &old] {
        if leftover.exists() {
            fs_err::remove_dir_all(leftover)?;
        }
    }
    learned.write(directory, &new)?;
    if to.exists() {
        fs_err::rename(to, &old)?;
    }
    fs_err::rename(&new, to)?;
    if old.exists() {
        fs_err::remove_dir_all(&old)?;
    }
    Ok(())
}

/// Finishes what a killed run has left between two renames.
pub(super) fn recover(to: &Path) -> Result<(), Error> {
    let [new, _] = beside(to);
    if !to.exists() && new.exists() {
        fs_err::rename(new, to)?;
    }
    Ok(())
}

fn beside(to: &Path) -> [PathBuf; 2] {
    ["new", "old"].map(|end| {
        let mut name = to.file_name().unwrap_or_default().to_owned();
        name.push(".");
        name.push(end);
        to.with_file_name(name)
    })
}
