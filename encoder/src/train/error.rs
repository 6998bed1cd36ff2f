//! Why a run cannot begin, go on or save.

use std::io;
use std::path::PathBuf;

use dyad_files::LockError;

use crate::data::DataError;
use crate::error::Error;

/// Failure of training or evaluation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A file of settings that cannot be.
    #[error("`{}`: {reason}. `dyad-encoder train --print-config` prints every setting", path.display())]
    Config {
        /// The file of settings.
        path: PathBuf,
        /// The key, and what is wrong with it.
        reason: String,
    },
    /// A setting that only the data or the model show to be wrong.
    #[error("setting `{setting}` must be {expected}, got: {got}")]
    Setting {
        /// Path of the setting.
        setting: String,
        /// Values that are accepted.
        expected: String,
        /// The value that was given.
        got: String,
    },
    /// Batches that teach nothing.
    #[error(
        "stage `{stage}`: in none of its first {batches} batches has a question a negative: all answers of a batch are the same text (but for case and space), or answer every question of it. The loss would stay 0. Give examples negatives (`dyad-encoder mine`), or other answers"
    )]
    NothingToLearn {
        /// Name of the stage.
        stage: String,
        /// Batches that were looked at.
        batches: u64,
    },
    /// Examples cannot be read, or make no batch.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The model or libtorch.
    #[error(transparent)]
    Model(#[from] Error),
    /// A file that cannot be read or written; the message carries its path.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A checkpoint that is damaged or of something else.
    #[error("checkpoint `{}`: {reason}", path.display())]
    Checkpoint {
        /// Folder of the checkpoint.
        path: PathBuf,
        /// The mismatch, and the fix.
        reason: String,
    },
    /// A run that began under other settings.
    #[error(
        "`{}` contains a run with `{setting}` = {then}, now it is {now}. Resume with the old settings, or name another directory", path.display()
    )]
    OtherSetting {
        /// Directory of the run.
        path: PathBuf,
        /// Path of the setting.
        setting: String,
        /// The value of the setting in the run.
        then: String,
        /// The value of the setting now.
        now: String,
    },
    /// A directory with the output of a run whose settings are not known.
    #[error(
        "`{}` contains `{made}` of a run whose settings are not known (there is no `run.json`, and no checkpoint). Remove the directory, or name another", path.display()
    )]
    UnknownRun {
        /// Directory of the run.
        path: PathBuf,
        /// An artefact of that run.
        made: &'static str,
    },
    /// The run's directory is a file.
    #[error("`{}` is a file, a directory is needed. Name another with `--out`", path.display())]
    NoDirectory {
        /// The path that was given as the run's directory.
        path: PathBuf,
    },
    /// No BEIR folder where one was named.
    #[error("no BEIR folder at `{}`: expected corpus.jsonl, queries.jsonl and qrels/{split}.tsv (plain, .gz or .zst)", path.display())]
    NoFolder {
        /// The folder that was given.
        path: PathBuf,
        /// The split that was given.
        split: String,
    },
    /// Another process trains in the directory.
    #[error("another run writes to the directory: {0}, or name another directory")]
    Locked(LockError),
    /// A checkpoint cannot be written.
    #[error("cannot write checkpoint `{}`: {source}. Earlier checkpoints are intact; free some space and run again", path.display())]
    Save {
        /// Folder of the checkpoint.
        path: PathBuf,
        /// The message of the operating system.
        source: io::Error,
    },
    /// An evaluation cannot be made.
    #[error("evaluation over `{}`: {reason}", path.display())]
    Evaluation {
        /// The BEIR folder that is evaluated over.
        path: PathBuf,
        /// Why the evaluation cannot be made.
        reason: String,
    },
    /// A signal came.
    #[error("interrupted at step {step}. Run again to resume there")]
    Interrupted {
        /// Steps that are saved.
        step: u64,
    },
}

impl From<dyad_corpus::Error> for TrainError {
    fn from(error: dyad_corpus::Error) -> Self {
        Self::Data(DataError::Source(error))
    }
}
