//! The forward pass of a model: texts to vectors.

use dyad_files::{Cancel, Never};
use tch::Tensor;

use super::batches::{BatchEncoder, BatchRunner, embed_batch};
use super::open::Model;
use crate::config::Tower;
use crate::error::{Error, torch};
use crate::nn::{Output, VectorLength};
use crate::tokenize::{Budget, TokenBatch, Tokens};

impl Model {
    /// Tokenized texts of one tower as one batch, with their tape where something is learned.
    pub fn forward(&self, tower: Tower, texts: &[&Tokens], length: VectorLength) -> Result<Output, Error> {
        let batch = self.batch(tower, texts);
        self.network
            .forward(tower, &batch, length)
            .map_err(torch("embedding a batch"))
    }

    /// Vectors `[texts, dim]` of unit length in f32, in the order of `texts`, on the model's device and with their
    /// tape.
    pub fn vectors(&self, tower: Tower, texts: &[&Tokens]) -> Result<Tensor, Error> {
        Ok(self.forward(tower, texts, VectorLength::Unit)?.into_vectors())
    }

    /// Embeds tokenized texts of one tower as one batch: row-major vectors of `info().dim` values, each of unit length.
    pub fn embed(&self, tower: Tower, texts: &[&Tokens]) -> Result<Vec<f32>, Error> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        embed_batch(
            &self.network,
            tower,
            VectorLength::Unit,
            texts,
            self.prompted.tokenizer().prompt(tower).tokens,
        )
    }

    /// Whether passages can have vectors from their document: where a text's vector is the mean of its token vectors.
    pub fn pools_means(&self, tower: Tower) -> bool {
        self.network.pools_means(tower)
    }

    /// What embeds texts of one batch, on other threads too.
    pub(crate) fn runner(&self) -> BatchRunner {
        BatchRunner {
            network: self.network.clone(),
            length: VectorLength::Unit,
        }
    }

    /// Embeds any number of texts in length-sorted batches, several at a time; the rows keep the order of `texts`.
    pub fn embed_all(&self, tower: Tower, texts: &[Tokens], budget: Budget) -> Result<Vec<f32>, Error> {
        self.embed_until(tower, texts, VectorLength::Unit, budget, &Never)
            .map(Option::unwrap_or_default)
    }

    /// As [`Self::embed_all`] with vectors of any length; none where it was cancelled, which is polled after each
    /// batch.
    pub fn embed_until(
        &self,
        tower: Tower,
        texts: &[Tokens],
        length: VectorLength,
        budget: Budget,
        cancel: &dyn Cancel,
    ) -> Result<Option<Vec<f32>>, Error> {
        self.batch_encoder(tower, length, budget)
            .embed(&self.network, texts, cancel, &mut |_| {})
    }

    /// As [`Self::embed_until`] with vectors of unit length, and calls `done` after each batch with its number of
    /// tokens.
    pub fn embed_with_progress(
        &self,
        tower: Tower,
        texts: &[Tokens],
        budget: Budget,
        cancel: &dyn Cancel,
        done: &mut dyn FnMut(usize),
    ) -> Result<Option<Vec<f32>>, Error> {
        self.batch_encoder(tower, VectorLength::Unit, budget)
            .embed(&self.network, texts, cancel, done)
    }

    fn batch_encoder(&self, tower: Tower, length: VectorLength, budget: Budget) -> BatchEncoder {
        let prompt_tokens = self.prompted.tokenizer().prompt(tower).tokens;
        BatchEncoder {
            tower,
            prompt_tokens,
            length,
            budget,
            workers: self.workers,
        }
    }

    fn batch(&self, tower: Tower, texts: &[&Tokens]) -> TokenBatch {
        TokenBatch::new(texts, self.prompted.tokenizer().prompt(tower).tokens)
    }
}
