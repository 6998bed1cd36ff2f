//! Why a model cannot be probed.

use crate::error::Error;

/// Failure to look at a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The examples cannot be read.
    #[error(transparent)]
    Source(#[from] dyad_corpus::Error),
    /// The model cannot be run.
    #[error(transparent)]
    Model(#[from] Error),
    /// Too little to look at.
    #[error("a probe needs {least} different questions with different answers at least, got: {got}. Name more data")]
    TooFew {
        /// Fewest.
        least: usize,
        /// The number of pairs that there are.
        got: usize,
    },
    /// The operating system gave no thread.
    #[error("cannot start thread `dyad-tsne`: {source}")]
    Thread {
        /// The message of the operating system.
        source: rayon::ThreadPoolBuildError,
    },
}
