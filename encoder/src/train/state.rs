//! Checkpoints: everything that a run depends on, whole or not at all.
//!
//! ```text
//! checkpoints/step-00000100/state.json            settings, cursor, counts, best
//!                           tensors.safetensors   what learns, and the optimizer's state
//! ```
//!
//! There is no state of a random generator to keep: what is sampled is a function of the seed and the data's cursor,
//! and the towers have no dropout. A folder is written next to its place, synced and renamed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use dyad_files::AtomicDir;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::TrainError;
use super::tensors;
use crate::data::SamplerState;

/// The form that this release writes and reads.
const FORMAT: u32 = 1;
const STATE: &str = "state.json";
const TENSORS: &str = "tensors.safetensors";
const PREFIX: &str = "step-";

/// The best evaluation so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Best {
    /// Steps of the run before it.
    pub(super) step: u64,
    #[serde(with = "exact")]
    pub(super) value: f64,
}

/// Stored as text: JSON's numbers are not exact to the bit.
mod exact {
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands over a reference to the field"
    )]
    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Position of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct TrainingState {
    pub(super) format: u32,
    /// Settings of the run, as the text of [`super::config::Config::facts`].
    pub(super) config: String,
    /// Fingerprint of the model that it began from.
    pub(super) model: String,
    /// Number of the stage, from 0.
    pub(super) stage: usize,
    /// Steps of the run.
    pub(super) step: u64,
    /// Steps of the stage.
    pub(super) stage_step: u64,
    pub(super) sampler: SamplerState,
    pub(super) best: Option<Best>,
    /// The model that the run began from; absent where nothing is evaluated, and from checkpoints of before it was
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Best>,
    /// Evaluations of the stage since its best.
    pub(super) stale: u64,
    /// Steps of the run at the last evaluation.
    pub(super) evaluated: Option<u64>,
}

impl TrainingState {
    pub(super) fn new(config: String, model: String, sampler: SamplerState) -> Self {
        Self {
            format: FORMAT,
            config,
            model,
            stage: 0,
            step: 0,
            stage_step: 0,
            sampler,
            best: None,
            before: None,
            stale: 0,
            evaluated: None,
        }
    }
}

/// A checkpoint on disk, without its tensors.
#[derive(Debug)]
pub(super) struct SavedCheckpoint {
    /// Folder of the checkpoint.
    pub(super) path: PathBuf,
    pub(super) state: TrainingState,
}

/// The checkpoints of a run.
#[derive(Debug, Clone)]
pub(super) struct Checkpoints {
    folder: PathBuf,
    keep: usize,
}

impl Checkpoints {
    pub(super) fn in_run(out: &Path, keep: usize) -> Self {
        Self {
            folder: out.join("checkpoints"),
            keep: keep.max(1),
        }
    }

    /// The last one; nothing where there is none.
    pub(super) fn last(&self) -> Result<Option<SavedCheckpoint>, TrainError> {
        let Some((_, path)) = self.list()?.pop() else {
            return Ok(None);
        };
        let refuse = |reason: String| TrainError::Checkpoint {
            path: path.clone(),
            reason,
        };
        let state: TrainingState = serde_json::from_slice(&fs_err::read(path.join(STATE))?).map_err(|error| {
            refuse(format!(
                "`{STATE}` is not valid: {error}. Remove the folder to resume from the one before"
            ))
        })?;
        if state.format != FORMAT {
            return Err(refuse(format!("format {FORMAT} is read here, got: {}", state.format)));
        }
        Ok(Some(SavedCheckpoint { path, state }))
    }

    /// The tensors of the checkpoint of the best evaluation, which is kept as long as there is no better one.
    pub(super) fn best_tensors(&self, best: Best) -> Result<(PathBuf, BTreeMap<String, Tensor>), TrainError> {
        let path = self.path_of_step(best.step);
        if !path.is_dir() {
            let reason = "it holds the best weights, which the run is to go on from, and is missing. Put it back, or begin again in \
                          another directory";
            return Err(TrainError::Checkpoint {
                path,
                reason: reason.to_owned(),
            });
        }
        let tensors = Self::read_tensors(&path)?;
        Ok((path, tensors))
    }

    fn path_of_step(&self, step: u64) -> PathBuf {
        self.folder.join(format!("{PREFIX}{step:08}"))
    }

    /// The tensors of a checkpoint.
    pub(super) fn read_tensors(path: &Path) -> Result<BTreeMap<String, Tensor>, TrainError> {
        tensors::read(&path.join(TENSORS)).map_err(|reason| TrainError::Checkpoint {
            path: path.to_owned(),
            reason: format!("{reason}. Remove the folder to resume from the one before"),
        })
    }

