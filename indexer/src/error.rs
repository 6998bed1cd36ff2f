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
    /// A row of another length than the model's dimension.
    #[error("vector of document `{key}` (row {row}): expected {expected} values, got {got}")]
    Dimension {
        /// The document.
        key: String,
        /// Row, from 1.
        row: u64,
        /// The model's dimension.
        expected: usize,
        /// The row's.
        got: usize,
    },
    /// A row with NaN or infinity.
    #[error("vector of document `{key}` (row {row}): value {position} is not a finite number. embed the document again")]
    NonFinite {
        /// The document.
        key: String,
        /// Row, from 1.
        row: u64,
        /// First bad value, from 0.
        position: usize,
    },
    /// A row of zeros has no direction.
    #[error("vector of document `{key}` (row {row}) is zero, so that it has no cosine with anything. embed the document again")]
    ZeroVector {
        /// The document.
        key: String,
        /// Row, from 1.
        row: u64,
    },
    /// A row that is not of unit length.
    #[error("vector of document `{key}` (row {row}) has length {length}, and cosine needs unit vectors. embed with a model that normalizes")]
    NotUnit {
        /// The document.
        key: String,
        /// Row, from 1.
        row: u64,
        /// Its length.
        length: f32,
    },
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
