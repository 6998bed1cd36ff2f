//! The tensors of a bundle as training takes them: each once, by name, with or without a gradient.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tch::Tensor;

use super::sharing::Sharing;
use super::states::States;
use crate::bundle::{Layout, Manifest, Module, Partial, Parts, renew};
use crate::device::Compute;
use crate::error::{Error, torch};
use crate::tokenize::{Batch, Budget, Tokenizer, Tokens};
use crate::tower::{Many, Network, Tower, VectorLength};

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

impl Parameter {
    /// The same tensor once more, not a copy of it.
    #[must_use]
    pub fn shallow_clone(&self) -> Self {
        Self { name: self.name.clone(), tensor: self.tensor.shallow_clone(), frozen: self.frozen }
    }
}

/// Two towers that learn: what they share is one tensor, and a step changes both.
#[derive(Debug)]
pub struct Learned {
    network: Network,
    tokenizer: Arc<Tokenizer>,
    parameters: Vec<Parameter>,
    sharing: Option<Sharing>,
    token_sizes: [usize; 2],
    fingerprint: String,
    lanes: usize,
}

impl Learned {
    /// Opens a bundle, or any model that [`crate::Encoder::open`] opens; without `dyad.json` nothing is frozen.
    ///
    /// With [`crate::Dtype::Bf16`] tensors are kept in f32, and products are in bfloat16 (mixed precision).
    pub fn open(directory: &Path, compute: &Compute) -> Result<Self, Error> {
        compute.prepare()?;
        let (layout, manifest) = (Layout::read(directory)?, Manifest::read(directory)?);
        let mut parts = Parts::load(&layout, compute, manifest.as_ref(), true)?;
        let fingerprint = parts.fingerprint(&layout);
        if let Some(manifest) = &manifest {
            manifest.agrees(directory, &fingerprint)?;
        }
        let parameters = std::mem::take(&mut parts.parameters);
        let token_sizes = parts.token_sizes(&layout);
        let (network, tokenizer) = parts.network(&layout, compute)?;
        let sharing = manifest.and_then(|manifest| manifest.sharing);
        let (tokenizer, lanes) = (Arc::new(tokenizer), compute.lanes());
        Ok(Self { network, tokenizer, parameters, sharing, token_sizes, fingerprint, lanes })
    }

    /// Opens it for its [`Self::states`] alone: only the tensors of transformers learn, and their names begin with `prefix`.
    pub fn open_transformers(directory: &Path, compute: &Compute, prefix: &str) -> Result<Self, Error> {
        let mut learned = Self::open(directory, compute)?;
        let layout = Layout::read(directory)?;
        let transformers = layout.modules.iter().filter(|placed| matches!(placed.module, Module::Transformer(_)));
        let modules: Vec<&str> = transformers.map(|placed| placed.id.as_str()).collect();
        let mut kept = Vec::new();
        for mut parameter in learned.parameters {
            if parameter.name.rsplit_once('/').is_some_and(|(module, _)| modules.contains(&module)) {
                parameter.name.insert_str(0, prefix);
                kept.push(parameter);
            } else {
                let _ = parameter
                    .tensor
                    .f_set_requires_grad(false)
                    .map_err(torch("freezing what follows a transformer"))?;
            }
        }
        learned.parameters = kept;
        Ok(learned)
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

    /// Values of a token vector of a tower.
    pub fn token_size(&self, tower: Tower) -> usize {
        self.token_sizes[usize::from(tower == Tower::Answer)]
    }

    /// Vectors `[texts, dim]` of unit length in f32, in the order of `texts`, on the model's device and with its tape.
    pub fn forward(&self, tower: Tower, texts: &[&Tokens]) -> Result<Tensor, Error> {
        Ok(self.states(tower, texts, VectorLength::Unit)?.into_vectors())
    }

    /// The same with vectors of any length, and with the token vectors that they are made from.
    pub fn states(&self, tower: Tower, texts: &[&Tokens], length: VectorLength) -> Result<States, Error> {
        let batch = Batch::new(texts, self.tokenizer.prompt(tower).tokens);
        let passed = self.network.pass(tower, &batch, length);
        passed.and_then(|passed| States::new(passed, &batch)).map_err(torch("embedding a batch"))
    }

    /// The fingerprint of the model as it was opened: what training began from.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Values of a vector.
    pub fn dim(&self) -> usize {
        self.network.dim()
    }

    /// Embeds any number of texts without a tape, in length-sorted batches: row-major, in the order of `texts`. `go_on` is asked
    /// after each batch; nothing once it says no.
    pub fn embed_all(
        &self,
        tower: Tower,
        texts: &[Tokens],
        length: VectorLength,
        budget: Budget,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<f32>>, Error> {
        let prompt_tokens = self.tokenizer.prompt(tower).tokens;
        let many = Many { tower, prompt_tokens, length, budget, lanes: self.lanes };
        many.embed(&self.network, texts, &mut |_| go_on())
    }

    /// Writes a bundle to `to`, which must not exist: the model in `directory`, which this one was opened from, with the values
    /// that its tensors have now. Weights are f32; ties, and golden vectors of the new values, stand in `dyad.json`.
    pub fn write(&self, directory: &Path, to: &Path) -> Result<(), Error> {
        renew(directory, Partial::beside(to)?, &self.values())
    }

    /// As [`Self::write`], in the place of what is at `to`: a reader finds the one or the other, whole.
    pub fn replace(&self, directory: &Path, to: &Path) -> Result<(), Error> {
        renew(directory, Partial::over(to)?, &self.values())
    }

    fn values(&self) -> BTreeMap<String, Tensor> {
        let named = |parameter: &Parameter| (parameter.name.clone(), parameter.tensor.shallow_clone());
        self.parameters.iter().map(named).collect()
    }
}
