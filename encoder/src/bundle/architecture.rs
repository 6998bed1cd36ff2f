//! `config.json`: which transformer, and the sizes that it is built by.

use std::path::Path;

use serde_json::{Value, json};

use super::json::JsonFile;
use super::recurrent::RecurrentConfig;
use crate::error::Error;

const REFETCH: &str = "Fetch the whole model directory again";

/// What lies between the two matrices of a feed-forward block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HiddenActivation {
    /// Exact: x * Phi(x) (Hendrycks and Gimpel 2016).
    Gelu,
    /// Its tanh approximation.
    GeluTanh,
    Relu,
}

impl HiddenActivation {
    fn read(file: &JsonFile, field: &'static str, otherwise: &str) -> Result<Self, Error> {
        match file.text(field)?.unwrap_or(otherwise) {
            "gelu" => Ok(Self::Gelu),
            "gelu_new" | "gelu_pytorch_tanh" => Ok(Self::GeluTanh),
            "relu" => Ok(Self::Relu),
            other => Err(file.unsupported("hidden activation", "`gelu`, `gelu_new` and `relu`", other)),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gelu => "gelu",
            Self::GeluTanh => "gelu_tanh",
            Self::Relu => "relu",
        }
    }
}

/// A transformer and its sizes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Architecture {
    Bert(BertConfig),
    T5(T5Config),
    Recurrent(RecurrentConfig),
}

impl Architecture {
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let file = JsonFile::open(path, REFETCH)?;
        match file.text("model_type")?.unwrap_or("bert") {
            "t5" => T5Config::read(&file).map(Self::T5),
            RecurrentConfig::MODEL_TYPE => RecurrentConfig::read(&file).map(Self::Recurrent),
            _ => BertConfig::read(&file).map(Self::Bert),
        }
    }

    /// Name of the table of token vectors.
    pub(crate) fn token_table(&self) -> &'static str {
        match self {
            Self::Bert(_) => "embeddings.word_embeddings.weight",
            Self::T5(_) => "shared.weight",
            Self::Recurrent(_) => RecurrentConfig::TABLE,
        }
    }

    /// Rows of the token table.
    pub(crate) fn vocab_size(&self) -> usize {
        match self {
            Self::Bert(config) => config.vocab_size,
            Self::T5(config) => config.vocab_size,
            Self::Recurrent(config) => config.vocab_size,
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
            Self::Recurrent(config) => config.output_size(),
        }
    }

    /// Longest input that there are positions for.
    pub(crate) fn max_positions(&self) -> usize {
        match self {
            Self::Bert(config) => config.max_positions(),
            Self::T5(_) | Self::Recurrent(_) => usize::MAX,
        }
    }

    /// Values after a projection in the transformer's own file, as DPR may have it.
    pub(crate) fn projection(&self) -> Option<usize> {
        match self {
            Self::Bert(config) => config.projection,
            Self::T5(_) | Self::Recurrent(_) => None,
        }
    }

    /// Whether half precision overflows: T5's activations exceed f16's range (Raffel et al. trained in bfloat16).
    pub(crate) fn refuses_f16(&self) -> bool {
        matches!(self, Self::T5(_))
    }

    /// The name that the architecture gives to a stored tensor: checkpoints with a task head carry a prefix, DPR's two, and
    /// those converted from TensorFlow call scale and shift gamma and beta.
    pub(crate) fn tensor_name(&self, stored: &str) -> String {
        let Self::Bert(_) = self else {
            return if stored == "encoder.embed_tokens.weight" { "shared.weight".into() } else { stored.into() };
        };
        let dpr = ["question_encoder.", "ctx_encoder."].iter().find_map(|prefix| stored.strip_prefix(prefix));
        let stored = dpr.map_or(stored, |name| name.strip_prefix("bert_model.").unwrap_or(name));
        let prefixes = ["bert.", "roberta.", "distilbert.", "mpnet."];
        let name = prefixes.iter().find_map(|prefix| stored.strip_prefix(prefix)).unwrap_or(stored);
        let renamed = name.strip_suffix(".gamma").map(|stem| (stem, "weight"));
        match renamed.or(name.strip_suffix(".beta").map(|stem| (stem, "bias"))) {
            Some((stem, part)) => format!("{stem}.{part}"),
            None => name.to_owned(),
        }
    }

    /// Tensors that a checkpoint may hold and an encoder does not use: position counters, the pooler, task heads, a decoder.
    pub(crate) fn is_unused(name: &str) -> bool {
        name == "embeddings.position_ids"
            || name == "embeddings.token_type_ids"
            || ["pooler.", "cls.", "lm_head.", "vocab_transform.", "vocab_layer_norm.", "vocab_projector.", "decoder."]
                .iter()
                .any(|prefix| name.starts_with(prefix))
    }

    /// For the fingerprint.
    pub(crate) fn fact(&self) -> Value {
        match self {
            Self::Bert(config) => config.fact(),
            Self::T5(config) => config.fact(),
            Self::Recurrent(config) => config.fact(),
        }
    }
}

