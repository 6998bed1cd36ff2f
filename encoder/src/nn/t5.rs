//! The encoder of T5 (Raffel et al. 2020) in its versions 1.0 and 1.1: pre-normalised layers without biases, relative
//! positions from the first block in all of them, scores that are not scaled.

use tch::{TchError, Tensor};

use super::attention::{AttentionNames, AttentionShape, PositionEffect, SelfAttention};
use super::feed_forward::FeedForward;
use super::linear::Linear;
use super::norm::RmsNorm;
use super::packed::Packed;
use super::parameters::Parameters;
use super::relative::{Buckets, RelativeBias};
use super::shared_tensor::SharedTensor;
use crate::config::{AttentionReach, FeedForwardGate, T5Config};
use crate::error::Error;

#[derive(Debug, Clone)]
struct Block {
    attention_norm: RmsNorm,
    attention: SelfAttention,
    feed_forward_norm: RmsNorm,
    feed_forward: FeedForward,
}

impl Block {
    fn load(parameters: &mut dyn Parameters, number: usize, config: &T5Config) -> Result<Self, Error> {
        let name = |part: &str| format!("encoder.block.{number}.{part}");
        let (hidden, wide) = (config.d_model, config.d_ff);
        let (heads, head_size) = (config.heads, config.d_kv);
        let shape = AttentionShape {
            hidden,
            heads,
            key_heads: heads,
            head_size,
            bias: false,
            scale: Some(1.0),
            reach: AttentionReach::ALL,
        };
        let map = |map: &str| name(&format!("layer.0.SelfAttention.{map}"));
        let maps = AttentionNames {
            query_key_value: ["q", "k", "v"].map(|part| (map(part), heads * head_size)).into(),
            output: map("o"),
        };
        let feed = |part: &str| name(&format!("layer.1.DenseReluDense.{part}"));
        let widening: Vec<(String, usize)> = config.widening().iter().map(|map| (feed(map), wide)).collect();
        let widen = Linear::load_joined(parameters, &widening, hidden, false)?;
        let narrow = Linear::load(parameters, &feed("wo"), wide, hidden, false)?;
        let norm = |parameters: &mut dyn Parameters, layer: usize| {
            RmsNorm::load(
                parameters,
                &name(&format!("layer.{layer}.layer_norm")),
                hidden,
                config.epsilon,
            )
        };
        Ok(Self {
            attention_norm: norm(parameters, 0)?,
            attention: SelfAttention::load(parameters, &maps, &shape)?,
            feed_forward_norm: norm(parameters, 1)?,
            feed_forward: FeedForward {
                widen,
                narrow,
                activation: config.activation,
                gate: if config.gated {
                    FeedForwardGate::First
                } else {
                    FeedForwardGate::No
                },
            },
        })
    }

    fn forward(&self, input: &Tensor, packed: &Packed, biases: &[Tensor]) -> Result<Tensor, TchError> {
        let normed = self.attention_norm.forward(packed.exec, input)?;
        let attended = self
            .attention
            .forward(&normed, packed, PositionEffect::Biases(biases))?
            .f_add_(input)?;
        let normed = self.feed_forward_norm.forward(packed.exec, &attended)?;
        self.feed_forward.forward(packed.exec, &normed)?.f_add_(&attended)
    }
}

/// A T5 encoder.
#[derive(Debug, Clone)]
pub(crate) struct T5 {
    tokens: SharedTensor,
    relative: RelativeBias,
    blocks: Vec<Block>,
    norm: RmsNorm,
}

impl T5 {
    pub(crate) fn load(parameters: &mut dyn Parameters, config: &T5Config) -> Result<Self, Error> {
        let buckets = Buckets {
            count: config.buckets,
            max_distance: config.max_distance,
        };
        Ok(Self {
            tokens: parameters
                .take("shared.weight", &[config.vocab_size, config.d_model])?
                .into(),
            relative: RelativeBias::load(parameters, T5Config::RELATIVE_BIAS, buckets, config.heads)?,
            blocks: (0..config.layers)
                .map(|number| Block::load(parameters, number, config))
                .collect::<Result<_, _>>()?,
            norm: RmsNorm::load(parameters, "encoder.final_layer_norm", config.d_model, config.epsilon)?,
        })
    }

    /// `[t]` ids to `[t, h]`.
    pub(crate) fn forward(&self, packed: &Packed) -> Result<Tensor, TchError> {
        let biases = self.relative.of(packed)?;
        let mut hidden = Tensor::f_embedding(&self.tokens, &packed.ids, -1, false, false)?;
        for block in &self.blocks {
            hidden = block.forward(&hidden, packed, &biases)?;
        }
        self.norm.forward(packed.exec, &hidden)
    }
}
