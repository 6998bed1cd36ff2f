//! What can go wrong while an index is made: one variant per fix, each naming what to change.

/// Failure of making, inspecting or verifying an index. The index on disk is unchanged whenever one is returned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A build parameter outside of its limits.
    #[error("`{name}` must be between {low} and {high}: {got}")]
    Parameter {
        /// The parameter's name on the command line.
        name: &'static str,
        /// Smallest value taken.
        low: usize,
        /// Largest value taken.
        high: usize,
        /// The value given.
        got: usize,
    },
    /// The job was cancelled from outside.
    #[error("cancelled; the index is unchanged")]
    Cancelled,
    /// More vectors than one shard can hold.
    #[error("a shard holds at most {limit} vectors. build with more `--shards`: {got}")]
    TooManyVectors {
        /// Vectors that one shard can hold.
        limit: usize,
        /// Vectors given.
        got: usize,
    },
    /// There is nothing to build a graph of.
    #[error("there are no vectors to build a graph of")]
    NoVectors,
    /// Worker threads could not be started.
    #[error("cannot start {threads} threads: {source}")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// Why.
        source: rayon::ThreadPoolBuildError,
    },
    /// From the index format.
    #[error(transparent)]
    Index(#[from] dyad_index::Error),
}
