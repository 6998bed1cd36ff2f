//! `run.json`: what a run began with, so that nothing it has made is handed to a run of other settings.
//!
//! It is written before anything else of a run. A checkpoint has the same record, but the first one may be far away:
//! until then the directory already has the initial model, and negatives that were mined with it.

use std::fmt::Display;
use std::io;
use std::path::Path;

use dyad_files::write_atomic;
use serde::{Deserialize, Serialize};

use super::TrainError;
use super::config::{RunProgress, first_difference};
use super::state::TrainingState;
use crate::model::RUN_RECORD;

/// The form that this release writes and reads.
const FORMAT: u32 = 1;
const FILE: &str = RUN_RECORD;

/// The initial settings and model of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunRecord {
    format: u32,
    /// Settings, as the text of [`super::config::Config::facts`].
    config: String,
    /// Fingerprint of the model that the first step changes; absent until it has been opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
}

impl RunRecord {
    /// The record of a run by these settings in `out`, where `saved` is the last checkpoint; refuses a directory in
    /// which another run has made something that this one would take over.
    ///
    /// Without a checkpoint no step is taken over. The initial model is, and what was mined with it, and each depends
    /// on some of the settings alone: a mistake in the others may be corrected.
    pub(super) fn begin(out: &Path, facts: &str, saved: Option<&TrainingState>) -> Result<Self, TrainError> {
        let (then, model) = match (saved, read(out)?) {
            (Some(state), _) => (Some(state.config.clone()), Some(state.model.clone())),
            (None, Some(record)) => (Some(record.config), record.model),
            (None, None) => (None, None),
        };
        let now = Self {
            format: FORMAT,
            config: facts.to_owned(),
            model,
        };
        let found = if saved.is_some() {
            Some(("checkpoints", RunProgress::Trained))
        } else {
            latest_artifact(out)
        };
        let Some((made, progress)) = found else {
            return Ok(Self { model: None, ..now });
        };
        let Some(then) = then else {
            return Err(TrainError::UnknownRun {
                path: out.to_owned(),
                made,
            });
        };
        if let Some((setting, then, now)) = first_difference(&then, facts, progress) {
            return Err(TrainError::OtherSetting {
                path: out.to_owned(),
                setting,
                then,
                now,
            });
        }
        // The initial model may be made again, and nothing else depends on it yet.
        if progress == RunProgress::Start {
            Ok(Self { model: None, ..now })
        } else {
            Ok(now)
        }
    }

    /// Notes the model that was opened; refuses another one than that which has made what is there.
    pub(super) fn with_model(mut self, out: &Path, model: &str) -> Result<Self, TrainError> {
        match self.model.replace(model.to_owned()) {
            Some(then) if then != model => {
                let (setting, now) = ("fingerprint of the model".to_owned(), model.to_owned());
                Err(TrainError::OtherSetting {
                    path: out.to_owned(),
                    setting,
                    then,
                    now,
                })
            }
            _ => Ok(self),
        }
    }

    /// Writes the file, whole or not at all.
    pub(super) fn write(&self, out: &Path) -> Result<(), TrainError> {
        let text = serde_json::to_string_pretty(self).map_err(io::Error::from)?;
        Ok(write_atomic(&out.join(FILE), text.as_bytes())?)
    }
}

/// The latest artefact in the directory that a run resumes from, by its name.
fn latest_artifact(out: &Path) -> Option<(&'static str, RunProgress)> {
    let has = |name: &&str| out.join(name).exists();
    if let Some(name) = ["final", "best"].into_iter().find(has) {
        return Some((name, RunProgress::Trained));
    }
    if has_mined(out) {
        return Some(("mined", RunProgress::Mined));
    }
    has(&"start").then_some(("start", RunProgress::Start))
}

/// Whether the run has mined negatives for a stage.
fn has_mined(out: &Path) -> bool {
    let entries = fs_err::read_dir(out.join("mined")).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .any(|path| path.extension().is_some_and(|end| end == "jsonl"))
}

fn read(out: &Path) -> Result<Option<RunRecord>, TrainError> {
    let path = out.join(FILE);
    if !path.exists() {
        return Ok(None);
    }
    let record: RunRecord = serde_json::from_slice(&fs_err::read(&path)?).map_err(|error| invalid(&path, &error))?;
    let got = record.format;
    if got == FORMAT {
        Ok(Some(record))
    } else {
        Err(invalid(&path, &format!("format must be {FORMAT}, got: {got}")))
    }
}

fn invalid(path: &Path, reason: &dyn Display) -> TrainError {
    let reason = format!(
        "`{}` is not valid: {reason}. Remove the directory, or name another",
        path.display()
    );
    TrainError::Io(io::Error::new(io::ErrorKind::InvalidData, reason))
}
