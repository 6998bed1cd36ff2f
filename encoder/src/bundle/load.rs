//! Opens a model directory: settings, tokenizer, weights, the fingerprint over all of it, and the gate of golden vectors.

use std::path::Path;
use std::sync::Arc;

use super::contents::Contents;
use super::layout::{Layout, Module};
use super::manifest::{Golden, MANIFEST, Manifest};
use super::parts::Parts;
use crate::device::{Compute, Device, Dtype};
use crate::error::Error;
use crate::tokenize::{Batch, Budget, Tokenizer, Tokens};
use crate::tower::{Many, Network, Tower, VectorLength};

/// What a model is, for people, peers and indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The directory's name.
    pub name: String,
    /// SHA-256 in hexadecimal over everything that decides the vectors.
    pub fingerprint: String,
    /// Values per vector.
    pub dim: usize,
    /// Longest input of the answer tower in tokens, special tokens included.
    pub max_tokens: usize,
    /// Longest input of the question tower.
    pub max_question_tokens: usize,
    /// Where the weights lie.
    pub device: Device,
    /// Number type of the computation.
    pub dtype: Dtype,
    /// Whether the model itself ends in a `Normalize` module. Vectors are always of unit length; where this is false, the
    /// length was removed here, as a cosine index needs it.
    pub normalizes: bool,
}

/// An open model: owned and called by one thread (`tch::Tensor` is `Send`, not `Sync`).
#[derive(Debug)]
pub struct Encoder {
    network: Network,
    tokenizer: Arc<Tokenizer>,
    info: ModelInfo,
    golden: Vec<Golden>,
    contents: Contents,
    lanes: usize,
}

impl Encoder {
    /// Opens a sentence-transformers directory in either form, with one tower or a `Router` of two; a plain Hugging Face
    /// directory of the BERT family or T5; or a pair of such directories.
    ///
    /// Sets the number of operator threads of the calling thread, which should be the one that embeds.
    pub fn open(directory: &Path, compute: &Compute) -> Result<Self, Error> {
        let manifest = Manifest::read(directory)?;
        let encoder = Self::open_with(directory, compute, manifest.as_ref())?;
        if let Some(manifest) = manifest {
            manifest.agrees(directory, &encoder.info.fingerprint)?;
            let path = directory.join(MANIFEST);
            if manifest.dim != encoder.info.dim {
                let (expected, got) = (encoder.info.dim.to_string(), manifest.dim.to_string());
                return Err(Error::Field { path, field: "dim", expected, got });
            }
        }
        encoder.reproduce_golden()?;
        Ok(encoder)
    }

    /// Opens with the ties of a manifest, and believes the rest of it.
    pub(super) fn open_with(directory: &Path, compute: &Compute, manifest: Option<&Manifest>) -> Result<Self, Error> {
        compute.prepare()?;
        let layout = Layout::read(directory)?;
        let parts = Parts::load(&layout, compute, manifest, false)?;
        let length = |route: &[usize]| parts.opened(route).map_or(0, |opened| opened.max_tokens);
        let [max_question_tokens, max_tokens] = layout.routes.each_ref().map(|route| length(route));
        let normalizes = layout.truncate_dim.is_none()
            && layout.routes.iter().all(|route| {
                let last = route.last().and_then(|&at| layout.modules.get(at));
                last.is_some_and(|placed| placed.module == Module::Normalize)
            });
        if let Some(similarity) = layout.similarity.as_deref()
            && similarity != "cosine"
            && !normalizes
        {
            tracing::warn!(
                similarity,
                "the model was made for another similarity; here its vectors are normalised and compared by cosine"
            );
        }
        let fingerprint = parts.fingerprint(&layout);
        let contents = parts.contents(&layout, manifest);
        let (network, tokenizer) = parts.network(&layout, compute)?;
        let info = ModelInfo {
            name: name_of(directory),
            fingerprint,
            dim: network.dim(),
            max_tokens,
            max_question_tokens,
            device: compute.device,
            dtype: compute.dtype,
            normalizes,
        };
        let golden = manifest.map(|manifest| manifest.golden.clone()).unwrap_or_default();
        Ok(Self { network, tokenizer: Arc::new(tokenizer), info, golden, contents, lanes: compute.lanes() })
    }

    /// The vectors that this model must give.
    pub(crate) fn expected(&self) -> &[Golden] {
        &self.golden
    }

    /// What the model is made of.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// What was opened.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// The tokenizer, for other threads.
    pub fn tokenizer(&self) -> Arc<Tokenizer> {
        Arc::clone(&self.tokenizer)
    }

    /// Embeds tokenized texts of one tower as one batch: row-major vectors of `info().dim` values, each of unit length.
    pub fn embed(&self, tower: Tower, texts: &[&Tokens]) -> Result<Vec<f32>, Error> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let batch = Batch::new(texts, self.tokenizer.prompt(tower).tokens);
        let vectors = self.network.embed(tower, &batch, VectorLength::Unit)?;
        Ok(batch.in_order_of_texts(&vectors, self.info.dim))
    }

    /// Embeds any number of texts in length-sorted batches, on the CPU side by side; the rows keep the order of `texts`.
    pub fn embed_all(&self, tower: Tower, texts: &[Tokens], budget: Budget) -> Result<Vec<f32>, Error> {
        self.embed_while(tower, texts, budget, |_| true).map(Option::unwrap_or_default)
    }

    /// As [`Encoder::embed_all`], asking `go_on` after each batch with its number of tokens; nothing once it says no.
    pub fn embed_while(
        &self,
        tower: Tower,
        texts: &[Tokens],
        budget: Budget,
        mut go_on: impl FnMut(usize) -> bool,
    ) -> Result<Option<Vec<f32>>, Error> {
        let prompt_tokens = self.tokenizer.prompt(tower).tokens;
        let many = Many { tower, prompt_tokens, length: VectorLength::Unit, budget, lanes: self.lanes };
        many.embed(&self.network, texts, &mut go_on)
    }
}

fn name_of(directory: &Path) -> String {
    let absolute = fs_err::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    absolute.file_name().map_or_else(|| directory.display().to_string(), |name| name.to_string_lossy().into_owned())
}
