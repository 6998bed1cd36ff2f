//! The vectors of a question tower, and its errors.

use crate::error::Error;

/// Vectors of questions, and the time by stage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EmbeddedQuestions {
    /// One row of `dim` values per question.
    pub vectors: Vec<f32>,
    /// Tokens of each question that were read, special tokens included; none where an encoder service does not tell
    /// them.
    pub tokens: Vec<u32>,
    /// Numbers of the questions that were truncated at the model's longest input.
    pub truncated: Vec<u32>,
    /// Waiting in the queue, microseconds.
    pub queue_us: u64,
    /// Tokenization, microseconds.
    pub tokenize_us: u64,
    /// Forward pass, or the whole remote call, microseconds.
    pub embed_us: u64,
}

/// The golden question, which towers embed again and again.
pub(crate) const GOLDEN: &str = "which river is the longest of the world?";

/// Why a model is no question tower.
pub(super) fn is_cross_encoder(name: &str) -> String {
    format!(
        "`{name}` is a cross encoder, which has no vectors. Give it as `--reranker`, and the model of the index here"
    )
}

pub(super) fn failed(reason: impl Into<String>, transient: bool) -> Error {
    Error::Tower {
        reason: reason.into(),
        transient,
    }
}
