//! What can go wrong in a measurement.

use std::path::PathBuf;

use dyad_command::Cancellation;

use crate::dataset;

/// Why a run, or an engine's part in it, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A workload that cannot be used.
    #[error("`{}`: {problem}", path.display())]
    Workload {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// An engine is to be built anew that is not measured.
    #[error("--rebuild {name}: not among the engines of this run: {known}")]
    Rebuild {
        /// The name.
        name: String,
        /// The names that would do.
        known: String,
    },
    /// A sweep is given for an engine that is not measured.
    #[error("--sweep {name}: not among the engines of this run: {known}")]
    Sweep {
        /// The name.
        name: String,
        /// The names that would do.
        known: String,
    },
    /// Another run uses the work directory.
    #[error("`{}` is in use by process {holder}: wait for it to end, or give another folder with --cache", path.display())]
    CacheInUse {
        /// The work directory.
        path: PathBuf,
        /// Process id as found in the lock file, or `unknown`.
        holder: String,
    },
    /// A worker could not be started.
    #[error("{engine}: cannot start `{program}`: {source}. {hint}")]
    Start {
        /// The engine.
        engine: String,
        /// What was to be run.
        program: String,
        /// Why not.
        source: std::io::Error,
        /// The fix.
        hint: &'static str,
    },
    /// A worker did not answer in time and was killed.
    #[error("{engine}: no answer to `{op}` within {seconds} s; the worker was killed{stderr}")]
    Deadline {
        /// The engine.
        engine: String,
        /// What was asked.
        op: &'static str,
        /// The deadline.
        seconds: u64,
        /// The last lines that it wrote to stderr.
        stderr: String,
    },
    /// A worker ended without an answer.
    #[error("{engine}: the worker ended during `{op}` ({status}){stderr}")]
    Ended {
        /// The engine.
        engine: String,
        /// What was asked.
        op: &'static str,
        /// Its exit status.
        status: String,
        /// The last lines that it wrote to stderr.
        stderr: String,
    },
    /// A worker answered that it cannot.
    #[error("{engine}: `{op}`: {message}")]
    Refused {
        /// The engine.
        engine: String,
        /// What was asked.
        op: &'static str,
        /// Its words.
        message: String,
    },
    /// A worker answered what the protocol does not know.
    #[error("{engine}: reply to `{op}`: expected {expected}, got {got}")]
    Reply {
        /// The engine.
        engine: String,
        /// What was asked.
        op: &'static str,
        /// What the protocol says.
        expected: String,
        /// What came.
        got: String,
    },
    /// A record in the work directory that cannot be read.
    #[error("`{}`: {problem}. Delete it, and it will be made again", path.display())]
    Cache {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A plot or a result file that could not be made.
    #[error("`{}`: {problem}", path.display())]
    Plot {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Ctrl-C or SIGTERM.
    #[error("interrupted")]
    Interrupted,
    /// The data.
    #[error(transparent)]
    Data(#[from] dataset::Error),
    /// Reading or writing failed; the message names the file.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// A result of this module.
pub type Result<T> = std::result::Result<T, Error>;

/// Refuses to go on with a run that was cancelled.
pub(crate) fn check(cancel: &Cancellation) -> Result<()> {
    if cancel.is_cancelled() { Err(Error::Interrupted) } else { Ok(()) }
}
