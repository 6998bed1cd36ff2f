//! Names of the tensors of encoders with rotary positions, as the files of their models have them, and their shapes.

use super::config::RotaryConfig;
use super::family::{NormOrder, RotaryFamily};
use crate::config::TensorSpec;

/// Names of the parts of a layer, below the layer.
pub(crate) struct RotaryLayerNames {
    /// The maps of queries, keys and values, or one map for all three.
    pub(crate) query_key_value: &'static [&'static str],
    pub(crate) attention_output: &'static str,
    /// Norms of queries and of keys.
    pub(crate) head_norms: Option<[&'static str; 2]>,
    /// Maps of the first half and of the second half of what is gated, or one map for both.
    pub(crate) widen: &'static [&'static str],
    pub(crate) narrow: &'static str,
    /// Norms of the attention block and of the feed-forward block, in the order in which they are applied to each.
    pub(crate) norms: [&'static [&'static str]; 2],
}

const SEPARATE: &[&str] = &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"];
const HEAD_NORMS: Option<[&str; 2]> = Some(["self_attn.q_norm", "self_attn.k_norm"]);

impl RotaryConfig {
    /// The table of token vectors.
    pub(crate) fn token_table(&self) -> &'static str {
        match self.family {
            RotaryFamily::ModernBert => "embeddings.tok_embeddings.weight",
            RotaryFamily::Gte | RotaryFamily::NomicBert => "embeddings.word_embeddings.weight",
            RotaryFamily::Qwen3 | RotaryFamily::Gemma3 => "embed_tokens.weight",
        }
    }

    /// The table of token types.
    pub(crate) const TYPES: &str = "embeddings.token_type_embeddings.weight";

    /// The norm over token vectors.
    pub(crate) fn embedding_norm(&self) -> Option<&'static str> {
        match self.family {
            RotaryFamily::ModernBert => Some("embeddings.norm"),
            RotaryFamily::Gte => Some("embeddings.LayerNorm"),
            RotaryFamily::NomicBert => Some("emb_ln"),
            RotaryFamily::Qwen3 | RotaryFamily::Gemma3 => None,
        }
    }

    /// The norm after the last layer.
    pub(crate) fn final_norm(&self) -> Option<&'static str> {
        match self.family {
            RotaryFamily::ModernBert => Some("final_norm"),
            RotaryFamily::Gte | RotaryFamily::NomicBert => None,
            RotaryFamily::Qwen3 | RotaryFamily::Gemma3 => Some("norm"),
        }
    }

    /// What the names of a layer's parts begin with.
    pub(crate) fn layer(&self, number: usize) -> String {
        match self.family {
            RotaryFamily::Gte => format!("encoder.layer.{number}"),
            RotaryFamily::NomicBert => format!("encoder.layers.{number}"),
            RotaryFamily::ModernBert | RotaryFamily::Qwen3 | RotaryFamily::Gemma3 => format!("layers.{number}"),
        }
    }

    /// Names of the parts of this layer. ModernBERT's first layer has no norm before its attention: the token vectors
    /// are normalised already.
    pub(crate) fn layer_names(&self, number: usize) -> RotaryLayerNames {
        match self.family {
            RotaryFamily::ModernBert => RotaryLayerNames {
                query_key_value: &["attn.Wqkv"],
                attention_output: "attn.Wo",
                head_norms: None,
                widen: &["mlp.Wi"],
                narrow: "mlp.Wo",
                norms: [if number == 0 { &[] } else { &["attn_norm"] }, &["mlp_norm"]],
            },
            RotaryFamily::Gte => RotaryLayerNames {
                query_key_value: &["attention.qkv_proj"],
                attention_output: "attention.o_proj",
                head_norms: None,
                widen: &["mlp.up_gate_proj"],
                narrow: "mlp.down_proj",
                norms: [&["attn_ln"], &["mlp_ln"]],
            },
            RotaryFamily::NomicBert => RotaryLayerNames {
                query_key_value: &["attn.Wqkv"],
                attention_output: "attn.out_proj",
                head_norms: None,
                widen: &["mlp.fc12", "mlp.fc11"],
                narrow: "mlp.fc2",
                norms: [&["norm1"], &["norm2"]],
            },
            RotaryFamily::Qwen3 => RotaryLayerNames {
                query_key_value: SEPARATE,
                attention_output: "self_attn.o_proj",
                head_norms: HEAD_NORMS,
                widen: &["mlp.gate_proj", "mlp.up_proj"],
                narrow: "mlp.down_proj",
                norms: [&["input_layernorm"], &["post_attention_layernorm"]],
            },
            RotaryFamily::Gemma3 => RotaryLayerNames {
                query_key_value: SEPARATE,
                attention_output: "self_attn.o_proj",
                head_norms: HEAD_NORMS,
                widen: &["mlp.gate_proj", "mlp.up_proj"],
                narrow: "mlp.down_proj",
                norms: [
                    &["input_layernorm", "post_attention_layernorm"],
                    &["pre_feedforward_layernorm", "post_feedforward_layernorm"],
                ],
            },
        }
    }

    /// Names and outputs of the maps of queries, keys and values.
    pub(crate) fn query_key_value(&self, number: usize) -> Vec<(String, usize)> {
        let (query, key) = (self.query_size(), self.key_size());
        let sizes: &[usize] = match self.layer_names(number).query_key_value {
            [_] => &[query + 2 * key],
            _ => &[query, key, key],
        };
        self.named(number, self.layer_names(number).query_key_value, sizes)
    }

    /// Names and outputs of the first map of the feed-forward block, or of both halves of it.
    pub(crate) fn widen(&self, number: usize) -> Vec<(String, usize)> {
        let wide = self.intermediate_size;
        let names = self.layer_names(number).widen;
        let sizes: &[usize] = match names {
            [_] => &[2 * wide],
            _ => &[wide, wide],
        };
        self.named(number, names, sizes)
    }

    fn named(&self, number: usize, names: &[&str], sizes: &[usize]) -> Vec<(String, usize)> {
        let layer = self.layer(number);
        let named = |(name, size): (&&str, &usize)| (format!("{layer}.{name}"), *size);
        names.iter().zip(sizes).map(named).collect()
    }

    /// Prefixes that task heads put before all names.
    pub(crate) fn prefixes(&self) -> &'static [&'static str] {
        match self.family {
            RotaryFamily::ModernBert | RotaryFamily::Qwen3 | RotaryFamily::Gemma3 => &["model."],
            RotaryFamily::Gte => &["new.", "gte."],
            RotaryFamily::NomicBert => &["bert.", "nomic_bert."],
        }
    }

    /// The tensors that it takes, by name and shape.
    pub(in crate::config) fn tensors(&self) -> impl Iterator<Item = TensorSpec> + '_ {
        all_tensors(self)
    }

    /// A norm's weight and, if it has one, its bias.
    fn norm(&self, name: &str, size: usize) -> Vec<TensorSpec> {
        let mut tensors = vec![(format!("{name}.weight"), vec![size])];
        if self.norm_bias {
            tensors.push((format!("{name}.bias"), vec![size]));
        }
        tensors
    }
}

