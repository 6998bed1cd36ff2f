//! What can go wrong in a measurement.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use dyad_command::JobCancellation;
use dyad_files::npy::NpyError;
use dyad_proto::client::ClientError;

/// Why a run, or an engine's part in it, failed. No figures come out of half a measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum BenchError {
    /// A workload, vectors, a record or another file that cannot be used; the problem says what would be right.
    #[error("`{}`: {problem}", .path.display())]
    File { path: PathBuf, problem: String },
    /// An engine's worker could not be started, was late, ended, refused, or answered what the protocol does not allow.
    #[error("{engine}: {problem}")]
    Engine { engine: String, problem: String },
    /// Flags or parameters that make no run, or a server whose answers cannot be measured.
    #[error("{0}")]
    Refused(String),
    /// Ctrl-C or SIGTERM.
    #[error("interrupted")]
    Interrupted,
    /// Questions, judgements or a run that cannot be read or written.
    #[error(transparent)]
    Corpus(#[from] dyad_corpus::Error),
    /// The server cannot be reached, or refused.
    #[error(transparent)]
    Client(Box<ClientError>),
    /// Reading or writing failed; the message names the file.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// A result of this crate.
pub type BenchResult<T, E = BenchError> = std::result::Result<T, E>;

impl From<NpyError> for BenchError {
    fn from(error: NpyError) -> Self {
        match error {
            NpyError::Malformed {
                path,
                part,
                expected,
                got,
            } => Self::malformed(&path, part, expected, got),
            NpyError::Io(error) => Self::Io(error),
        }
    }
}

impl From<ClientError> for BenchError {
    fn from(error: ClientError) -> Self {
        Self::Client(Box::new(error))
    }
}

impl BenchError {
    /// A file that cannot be used.
    pub(crate) fn file(path: &Path, problem: impl Display) -> Self {
        Self::File {
            path: path.to_owned(),
            problem: problem.to_string(),
        }
    }

    /// A file with a field that is not as it should be.
    pub(crate) fn malformed(path: &Path, field: impl Display, expected: impl Display, got: impl Display) -> Self {
        Self::file(path, format!("{field}: expected {expected}, got {got}"))
    }

    /// A record of an earlier run that cannot be used.
    pub(crate) fn kept(path: &Path, problem: impl Display) -> Self {
        Self::file(path, format!("{problem}. Delete it, and it will be made again"))
    }
}

/// Refuses to go on with a run that was cancelled.
pub(crate) fn check(cancel: &JobCancellation) -> BenchResult<()> {
    if cancel.is_cancelled() {
        Err(BenchError::Interrupted)
    } else {
        Ok(())
    }
}
