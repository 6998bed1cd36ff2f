//! The prompt before a text, and its number of tokens.

use crate::error::Error;

/// A tower's prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// Put before every text as it is, without a space.
    pub(crate) text: String,
    /// Tokens of the prompt alone with the leading special tokens and without the trailing one: what a pooling that
    /// leaves the prompt out skips, as sentence-transformers counts it. 0 where the prompt is empty.
    pub(crate) tokens: usize,
}

/// Why a text cannot be a prompt of a model.
#[derive(Debug)]
pub(crate) enum PromptError {
    /// It leaves no token of the longest input for the text after it.
    TooLong {
        /// Tokens of the prompt and of what the tokenizer puts around a text.
        tokens: usize,
        /// The longest input.
        limit: usize,
    },
    /// The tokenizer failed.
    Failed(Error),
}
