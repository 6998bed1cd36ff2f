//! Errors as Python's: `ValueError` for what was given, `FileNotFoundError` and others for files, `KeyboardInterrupt`
//! for what was ended.

use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};

/// What was given is wrong: `field`: expected ..., got ...
pub(crate) fn refused(field: &str, expected: &str, got: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("`{field}`: expected {expected}, got {got}"))
}

/// An error of an index that is opened, searched or read.
pub(crate) fn of_index(error: dyad_index::Error) -> PyErr {
    match error {
        dyad_index::Error::Io(error) => of_files(error),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// An error of a build or a change.
pub(crate) fn of_job(error: dyad_indexer::error::Error) -> PyErr {
    match error {
        dyad_indexer::error::Error::Io(error) => of_files(error),
        dyad_indexer::error::Error::Panicked => PyRuntimeError::new_err(error_text()),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// An error of the system, by which Python chooses its class.
pub(crate) fn of_files(error: std::io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(_) => PyErr::from(error),
        None => PyOSError::new_err(error.to_string()),
    }
}

/// What is said of a thread that has panicked.
pub(crate) fn error_text() -> String {
    "the work has ended by a fault of dyad. Please report it".to_owned()
}