/// Names of tensors and small differences within the BERT family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BertFamily {
    /// BERT, RoBERTa and what is built like them.
    Bert,
    DistilBert,
    MpNet,
}

/// Sizes and constants of an encoder of the BERT family (Devlin et al. 2019).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BertConfig {
    pub(crate) model_type: String,
    pub(crate) family: BertFamily,
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
    /// Buckets of relative positions, in MPNet.
    pub(crate) relative_buckets: Option<usize>,
    /// Values after DPR's `encode_proj`, where there is one.
    pub(crate) projection: Option<usize>,
}

impl BertConfig {
    fn read(file: &JsonFile) -> Result<Self, Error> {
        let model_type = file.text("model_type")?.unwrap_or("bert");
        let (family, behind_padding) = match model_type {
            "bert" | "dpr" => (BertFamily::Bert, false),
            "roberta" | "xlm-roberta" | "camembert" => (BertFamily::Bert, true),
            "distilbert" => (BertFamily::DistilBert, false),
            "mpnet" => (BertFamily::MpNet, true),
            other => {
                let supported = "`bert`, `roberta`, `xlm-roberta`, `camembert`, `distilbert`, `mpnet`, `dpr`, `t5` and `dyad-recurrent`";
                return Err(file.unsupported("model type", supported, other));
            }
        };
        let positions = file.text("position_embedding_type")?.unwrap_or("absolute");
        if positions != "absolute" {
            return Err(file.unsupported("position embedding", "`absolute`", positions));
        }
        let distil = family == BertFamily::DistilBert;
        let name = |bert: &'static str, distilbert: &'static str| if distil { distilbert } else { bert };
        let first_position =
            if behind_padding { file.count("pad_token_id")?.unwrap_or(1).saturating_add(1) } else { 0 };
        let relative = match family {
            BertFamily::MpNet => Some(file.count("relative_attention_num_buckets")?.unwrap_or(32)),
            _ => None,
        };
        let config = Self {
            model_type: model_type.to_owned(),
            family,
            vocab_size: file.positive("vocab_size")?,
            hidden_size: file.positive(name("hidden_size", "dim"))?,
            layers: file.positive(name("num_hidden_layers", "n_layers"))?,
            heads: file.positive(name("num_attention_heads", "n_heads"))?,
            intermediate_size: file.positive(name("intermediate_size", "hidden_dim"))?,
            position_rows: file.positive("max_position_embeddings")?,
            type_rows: if family == BertFamily::Bert { file.count("type_vocab_size")?.unwrap_or(2) } else { 0 },
            layer_norm_eps: file.number("layer_norm_eps")?.unwrap_or(1e-12),
            activation: HiddenActivation::read(file, name("hidden_act", "activation"), "gelu")?,
            first_position,
            relative_buckets: relative,
            projection: match model_type {
                "dpr" => file.count("projection_dim")?.filter(|values| *values > 0),
                _ => None,
            },
        };
        if !config.hidden_size.is_multiple_of(config.heads) {
            return Err(file.wrong(
                name("num_attention_heads", "n_heads"),
                if distil { "a divisor of `dim`" } else { "a divisor of `hidden_size`" },
            ));
        }
        if config.position_rows <= first_position {
            return Err(file.wrong("max_position_embeddings", "larger than the first position"));
        }
        // Their last range ends at a distance of 128.
        if relative.is_some_and(|buckets| !(4..=256).contains(&buckets) || !buckets.is_multiple_of(2)) {
            return Err(file.wrong("relative_attention_num_buckets", "an even number from 4 to 256"));
        }
        Ok(config)
    }

