//! The encoders of the BERT family: post-normalised transformer layers (Devlin et al. 2019) under the names of BERT,
//! RoBERTa, DistilBERT (Sanh et al. 2019) and MPNet (Song et al. 2020), which adds relative positions.

use tch::{TchError, Tensor};

use super::attention::{AttentionNames, AttentionShape, PositionEffect, SelfAttention};
use super::embedding::Embedding;
use super::feed_forward::FeedForward;
use super::linear::Linear;
use super::norm::LayerNorm;
use super::packed::Packed;
use super::parameters::Parameters;
use super::relative::{Buckets, RelativeBias};
use crate::config::{AttentionReach, BertConfig, FeedForwardGate};
use crate::error::Error;

/// Farther keys share a bucket, whatever `config.json` says: MPNet's code has this number.
const MPNET_MAX_DISTANCE: usize = 128;

#[derive(Debug, Clone)]
struct BertLayer {
    attention: SelfAttention,
    attention_norm: LayerNorm,
    feed_forward: FeedForward,
    output_norm: LayerNorm,
}

impl BertLayer {
    fn load(parameters: &mut dyn Parameters, number: usize, config: &BertConfig) -> Result<Self, Error> {
        let names = config.names();
        let name = |part: &str| format!("{}.{number}.{part}", names.layers);
        let (hidden, wide, epsilon) = (config.hidden_size, config.intermediate_size, config.layer_norm_eps);
        let heads = config.heads;
        let shape = AttentionShape {
            hidden,
            heads,
            key_heads: heads,
            head_size: hidden / heads,
            bias: true,
            scale: None,
            reach: AttentionReach::ALL,
        };
        let [query, key, value, output] = names.attention.map(name);
        let maps = AttentionNames {
            query_key_value: [query, key, value].map(|map| (map, hidden)).into(),
            output,
        };
        Ok(Self {
            attention: SelfAttention::load(parameters, &maps, &shape)?,
            attention_norm: LayerNorm::load(parameters, &name(names.attention_norm), hidden, epsilon)?,
            feed_forward: FeedForward {
                widen: Linear::load(parameters, &name(names.widen), hidden, wide, true)?,
                narrow: Linear::load(parameters, &name(names.narrow), wide, hidden, true)?,
                activation: config.activation,
                gate: FeedForwardGate::No,
            },
            output_norm: LayerNorm::load(parameters, &name(names.output_norm), hidden, epsilon)?,
        })
    }

    fn forward(&self, input: &Tensor, packed: &Packed, positions: PositionEffect<'_>) -> Result<Tensor, TchError> {
        let attended =
            self.attention_norm
                .of_sum(packed.exec, self.attention.forward(input, packed, positions)?, input)?;
        let fed = self.feed_forward.forward(packed.exec, &attended)?;
        self.output_norm.of_sum(packed.exec, fed, &attended)
    }
}

/// An encoder without its pooler.
#[derive(Debug, Clone)]
pub(crate) struct Bert {
    embedding: Embedding,
    relative: Option<RelativeBias>,
    layers: Vec<BertLayer>,
}

impl Bert {
    pub(crate) fn load(parameters: &mut dyn Parameters, config: &BertConfig) -> Result<Self, Error> {
        let embedding = Embedding::load(parameters, config)?;
        let relative = match config.relative_buckets {
            Some(count) => {
                let buckets = Buckets {
                    count,
                    max_distance: MPNET_MAX_DISTANCE,
                };
                Some(RelativeBias::load(
                    parameters,
                    BertConfig::RELATIVE_BIAS,
                    buckets,
                    config.heads,
                )?)
            }
            None => None,
        };
        let layers = (0..config.layers).map(|number| BertLayer::load(parameters, number, config));
        Ok(Self {
            embedding,
            relative,
            layers: layers.collect::<Result<_, _>>()?,
        })
    }

    /// The token that takes no position where it stands in a text.
    pub(crate) fn uncounted(&self) -> Option<i64> {
        self.embedding.uncounted()
    }

    /// `[t]` ids to `[t, h]`.
    pub(crate) fn forward(&self, packed: &Packed) -> Result<Tensor, TchError> {
        let biases = self.relative.as_ref().map(|relative| relative.of(packed)).transpose()?;
        let positions = biases.as_deref().map_or(PositionEffect::None, PositionEffect::Biases);
        let mut hidden = self.embedding.forward(packed)?;
        for layer in &self.layers {
            hidden = layer.forward(&hidden, packed, positions)?;
        }
        Ok(hidden)
    }
}
