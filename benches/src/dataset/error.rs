//! What can be wrong with a data set.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Why vectors or neighbours could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Error {
    /// A file is not what its name says, or its values cannot be used.
    #[error("`{}`: {field}: expected {expected}, got {got}", path.display())]
    Malformed { path: PathBuf, field: String, expected: String, got: String },
    /// Generator parameters that make no data.
    #[error("synthetic data: `{field}`: expected {expected}, got {got}")]
    Parameter { field: &'static str, expected: String, got: String },
    /// The work was ended before it was done.
    #[error("cancelled")]
    Cancelled,
    /// Reading or writing failed; the message names the file.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// A result of this module.
pub type Result<T> = std::result::Result<T, Error>;

/// A file that is not as it should be.
pub(super) fn malformed(path: &Path, field: impl Into<String>, expected: impl Display, got: impl Display) -> Error {
    Error::Malformed {
        path: path.to_owned(),
        field: field.into(),
        expected: expected.to_string(),
        got: got.to_string(),
    }
}
