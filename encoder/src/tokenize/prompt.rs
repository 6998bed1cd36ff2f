//! The prompt before a text, and its number of tokens.

/// A tower's prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// Put before every text as it is, without a space.
    pub(crate) text: String,
    /// Tokens of the prompt alone with the leading special tokens and without the trailing one: what a pooling that
    /// leaves the prompt out skips, as sentence-transformers counts it. 0 where the prompt is empty.
    pub(crate) tokens: usize,
}