    /// Writes a checkpoint, and then removes those that are not to be kept.
    pub(super) fn save(&self, state: &TrainingState, values: &[(String, Tensor)]) -> Result<PathBuf, TrainError> {
        let path = self.path_of_step(state.step);
        let written = write(&self.folder, &path, state, values);
        written.map_err(|source| TrainError::Save {
            path: path.clone(),
            source,
        })?;
        self.retain(state.best.map(|best| best.step))?;
        Ok(path)
    }

    fn retain(&self, best: Option<u64>) -> Result<(), TrainError> {
        let all = self.list()?;
        let old = all.len().saturating_sub(self.keep);
        for (step, path) in all.into_iter().take(old) {
            if Some(step) != best {
                fs_err::remove_dir_all(path)?;
            }
        }
        Ok(())
    }

    /// Whole checkpoints by their steps, the last one last. One that a kill left under the name of what is to be
    /// replaced is put back first.
    fn list(&self) -> Result<Vec<(u64, PathBuf)>, TrainError> {
        let mut found = BTreeMap::new();
        if self.folder.is_dir() {
            for entry in fs_err::read_dir(&self.folder)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                let path = self.folder.join(name.strip_suffix(".old").unwrap_or(&name));
                let step = path
                    .file_name()
                    .and_then(|name| name.to_str()?.strip_prefix(PREFIX)?.parse().ok());
                if let Some(step) = step {
                    AtomicDir::recover(&path)?;
                    found.insert(step, path);
                }
            }
        }
        Ok(found.into_iter().collect())
    }
}

fn write(folder: &Path, path: &Path, state: &TrainingState, values: &[(String, Tensor)]) -> io::Result<()> {
    fs_err::create_dir_all(folder)?;
    let partial = AtomicDir::replace(path)?;
    tensors::write(&partial.path().join(TENSORS), values).map_err(io::Error::other)?;
    serde_json::to_writer_pretty(fs_err::File::create(partial.path().join(STATE))?, state)?;
    partial.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Last, SamplerOptions};

    fn state(step: u64, best: Option<u64>) -> TrainingState {
        let options = SamplerOptions {
            seed: 1,
            batch: 2,
            negatives: 0,
            last: Last::Drop,
        };
        let sampler = SamplerState {
            data: "d".into(),
            options,
            cursor: crate::data::Cursor::default(),
        };
        let best = best.map(|step| Best { step, value: 0.1 + 0.2 });
        TrainingState {
            step,
            best,
            ..TrainingState::new(String::new(), "m".into(), sampler)
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs_err::read_dir(folder.join("checkpoints"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_last_ones_and_the_best_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::in_run(folder.path(), 2);
        assert!(checkpoints.last().unwrap().is_none());
        let values = [("parameter/a".to_owned(), Tensor::from_slice(&[1.0_f32, 2.0]))];
        for step in 1..=5 {
            checkpoints.save(&state(step, Some(2)), &values).unwrap();
        }
        assert_eq!(
            names(folder.path()),
            ["step-00000002", "step-00000004", "step-00000005"]
        );
        let saved = checkpoints.last().unwrap().unwrap();
        assert_eq!(saved.state, state(5, Some(2)), "to the bit of its numbers");
        assert_eq!(
            Checkpoints::read_tensors(&saved.path).unwrap()["parameter/a"],
            values[0].1
        );
    }

    #[test]
    fn a_failed_save_leaves_the_one_before_whole() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::in_run(folder.path(), 1);
        let values = [("parameter/a".to_owned(), Tensor::from_slice(&[1.0_f32, 2.0]))];
        checkpoints.save(&state(1, None), &values).unwrap();
        // A tensor that cannot be stored fails after what was begun.
        let odd = [("parameter/a".to_owned(), Tensor::from(true))];
        let message = checkpoints.save(&state(2, None), &odd).unwrap_err().to_string();
        assert!(
            message.contains("step-00000002") && message.contains("are intact"),
            "{message}"
        );
        assert_eq!(names(folder.path()), ["step-00000001"]);
        assert_eq!(checkpoints.last().unwrap().unwrap().state.step, 1);
        // Killed between the two renames of a file system that cannot exchange directories.
        let checkpoint = folder.path().join("checkpoints/step-00000001");
        fs_err::rename(&checkpoint, checkpoint.with_extension("old")).unwrap();
        assert_eq!(checkpoints.last().unwrap().unwrap().state.step, 1);
        assert_eq!(names(folder.path()), ["step-00000001"]);
        // What a killed run has begun is no checkpoint.
        fs_err::create_dir(folder.path().join("checkpoints/step-00000009.partial")).unwrap();
        assert_eq!(checkpoints.last().unwrap().unwrap().state.step, 1);
        fs_err::write(folder.path().join("checkpoints/step-00000001/state.json"), "{").unwrap();
        assert!(
            checkpoints
                .last()
                .unwrap_err()
                .to_string()
                .contains("`state.json` is not valid")
        );
    }
}
