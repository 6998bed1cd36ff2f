//! What a question tower gives, and the error where it gives nothing.

use crate::error::Error;

/// Vectors of questions, and where the time went.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Embedded {
    /// One row of `dim` values per question.
    pub vectors: Vec<f32>,
    /// Waiting for other requests, microseconds.
    pub queue_us: u64,
    /// Text to tokens, microseconds.
    pub tokenize_us: u64,
    /// Forward pass, or the whole remote call, microseconds.
    pub embed_us: u64,
}

pub(super) fn failed(reason: impl Into<String>, transient: bool) -> Error {
    Error::Tower { reason: reason.into(), transient }
}
