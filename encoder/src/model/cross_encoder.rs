//! A cross encoder: a transformer that reads a question and an answer together and gives one logit (Nogueira and Cho
//! 2019, "Passage Re-ranking with BERT"; the `BERT_QA` of Wang et al. 2021).

use std::path::Path;
use std::sync::Arc;

use super::batches::BatchRunner;
use super::contents::Contents;
use super::load::OpenMode;
use super::open::{Model, ModelInfo};
use super::prompted::PromptedModel;
use crate::checkpoint::Checkpoint;
use crate::config::{Layout, PromptOptions, ScoreActivation, Tower};
use crate::device::Compute;
use crate::error::Error;
use crate::nn::VectorLength;
use crate::tokenize::{Budget, Tokenizer, Tokens};
use dyad_files::Cancel;

/// An open cross encoder: owned and called by one thread, as a [`Model`].
#[derive(Debug)]
pub struct CrossEncoder {
    /// The network, whose vectors are logits: one value each, not normalised.
    model: Model,
    activation: ScoreActivation,
}

impl CrossEncoder {
    /// Whether a directory holds a cross encoder, by its settings alone.
    pub fn is_at(directory: &Path) -> Result<bool, Error> {
        Ok(Layout::read(directory)?.scores())
    }

    /// Opens the directory of a sentence-transformers `CrossEncoder` of one label: a Hugging Face
    /// `...ForSequenceClassification` of the BERT family, with or without `modules.json`. Refuses one that is not what
    /// its `dyad.json` says.
    ///
    /// Sets the number of operator threads of the calling thread, which should be the one that scores.
    pub fn open(directory: &Path, compute: &Compute) -> Result<Self, Error> {
        Self::open_with(directory, compute, &PromptOptions::default())
    }

    /// As [`Self::open`]; refuses prompts, which a cross encoder has none of.
    pub fn open_with(directory: &Path, compute: &Compute, prompts: &PromptOptions) -> Result<Self, Error> {
        let checkpoint = Checkpoint::read(directory)?;
        let layout = &checkpoint.layout;
        if !layout.scores() {
            return Err(Error::Unsupported {
                path: layout.root.clone(),
                what: "model that scores pairs of texts",
                supported: "a cross encoder (`...ForSequenceClassification` of one label)",
                got: "an encoder of single texts".into(),
            });
        }
        let prompts = layout.prompts_by(prompts)?;
        if let Some(prompt) = Tower::BOTH
            .iter()
            .map(|tower| prompts.of(*tower))
            .find(|prompt| !prompt.is_empty())
        {
            return Err(Error::Unsupported {
                path: layout.root.join("config_sentence_transformers.json"),
                what: "prompt of a cross encoder",
                supported: "none",
                got: prompt.to_owned(),
            });
        }
        let activation = ScoreActivation::read(&layout.root)?;
        let model = Model::open_scoring(&checkpoint, compute, OpenMode::Inference)?;
        model.reproduce_golden_logits()?;
        for remark in checkpoint.layout.remarks() {
            tracing::warn!(model = %directory.display(), "{remark}");
        }
        Ok(Self { model, activation })
    }

    /// Name, fingerprint and sizes; its vectors have one value.
    pub fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    /// Modules and tensors.
    pub fn contents(&self) -> &Contents {
        self.model.contents()
    }

    /// The tokenizer, for other threads: [`Tokenizer::encode_pair`].
    pub fn tokenizer(&self) -> Arc<Tokenizer> {
        self.model.tokenizer()
    }

    /// What the model makes of a logit where a score is asked for.
    pub fn activation(&self) -> ScoreActivation {
        self.activation
    }

    /// The model as far as its prompts decide it, of which it has none.
    pub(crate) fn prompted(&self) -> &PromptedModel {
        self.model.prompted()
    }

    /// What scores pairs of one batch, on other threads too.
    pub(crate) fn runner(&self) -> BatchRunner {
        BatchRunner {
            network: self.model.network.clone(),
            length: VectorLength::Raw,
        }
    }

    /// Logits of tokenized pairs as one batch, in their order.
    pub fn logits(&self, pairs: &[&Tokens]) -> Result<Vec<f32>, Error> {
        self.runner().run(Tower::Answer, 0, pairs)
    }

    /// Logits of any number of tokenized pairs in length-sorted batches, several at a time; none where it was
    /// cancelled, which is polled after each batch.
    pub fn logits_until(
        &self,
        pairs: &[Tokens],
        budget: Budget,
        cancel: &dyn Cancel,
    ) -> Result<Option<Vec<f32>>, Error> {
        self.model
            .embed_until(Tower::Answer, pairs, VectorLength::Raw, budget, cancel)
    }
}
