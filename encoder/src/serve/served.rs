//! The model of a service, of either kind, and what callers need of it.

use std::path::Path;
use std::sync::Arc;

use super::prompts::PromptCache;
use crate::checkpoint::Golden;
use crate::config::{PromptOptions, Tower};
use crate::device::Compute;
use crate::error::Error;
use crate::model::{BatchRunner, CrossEncoder, Model, ModelInfo, ScoreActivation};
use crate::tokenize::Tokenizer;

/// A model of either kind.
#[derive(Debug)]
pub(crate) enum ServedModel {
    DualEncoder(Model),
    CrossEncoder(CrossEncoder),
}

impl ServedModel {
    /// Opens either kind and gives it a first text, so that the first caller does not wait for it.
    pub(super) fn open_warm(directory: &Path, compute: &Compute, prompts: &PromptOptions) -> Result<Self, Error> {
        let served = if CrossEncoder::is_at(directory)? {
            Self::CrossEncoder(CrossEncoder::open_with(directory, compute, prompts)?)
        } else {
            Self::DualEncoder(Model::open_with(directory, compute, prompts)?)
        };
        let text = match &served {
            Self::DualEncoder(model) => model.tokenizer().encode(Tower::Answer, "warm up")?,
            Self::CrossEncoder(model) => model.tokenizer().encode_pair("warm", "up")?,
        };
        served.runner().run(Tower::Answer, 0, &[&text])?;
        Ok(served)
    }

    /// What makes one row for each text: its vector, or the logit of the pair.
    pub(super) fn runner(&self) -> BatchRunner {
        match self {
            Self::DualEncoder(model) => model.runner(),
            Self::CrossEncoder(model) => model.runner(),
        }
    }

    /// What callers need of it.
    pub(super) fn opened(&self) -> OpenedModel {
        match self {
            Self::DualEncoder(model) => OpenedModel {
                info: model.info().clone(),
                prompts: Arc::new(PromptCache::new(model.prompted().clone())),
                golden: model.golden().to_vec(),
                activation: ScoreActivation::Identity,
                means: [Tower::Question, Tower::Answer].map(|tower| model.pools_means(tower)),
            },
            Self::CrossEncoder(model) => OpenedModel {
                info: model.info().clone(),
                prompts: Arc::new(PromptCache::new(model.prompted().clone())),
                golden: Vec::new(),
                activation: model.activation(),
                means: [false; 2],
            },
        }
    }
}

/// What callers need of an open model.
#[derive(Debug)]
pub(super) struct OpenedModel {
    pub(super) info: ModelInfo,
    /// How it makes tokens of texts, with its own prompts and with those of requests.
    pub(super) prompts: Arc<PromptCache>,
    /// Vectors that the model must give.
    pub(super) golden: Vec<Golden>,
    pub(super) activation: ScoreActivation,
    /// Of the question tower and of the answer tower, whether a vector is the mean of token vectors.
    means: [bool; 2],
}

impl OpenedModel {
    /// With the model's own prompts.
    pub(super) fn tokenizer(&self) -> &Tokenizer {
        self.prompts.own().tokenizer()
    }

    /// Whether the vectors of a tower are means of token vectors, of which passages have some.
    pub(super) fn pools_means(&self, tower: Tower) -> bool {
        self.means[tower.index()]
    }
}
