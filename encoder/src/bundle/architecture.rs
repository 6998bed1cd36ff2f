//! `config.json` of the BERT family: the sizes that the network is built by.

use std::path::Path;

use serde_json::{Value, json};

use super::json::JsonFile;
use crate::error::Error;

/// What lies between the two matrices of a feed-forward block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HiddenActivation {
    /// Exact: x * Phi(x) (Hendrycks and Gimpel 2016).
    Gelu,
    /// Its tanh approximation.
    GeluTanh,
    Relu,
}

/// Sizes and constants of a BERT encoder (Devlin et al. 2019).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BertConfig {
    pub(crate) model_type: String,
    pub(crate) vocab_size: usize,
    pub(crate) hidden_size: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) intermediate_size: usize,
    pub(crate) position_rows: usize,
    pub(crate) type_rows: usize,
    pub(crate) layer_norm_eps: f64,
    pub(crate) activation: HiddenActivation,
    /// Row of the position table that the first token uses: 0 in BERT, padding id + 1 in the `roberta` family.
    pub(crate) first_position: usize,
}

impl BertConfig {
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let file = JsonFile::open(path, "Fetch the whole model directory again")?;
        let model_type = file.text("model_type")?.unwrap_or("bert");
        let first_position = match model_type {
            "bert" => 0,
            "roberta" | "xlm-roberta" | "camembert" => file.count("pad_token_id")?.unwrap_or(1).saturating_add(1),
            other => {
                let supported = "`bert`, `roberta`, `xlm-roberta` and `camembert`";
                return Err(file.unsupported("model type", supported, other));
            }
        };
        let activation = match file.text("hidden_act")?.unwrap_or("gelu") {
            "gelu" => HiddenActivation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" => HiddenActivation::GeluTanh,
            "relu" => HiddenActivation::Relu,
            other => return Err(file.unsupported("hidden activation", "`gelu`, `gelu_new` and `relu`", other)),
        };
        let positions = file.text("position_embedding_type")?.unwrap_or("absolute");
        if positions != "absolute" {
            return Err(file.unsupported("position embedding", "`absolute`", positions));
        }
        let config = Self {
            model_type: model_type.to_owned(),
            vocab_size: file.positive("vocab_size")?,
            hidden_size: file.positive("hidden_size")?,
            layers: file.positive("num_hidden_layers")?,
            heads: file.positive("num_attention_heads")?,
            intermediate_size: file.positive("intermediate_size")?,
            position_rows: file.positive("max_position_embeddings")?,
            type_rows: file.count("type_vocab_size")?.unwrap_or(2),
            layer_norm_eps: file.number("layer_norm_eps")?.unwrap_or(1e-12),
            activation,
            first_position,
        };
        if !config.hidden_size.is_multiple_of(config.heads) {
            return Err(file.wrong("num_attention_heads", "a divisor of `hidden_size`"));
        }
        if config.position_rows <= first_position {
            return Err(file.wrong("max_position_embeddings", "larger than the first position"));
        }
        Ok(config)
    }

    /// Longest input that the position table has rows for.
    pub(crate) fn max_positions(&self) -> usize {
        self.position_rows - self.first_position
    }

    pub(crate) fn fact(&self) -> Value {
        json!({
            "model_type": self.model_type,
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "intermediate_size": self.intermediate_size,
            "max_position_embeddings": self.position_rows,
            "type_vocab_size": self.type_rows,
            "layer_norm_eps": self.layer_norm_eps,
            "hidden_act": match self.activation {
                HiddenActivation::Gelu => "gelu",
                HiddenActivation::GeluTanh => "gelu_tanh",
                HiddenActivation::Relu => "relu",
            },
            "first_position": self.first_position,
        })
    }
}