    /// Longest input that the position table has rows for.
    pub(crate) fn max_positions(&self) -> usize {
        self.position_rows - self.first_position
    }

    fn fact(&self) -> Value {
        let mut fact = json!({
            "model_type": self.model_type,
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "intermediate_size": self.intermediate_size,
            "max_position_embeddings": self.position_rows,
            "type_vocab_size": self.type_rows,
            "layer_norm_eps": self.layer_norm_eps,
            "hidden_act": self.activation.name(),
            "first_position": self.first_position,
        });
        for (name, value) in
            [("relative_attention_num_buckets", self.relative_buckets), ("projection_dim", self.projection)]
        {
            if let (Some(value), Some(fact)) = (value, fact.as_object_mut()) {
                fact.insert(name.to_owned(), json!(value));
            }
        }
        fact
    }
}

/// Sizes and constants of a T5 encoder (Raffel et al. 2020).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct T5Config {
    pub(crate) vocab_size: usize,
    pub(crate) d_model: usize,
    /// Values of a head; heads need not add up to `d_model`.
    pub(crate) d_kv: usize,
    pub(crate) d_ff: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) buckets: usize,
    pub(crate) max_distance: usize,
    pub(crate) epsilon: f64,
    pub(crate) activation: HiddenActivation,
    /// 1.1: the activated half gates the other.
    pub(crate) gated: bool,
}

impl T5Config {
    fn read(file: &JsonFile) -> Result<Self, Error> {
        let (activation, gated) = match file.text("feed_forward_proj")?.unwrap_or("relu") {
            "relu" => (HiddenActivation::Relu, false),
            // By its name the exact one; T5 1.1 was trained with the approximation.
            "gated-gelu" => (HiddenActivation::GeluTanh, true),
            other => return Err(file.unsupported("feed-forward block", "`relu` and `gated-gelu`", other)),
        };
        let config = Self {
            vocab_size: file.positive("vocab_size")?,
            d_model: file.positive("d_model")?,
            d_kv: file.positive("d_kv")?,
            d_ff: file.positive("d_ff")?,
            layers: file.positive("num_layers")?,
            heads: file.positive("num_heads")?,
            buckets: file.count("relative_attention_num_buckets")?.unwrap_or(32),
            max_distance: file.count("relative_attention_max_distance")?.unwrap_or(128),
            epsilon: file.number("layer_norm_epsilon")?.unwrap_or(1e-6),
            activation,
            gated,
        };
        if config.buckets < 4 || !config.buckets.is_multiple_of(2) {
            return Err(file.wrong("relative_attention_num_buckets", "an even number of at least 4"));
        }
        if config.max_distance <= config.buckets / 4 {
            return Err(file.wrong("relative_attention_max_distance", "more than a quarter of the buckets"));
        }
        Ok(config)
    }

    fn fact(&self) -> Value {
        json!({
            "model_type": "t5",
            "vocab_size": self.vocab_size,
            "d_model": self.d_model,
            "d_kv": self.d_kv,
            "d_ff": self.d_ff,
            "num_layers": self.layers,
            "num_heads": self.heads,
            "relative_attention_num_buckets": self.buckets,
            "relative_attention_max_distance": self.max_distance,
            "layer_norm_epsilon": self.epsilon,
            "activation": self.activation.name(),
            "gated": self.gated,
        })
    }
}
