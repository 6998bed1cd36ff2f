//! Vectors that cannot be indexed. Each message names the document and the fix.

/// A vector that no index can hold.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
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
    #[error(
        "vector of document `{key}` (row {row}): value {position} (from 1) is not a finite number. Embed the document again"
    )]
    NonFinite {
        /// The document.
        key: String,
        /// Row, from 1.
        row: u64,
        /// First bad value, from 1.
        position: usize,
    },
    /// A row of zeros has no direction.
    #[error(
        "vector of document `{key}` (row {row}) is zero, so that its cosine is undefined. Embed the document again"
    )]
    ZeroVector {
        /// The document.
        key: String,
        /// Row, from 1.
        row: u64,
    },
    /// A row that is not of unit length.
    #[error(
        "vector of document `{key}` (row {row}) has length {length:.3}, and cosine needs unit vectors. Embed with a model that normalises"
    )]
    NotUnit {
        /// The document.
        key: String,
        /// Row, from 1.
        row: u64,
        /// Its length.
        length: f32,
    },
    /// A row that overflows when it is stored or compared.
    #[error(
        "vector of document `{key}` (row {row}) has length {length:?}, expected less than {limit:?}: more overflows when vectors are {reason}. Divide \
         all vectors by one number{fix}"
    )]
    TooLong {
        /// The document.
        key: String,
        /// Row, from 1.
        row: u64,
        /// Its length.
        length: f32,
        /// Lengths from which a vector is refused.
        limit: f32,
        /// What overflows.
        reason: &'static str,
        /// Another way out.
        fix: &'static str,
    },
}
