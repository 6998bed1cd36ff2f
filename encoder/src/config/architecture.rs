//! `config.json`: which transformer, and the sizes that it is built by.

use serde_json::Value;

use super::TensorSpec;
use super::bert::BertConfig;
use super::head::HeadMapConfig;
use super::json::JsonFile;
use super::recurrent::RecurrentConfig;
use super::rotary::{RotaryConfig, RotaryFamily};
use super::static_model::StaticConfig;
use super::t5::T5Config;
use crate::error::Error;

/// The longest input that a model may ask for.
pub(super) const LONGEST_INPUT: usize = 32_768;

/// A transformer and its sizes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Architecture {
    Bert(BertConfig),
    T5(T5Config),
    Rotary(RotaryConfig),
    Recurrent(RecurrentConfig),
    Static(StaticConfig),
}

impl Architecture {
    /// From the content of a `config.json`.
    pub(crate) fn from_json(file: &JsonFile) -> Result<Self, Error> {
        let model_type = file.text("model_type")?.unwrap_or("bert");
        if let Some(family) = RotaryFamily::of(model_type) {
            return RotaryConfig::read(file, family).map(Self::Rotary);
        }
        match model_type {
            "t5" => T5Config::read(file).map(Self::T5),
            RecurrentConfig::MODEL_TYPE => RecurrentConfig::read(file).map(Self::Recurrent),
            _ => BertConfig::read(file).map(Self::Bert),
        }
    }