/// All tensors of an encoder.
fn all_tensors(config: &RotaryConfig) -> impl Iterator<Item = TensorSpec> + '_ {
    let hidden = config.hidden_size;
    let mut first = vec![(config.token_table().to_owned(), vec![config.vocab_size, hidden])];
    if config.type_rows > 0 {
        first.push((RotaryConfig::TYPES.to_owned(), vec![config.type_rows, hidden]));
    }
    first.extend(
        config
            .embedding_norm()
            .into_iter()
            .flat_map(|name| config.norm(name, hidden)),
    );
    let last = config
        .final_norm()
        .into_iter()
        .flat_map(move |name| config.norm(name, hidden));
    let head = config.head().into_iter().flat_map(|map| map.tensors());
    first
        .into_iter()
        .chain((0..config.layers.len()).flat_map(|number| layer(config, number)))
        .chain(last)
        .chain(head)
}

fn layer(config: &RotaryConfig, number: usize) -> Vec<TensorSpec> {
    let (hidden, names, of) = (config.hidden_size, config.layer_names(number), config.layer(number));
    let name = |part: &str| format!("{of}.{part}");
    let [widen_bias, narrow_bias] = config.feed_forward_bias;
    let mut tensors = Vec::new();
    for (map, output) in config.query_key_value(number) {
        tensors.extend(affine(&map, hidden, output, config.attention_bias));
    }
    let output = name(names.attention_output);
    tensors.extend(affine(&output, config.query_size(), hidden, config.attention_bias));
    for norm in names.head_norms.into_iter().flatten() {
        tensors.extend(config.norm(&name(norm), config.head_size));
    }
    for (map, output) in config.widen(number) {
        tensors.extend(affine(&map, hidden, output, widen_bias));
    }
    tensors.extend(affine(
        &name(names.narrow),
        config.intermediate_size,
        hidden,
        narrow_bias,
    ));
    debug_assert_eq!(
        names.norms.map(<[&str]>::len).into_iter().max(),
        Some(if config.family.norm_order() == NormOrder::Both {
            2
        } else {
            1
        })
    );
    for norm in names.norms.into_iter().flatten() {
        tensors.extend(config.norm(&name(norm), hidden));
    }
    tensors
}

/// A map `[out, in]` and, if it has one, its bias.
fn affine(name: &str, input: usize, output: usize, bias: bool) -> Vec<TensorSpec> {
    let mut tensors = vec![(format!("{name}.weight"), vec![output, input])];
    if bias {
        tensors.push((format!("{name}.bias"), vec![output]));
    }
    tensors
}
