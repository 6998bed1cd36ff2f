//! Our encoder as an engine: the public [`Model`], text in and vectors out. All that the harness knows of it is here.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use dyad_encoder::tokenize::{Budget, Tokenizer, Tokens};
use dyad_encoder::{Compute, Device, Dtype, Model, Tower};
use rayon::prelude::*;

use super::embedder::{Embedded, Embedder};

/// Like peers' `encode_document`.
const TOWER: Tower = Tower::Answer;

/// An open model.
#[derive(Debug)]
pub(super) struct Dyad {
    encoder: Model,
    tokenizer: Arc<Tokenizer>,
    budget: Budget,
}

impl Dyad {
    /// Opens a model; a device or number type that the encoder does not know is refused in its own words.
    pub(super) fn open(model: &Path, device: &str, dtype: &str, threads: usize) -> anyhow::Result<Self> {
        let device: Device = device.parse().map_err(|refusal: String| anyhow!(refusal))?;
        let dtype: Dtype = dtype.parse().map_err(|refusal: String| anyhow!(refusal))?;
        let encoder = Model::open(model, &Compute { device, dtype, threads: Some(threads) })?;
        Ok(Self { tokenizer: encoder.tokenizer(), encoder, budget: Budget::of(device, dtype) })
    }
}

impl Embedder for Dyad {
    fn embed(&self, texts: &[String]) -> anyhow::Result<Embedded> {
        // The tokenizer alone is shared: the encoder belongs to one thread.
        let tokenizer = &*self.tokenizer;
        let tokens: Result<Vec<Tokens>, dyad_encoder::Error> =
            texts.par_iter().map(|text| tokenizer.encode(TOWER, text)).collect();
        let tokens = tokens.context("tokenizing")?;
        let vectors = self.encoder.embed_all(TOWER, &tokens, self.budget)?;
        Ok(Embedded {
            vectors,
            dim: self.encoder.info().dim,
            tokens: tokens.iter().map(|text| text.ids.len() as u64).sum(),
            // Tokens are packed: nothing is padded.
            computed_tokens: Some(tokens.iter().map(|text| text.ids.len() as u64).sum()),
        })
    }
}
