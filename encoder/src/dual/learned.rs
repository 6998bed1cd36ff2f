//! The tensors of a bundle as training takes them: each once, by name, with or without a gradient.

use std::path::Path;
use std::sync::Arc;

use tch::Tensor;

use super::sharing::Sharing;
use crate::bundle::{Layout, Manifest, Parts};
use crate::device::Compute;
use crate::error::{Error, torch};
use crate::tokenize::{Batch, Tokenizer, Tokens};
use crate::tower::{Network, Tower};

/// One tensor of a model.
#[derive(Debug)]
pub struct Parameter {
    /// Module and tensor: `shared_2_Dense/linear.weight`; the module is empty where the model's own folder holds it.
    pub name: String,
    /// The very tensor that the towers compute with.
    pub tensor: Tensor,
    /// Training leaves it as it is.
    pub frozen: bool,
}

/// Two towers that learn: what they share is one tensor, and a step changes both.
#[derive(Debug)]
pub struct Learned {
    network: Network,
    tokenizer: Arc<Tokenizer>,
    parameters: Vec<Parameter>,
    sharing: Option<Sharing>,
}

impl Learned {
    /// Opens a bundle, or any model that [`crate::Encoder::open`] opens; without `dyad.json` nothing is frozen.
    pub fn open(directory: &Path, compute: &Compute) -> Result<Self, Error> {
        compute.prepare()?;
        let (layout, manifest) = (Layout::read(directory)?, Manifest::read(directory)?);
        let mut parts = Parts::load(&layout, compute, manifest.as_ref(), true)?;
        if let Some(manifest) = &manifest {
            manifest.agrees(directory, &parts.fingerprint(&layout))?;
        }
        let parameters = std::mem::take(&mut parts.parameters);
        let (network, tokenizer) = parts.network(&layout, compute)?;
        let sharing = manifest.and_then(|manifest| manifest.sharing);
        Ok(Self { network, tokenizer: Arc::new(tokenizer), parameters, sharing })
    }

    /// Every tensor once, in the order of modules.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// What the towers have in common, where the bundle says so.
    pub fn sharing(&self) -> Option<Sharing> {
        self.sharing
    }

    /// The tokenizer, for other threads.
    pub fn tokenizer(&self) -> Arc<Tokenizer> {
        Arc::clone(&self.tokenizer)
    }

    /// Vectors `[texts, dim]` of unit length in f32, in the order of `texts`, on the model's device and with its tape.
    pub fn forward(&self, tower: Tower, texts: &[&Tokens]) -> Result<Tensor, Error> {
        let batch = Batch::new(texts, self.tokenizer.prompt(tower).tokens);
        let places = batch.places();
        self.network
            .forward(tower, &batch)
            .and_then(|vectors| {
                vectors.f_index_select(0, &Tensor::f_from_slice(&places)?.f_to_device(vectors.device())?)
            })
            .map_err(torch("embedding a batch"))
    }
}
