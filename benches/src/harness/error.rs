//! What can go wrong in a measurement.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use dyad_command::Cancellation;

use crate::dataset;

/// Why a run, or an engine's part in it, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Error {
    /// A workload, a record, a plot or another file that cannot be used; the problem says what would be right.
    #[error("`{}`: {problem}", .path.display())]
    File { path: PathBuf, problem: String },
    /// An engine's worker could not be started, was late, ended, refused, or answered what the protocol does not allow.
    #[error("{engine}: {problem}")]
    Engine { engine: String, problem: String },
    /// A flag names an engine that is not measured.
    #[error("{flag} {name}: not among the engines of this run: {known}")]
    NotInRun { flag: &'static str, name: String, known: String },
    /// Another run uses the work directory.
    #[error("`{}` is in use by process {holder}: wait for it to end, or give another folder with --cache", .path.display())]
    CacheInUse { path: PathBuf, holder: String },
    /// Ctrl-C or SIGTERM.
    #[error("interrupted")]
    Interrupted,
    /// The data.
    #[error(transparent)]
    Data(dataset::Error),
    /// Reading or writing failed; the message names the file.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// A result of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<dataset::Error> for Error {
    fn from(error: dataset::Error) -> Self {
        if matches!(error, dataset::Error::Cancelled) { Self::Interrupted } else { Self::Data(error) }
    }
}

impl Error {
    /// A file that cannot be used.
    pub(crate) fn file(path: &Path, problem: impl Display) -> Self {
        Self::File { path: path.to_owned(), problem: problem.to_string() }
    }

    /// A record of an earlier run that cannot be used.
    pub(crate) fn kept(path: &Path, problem: impl Display) -> Self {
        Self::file(path, format!("{problem}. Delete it, and it will be made again"))
    }
}

/// Refuses to go on with a run that was cancelled.
pub(crate) fn check(cancel: &Cancellation) -> Result<()> {
    if cancel.is_cancelled() { Err(Error::Interrupted) } else { Ok(()) }
}
