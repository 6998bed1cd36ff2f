//! The BERT family: sizes from `config.json`, and the names and shapes of its tensors.

use serde_json::{Value, json};

use super::TensorSpec;
use super::activation::HiddenActivation;
use super::dense::{Activation, DenseConfig};
use super::head::HeadMapConfig;
use super::json::JsonFile;
use crate::error::Error;

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
    /// Whether it ends in the head that scores a pair of texts (`...ForSequenceClassification` of one label).
    pub(crate) scores: bool,
}

impl BertConfig {
    pub(super) fn read(file: &JsonFile) -> Result<Self, Error> {
        let model_type = file.text("model_type")?.unwrap_or("bert");
        let (family, behind_padding) = match model_type {
            "bert" | "dpr" => (BertFamily::Bert, false),
            "roberta" | "xlm-roberta" | "camembert" => (BertFamily::Bert, true),
            "distilbert" => (BertFamily::DistilBert, false),
            "mpnet" => (BertFamily::MpNet, false),
            other => {
                let supported = "`bert`, `roberta`, `xlm-roberta`, `camembert`, `distilbert`, `mpnet`, `dpr`, `t5`, `modernbert`, `gte` (or `new`), `nomic_bert`, `qwen3`, `gemma3_text` and `dyad-recurrent`";
                return Err(file.unsupported("model type", supported, other));
            }
        };
        let distil = family == BertFamily::DistilBert;
        let name = |bert: &'static str, distilbert: &'static str| if distil { distilbert } else { bert };
        let first_position = match family {
            // MPNet's code has this number, whatever the padding's id is.
            BertFamily::MpNet => 2,
            _ if behind_padding => file.count("pad_token_id")?.unwrap_or(1).saturating_add(1),
            _ => 0,
        };
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
            type_rows: if family == BertFamily::Bert {
                file.count("type_vocab_size")?.unwrap_or(2)
            } else {
                0
            },
            layer_norm_eps: match family {
                // DistilBERT's code has this number, whatever a file says.
                BertFamily::DistilBert => 1e-12,
                _ => file.number("layer_norm_eps")?.unwrap_or(1e-12),
            },
            activation: HiddenActivation::read(file, name("hidden_act", "activation"), "gelu")?,
            first_position,
            relative_buckets: relative,
            projection: match model_type {
                "dpr" => file.count("projection_dim")?.filter(|values| *values > 0),
                _ => None,
            },
            scores: false,
        };
        if !config.hidden_size.is_multiple_of(config.heads) {
            return Err(file.wrong(
                name("num_attention_heads", "n_heads"),
                if distil {
                    "a divisor of `dim`"
                } else {
                    "a divisor of `hidden_size`"
                },
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

    pub(super) fn fact(&self) -> Value {
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
        for (name, value) in [
            ("relative_attention_num_buckets", self.relative_buckets),
            ("projection_dim", self.projection),
        ] {
            if let (Some(value), Some(fact)) = (value, fact.as_object_mut()) {
                fact.insert(name.to_owned(), json!(value));
            }
        }
        if let (true, Some(fact)) = (self.scores, fact.as_object_mut()) {
            fact.insert("head".to_owned(), json!("score"));
        }
        fact
    }

    /// A map of the pooled vector.
    fn head_map(&self, out_features: usize, activation: Activation) -> DenseConfig {
        DenseConfig {
            in_features: self.hidden_size,
            out_features,
            bias: true,
            activation,
        }
    }

    /// The maps after the pooling that are in the transformer's own file: DPR's projection, or the head that scores.
    pub(super) fn head(&self) -> Vec<HeadMapConfig> {
        let map = |name, out_features, activation| HeadMapConfig::new(name, self.head_map(out_features, activation));
        if !self.scores {
            let projection = self
                .projection
                .map(|values| map("encode_proj", values, Activation::Identity));
            return projection.into_iter().collect();
        }
        let (first, activation, last) = match (self.family, self.model_type.as_str()) {
            (BertFamily::DistilBert, _) => ("pre_classifier", Activation::Relu, "classifier"),
            (BertFamily::Bert, "bert") => ("pooler.dense", Activation::Tanh, "classifier"),
            _ => ("classifier.dense", Activation::Tanh, "classifier.out_proj"),
        };
        vec![
            map(first, self.hidden_size, activation),
            map(last, 1, Activation::Identity),
        ]
    }

    /// MPNet's table of relative positions.
    pub(crate) const RELATIVE_BIAS: &str = "encoder.relative_attention_bias.weight";

    /// Names of the parts of a layer.
    pub(crate) const fn names(&self) -> LayerNames {
        LayerNames::of(self.family)
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = TensorSpec> + '_ {
        let hidden = self.hidden_size;
        let table = |name: &str, rows: usize| (format!("embeddings.{name}.weight"), vec![rows, hidden]);
        let mut embeddings = vec![
            table("word_embeddings", self.vocab_size),
            table("position_embeddings", self.position_rows),
        ];
        if self.type_rows > 0 {
            embeddings.push(table("token_type_embeddings", self.type_rows));
        }
        embeddings.extend(norm("embeddings.LayerNorm", hidden));
        embeddings.extend(
            self.relative_buckets
                .map(|buckets| (Self::RELATIVE_BIAS.to_owned(), vec![buckets, self.heads])),
        );
        let head = self.head().into_iter().flat_map(|map| map.tensors());
        embeddings
            .into_iter()
            .chain((0..self.layers).flat_map(|layer| self.layer(layer)))
            .chain(head)
    }

    fn layer(&self, layer: usize) -> Vec<TensorSpec> {
        let (names, hidden, wide) = (self.names(), self.hidden_size, self.intermediate_size);
        let name = |part: &str| format!("{}.{layer}.{part}", names.layers);
        let mut tensors = Vec::new();
        tensors.extend(
            names
                .attention
                .iter()
                .flat_map(|map| affine(&name(map), hidden, hidden)),
        );
        tensors.extend(norm(&name(names.attention_norm), hidden));
        tensors.extend(affine(&name(names.widen), hidden, wide));
        tensors.extend(affine(&name(names.narrow), wide, hidden));
        tensors.extend(norm(&name(names.output_norm), hidden));
        tensors
    }
}

/// A map `[out, in]` and its bias.
fn affine(name: &str, input: usize, output: usize) -> [TensorSpec; 2] {
    [
        (format!("{name}.weight"), vec![output, input]),
        (format!("{name}.bias"), vec![output]),
    ]
}

/// Scale and shift of a normalised layer.
fn norm(name: &str, size: usize) -> [TensorSpec; 2] {
    ["weight", "bias"].map(|part| (format!("{name}.{part}"), vec![size]))
}

/// Names of a layer's parts, below the layer.
pub(crate) struct LayerNames {
    pub(crate) layers: &'static str,
    pub(crate) attention: [&'static str; 4],
    pub(crate) attention_norm: &'static str,
    pub(crate) widen: &'static str,
    pub(crate) narrow: &'static str,
    pub(crate) output_norm: &'static str,
}

impl LayerNames {
    const fn of(family: BertFamily) -> Self {
        let bert = Self {
            layers: "encoder.layer",
            attention: [
                "attention.self.query",
                "attention.self.key",
                "attention.self.value",
                "attention.output.dense",
            ],
            attention_norm: "attention.output.LayerNorm",
            widen: "intermediate.dense",
            narrow: "output.dense",
            output_norm: "output.LayerNorm",
        };
        match family {
            BertFamily::Bert => bert,
            BertFamily::MpNet => Self {
                attention: [
                    "attention.attn.q",
                    "attention.attn.k",
                    "attention.attn.v",
                    "attention.attn.o",
                ],
                attention_norm: "attention.LayerNorm",
                ..bert
            },
            BertFamily::DistilBert => Self {
                layers: "transformer.layer",
                attention: [
                    "attention.q_lin",
                    "attention.k_lin",
                    "attention.v_lin",
                    "attention.out_lin",
                ],
                attention_norm: "sa_layer_norm",
                widen: "ffn.lin1",
                narrow: "ffn.lin2",
                output_norm: "output_layer_norm",
            },
        }
    }
}
