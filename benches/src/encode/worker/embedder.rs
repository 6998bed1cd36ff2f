//! What an opened model can do.

/// An opened model.
pub(super) trait Embedder {
    /// Embeds all texts: their vectors, and what is known of the tokens.
    fn embed(&self, texts: &[String]) -> anyhow::Result<Embedded>;
}

/// Embedded texts.
#[derive(Debug)]
pub(super) struct Embedded {
    pub(super) vectors: Vec<f32>,
    pub(super) dim: usize,
    pub(super) tokens: u64,
    /// With padding; where it is known.
    pub(super) computed_tokens: Option<u64>,
}
