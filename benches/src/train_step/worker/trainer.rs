//! What an opened trainer can do.

/// What a step of training is asked of.
pub(super) trait Trainer {
    /// Tokenizes pairs and keeps them as batches; how many.
    fn prepare(&mut self, pairs: &[(String, String)], batch: usize) -> anyhow::Result<usize>;
    /// One step with each batch.
    fn steps(&mut self) -> anyhow::Result<Steps>;
}

/// What the steps did.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) losses: Vec<f64>,
    /// Nothing is padded.
    pub(super) tokens: u64,
}