    /// The tensors that an encoder of it takes, by name and shape.
    pub(crate) fn tensors(&self) -> Box<dyn Iterator<Item = TensorSpec> + '_> {
        match self {
            Self::Bert(config) => Box::new(config.tensors()),
            Self::T5(config) => Box::new(config.tensors()),
            Self::Rotary(config) => Box::new(config.tensors()),
            Self::Recurrent(config) => Box::new(config.tensors()),
            Self::Static(config) => Box::new(config.tensors()),
        }
    }

    /// Name of the table of token vectors.
    pub(crate) fn token_table(&self) -> &'static str {
        match self {
            Self::Bert(_) => "embeddings.word_embeddings.weight",
            Self::T5(_) => "shared.weight",
            Self::Rotary(config) => config.token_table(),
            Self::Recurrent(_) => RecurrentConfig::TABLE,
            Self::Static(config) => config.table(),
        }
    }

    /// Rows of the token table.
    pub(crate) fn vocab_size(&self) -> usize {
        match self {
            Self::Bert(config) => config.vocab_size,
            Self::T5(config) => config.vocab_size,
            Self::Rotary(config) => config.vocab_size,
            Self::Recurrent(config) => config.vocab_size,
            Self::Static(config) => config.vocab_size,
        }
    }

    /// Values of a row of the token table.
    pub(crate) fn table_width(&self) -> usize {
        match self {
            Self::Recurrent(config) => config.embedding_size,
            _ => self.hidden_size(),
        }
    }

    /// Values of a token vector that comes out.
    pub(crate) fn hidden_size(&self) -> usize {
        match self {
            Self::Bert(config) => config.hidden_size,
            Self::T5(config) => config.d_model,
            Self::Rotary(config) => config.hidden_size,
            Self::Recurrent(config) => config.output_size(),
            Self::Static(config) => config.hidden_size,
        }
    }

    /// Heads of attention, where their scores have biases by relative position.
    pub(crate) fn biased_heads(&self) -> Option<usize> {
        match self {
            Self::Bert(config) => config.relative_buckets.map(|_| config.heads),
            Self::T5(config) => Some(config.heads),
            Self::Rotary(_) | Self::Recurrent(_) | Self::Static(_) => None,
        }
    }

    /// Longest input that there are positions for.
    pub(crate) fn max_positions(&self) -> usize {
        match self {
            Self::Bert(config) => config.max_positions(),
            Self::Rotary(config) => config.max_positions,
            Self::T5(_) | Self::Recurrent(_) => usize::MAX,
            // A sum of rows has no positions: what any model may ask for.
            Self::Static(_) => LONGEST_INPUT,
        }
    }

    /// Values after a projection in the transformer's own file, as DPR may have it.
    pub(crate) fn projection(&self) -> Option<usize> {
        match self {
            Self::Bert(config) => config.projection,
            Self::T5(_) | Self::Rotary(_) | Self::Recurrent(_) | Self::Static(_) => None,
        }
    }

    /// The maps after the pooling that are in the transformer's own file, by the names of their tensors: DPR's
    /// projection, or the head of a cross encoder.
    pub(crate) fn head(&self) -> Vec<HeadMapConfig> {
        match self {
            Self::Bert(config) => config.head(),
            Self::Rotary(config) => config.head(),
            Self::T5(_) | Self::Recurrent(_) | Self::Static(_) => Vec::new(),
        }
    }

    /// Whether the head of a cross encoder reads the mean of the token vectors, and not the first.
    pub(super) fn scores_means(&self) -> bool {
        matches!(self, Self::Rotary(config) if config.score_head.as_ref().is_some_and(|head| head.reads_mean))
    }

    /// Whether it ends in the head of a cross encoder.
    pub(crate) fn scores(&self) -> bool {
        match self {
            Self::Bert(config) => config.scores,
            Self::Rotary(config) => config.scores,
            Self::T5(_) | Self::Recurrent(_) | Self::Static(_) => false,
        }
    }

    /// Whether it reads pairs of texts, and tells them apart by the types of their tokens.
    pub(crate) fn has_types(&self) -> bool {
        matches!(self, Self::Bert(config) if config.scores && config.type_rows > 1)
    }

    /// The same with the head of a cross encoder; nothing where none is known.
    pub(crate) fn with_score(self) -> Option<Self> {
        match self {
            Self::Bert(config) if config.model_type != "dpr" => Some(Self::Bert(BertConfig { scores: true, ..config })),
            Self::Rotary(config) if config.score_head.is_some() => {
                Some(Self::Rotary(RotaryConfig { scores: true, ..config }))
            }
            _ => None,
        }
    }

    /// Whether half precision overflows: the activations of T5 and Gemma exceed f16's range (both were trained in
    /// bfloat16).
    pub(crate) fn refuses_f16(&self) -> bool {
        match self {
            Self::T5(_) => true,
            Self::Rotary(config) => config.family.refuses_f16(),
            Self::Bert(_) | Self::Recurrent(_) | Self::Static(_) => false,
        }
    }

    /// The name that the architecture gives to a stored tensor: checkpoints with a task head carry a prefix, DPR's two,
    /// and those converted from TensorFlow call scale and shift gamma and beta.
    pub(crate) fn tensor_name(&self, stored: &str) -> String {
        if let Self::Rotary(config) = self {
            let prefix = config.prefixes().iter().find_map(|prefix| stored.strip_prefix(prefix));
            return prefix.unwrap_or(stored).to_owned();
        }
        let Self::Bert(_) = self else {
            return if stored == "encoder.embed_tokens.weight" {
                "shared.weight".into()
            } else {
                stored.into()
            };
        };
        let dpr = ["question_encoder.", "ctx_encoder."]
            .iter()
            .find_map(|prefix| stored.strip_prefix(prefix));
        let stored = dpr.map_or(stored, |name| name.strip_prefix("bert_model.").unwrap_or(name));
        let prefixes = ["bert.", "roberta.", "distilbert.", "mpnet."];
        let name = prefixes
            .iter()
            .find_map(|prefix| stored.strip_prefix(prefix))
            .unwrap_or(stored);
        let renamed = name.strip_suffix(".gamma").map(|stem| (stem, "weight"));
        match renamed.or(name.strip_suffix(".beta").map(|stem| (stem, "bias"))) {
            Some((stem, part)) => format!("{stem}.{part}"),
            None => name.to_owned(),
        }
    }

    /// Tensors that a checkpoint may hold and an encoder does not use: position counters, the pooler, task heads, a
    /// decoder.
    pub(crate) fn is_unused(name: &str) -> bool {
        name == "embeddings.position_ids"
            || name == "embeddings.token_type_ids"
            || [
                "pooler.",
                "cls.",
                "lm_head.",
                "vocab_transform.",
                "vocab_layer_norm.",
                "vocab_projector.",
                "decoder.",
                "head.",
            ]
            .iter()
            .any(|prefix| name.starts_with(prefix))
            || name.ends_with("rotary_emb.inv_freq")
    }

    /// For the fingerprint.
    pub(crate) fn fact(&self) -> Value {
        match self {
            Self::Bert(config) => config.fact(),
            Self::T5(config) => config.fact(),
            Self::Rotary(config) => config.fact(),
            Self::Recurrent(config) => config.fact(),
            Self::Static(config) => config.fact(),
        }
    }
}
