//! T5's encoder: sizes from `config.json`, and the names and shapes of its tensors.

use serde_json::{Value, json};

use super::TensorSpec;
use super::activation::HiddenActivation;
use super::json::JsonFile;
use crate::error::Error;

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
    pub(super) fn read(file: &JsonFile) -> Result<Self, Error> {
        let (activation, gated) = match file.text("feed_forward_proj")?.unwrap_or("relu") {
            "relu" => (HiddenActivation::Relu, false),
            // By its name the exact one; T5 1.1 was trained with the approximation.
            "gated-gelu" => (HiddenActivation::GeluTanh, true),
            other => return Err(file.unsupported("feed-forward block", "`relu` and `gated-gelu`", other)),
        };
        // transformers takes these before `feed_forward_proj`, from which it writes them.
        let implied = if gated { json!("gelu_new") } else { json!("relu") };
        for (name, implied) in [("dense_act_fn", implied), ("is_gated_act", json!(gated))] {
            if let Some(got) = file.get(name).filter(|got| **got != implied) {
                return Err(Error::SettingNotSupported {
                    path: file.path().to_owned(),
                    name: name.to_owned(),
                    supported: format!("`{implied}`, as `feed_forward_proj` has it"),
                    got: got.to_string().chars().take(80).collect(),
                });
            }
        }
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

    pub(super) fn fact(&self) -> Value {
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

    /// Relative positions, which the first block has for all of them.
    pub(crate) const RELATIVE_BIAS: &str = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";

    /// The first maps of a feed-forward block.
    pub(crate) fn widening(&self) -> &'static [&'static str] {
        if self.gated { &["wi_0", "wi_1"] } else { &["wi"] }
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = TensorSpec> + '_ {
        let tables = [
            ("shared.weight".to_owned(), vec![self.vocab_size, self.d_model]),
            (Self::RELATIVE_BIAS.to_owned(), vec![self.buckets, self.heads]),
        ];
        let last = ("encoder.final_layer_norm.weight".to_owned(), vec![self.d_model]);
        tables
            .into_iter()
            .chain((0..self.layers).flat_map(|block| self.block(block)))
            .chain([last])
    }

    fn block(&self, block: usize) -> Vec<TensorSpec> {
        let (hidden, inner, wide) = (self.d_model, self.heads * self.d_kv, self.d_ff);
        let name = |part: &str| format!("encoder.block.{block}.{part}.weight");
        let attention = |map: &str| name(&format!("layer.0.SelfAttention.{map}"));
        let feed = |map: &str| name(&format!("layer.1.DenseReluDense.{map}"));
        let mut tensors: Vec<TensorSpec> = ["q", "k", "v"]
            .iter()
            .map(|map| (attention(map), vec![inner, hidden]))
            .collect();
        tensors.push((attention("o"), vec![hidden, inner]));
        tensors.push((name("layer.0.layer_norm"), vec![hidden]));
        tensors.extend(self.widening().iter().map(|map| (feed(map), vec![wide, hidden])));
        tensors.push((feed("wo"), vec![hidden, wide]));
        tensors.push((name("layer.1.layer_norm"), vec![hidden]));
        tensors
    }
}
