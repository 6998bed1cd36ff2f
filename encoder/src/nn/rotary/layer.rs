//! A layer of an encoder with rotary positions: attention and a gated feed-forward block, each with its norms.

use tch::{TchError, Tensor};

use crate::config::{AttentionReach, FeedForwardGate, NormOrder, RotaryConfig};
use crate::error::Error;
use crate::nn::attention::{AttentionNames, AttentionShape, PositionEffect, SelfAttention};
use crate::nn::exec::Exec;
use crate::nn::feed_forward::FeedForward;
use crate::nn::linear::Linear;
use crate::nn::norm::{LayerNorm, RmsNorm};
use crate::nn::packed::Packed;
use crate::nn::parameters::Parameters;
use crate::nn::rotation::RotaryAngles;

/// A norm of either kind.
#[derive(Debug, Clone)]
pub(super) enum RotaryNorm {
    Layer(LayerNorm),
    RootMeanSquare(RmsNorm),
}

impl RotaryNorm {
    /// Over `size` values.
    pub(super) fn load(
        parameters: &mut dyn Parameters,
        name: &str,
        size: usize,
        config: &RotaryConfig,
    ) -> Result<Self, Error> {
        let epsilon = config.epsilon;
        if config.family.norms_by_root_mean_square() {
            return root_mean_square(parameters, name, size, config).map(Self::RootMeanSquare);
        }
        let norm = if config.norm_bias {
            LayerNorm::load(parameters, name, size, epsilon)
        } else {
            LayerNorm::load_unbiased(parameters, name, size, epsilon)
        };
        norm.map(Self::Layer)
    }

    pub(super) fn forward(&self, exec: Exec, input: &Tensor) -> Result<Tensor, TchError> {
        match self {
            Self::Layer(norm) => norm.forward(input),
            Self::RootMeanSquare(norm) => norm.forward(exec, input),
        }
    }

    /// Over the sum of what a block has made and its input.
    fn of_sum(&self, exec: Exec, mut made: Tensor, input: &Tensor) -> Result<Tensor, TchError> {
        match self {
            Self::Layer(norm) => norm.of_sum(exec, made, input),
            Self::RootMeanSquare(norm) => norm.forward(exec, &made.f_add_(input)?),
        }
    }
}

fn root_mean_square(
    parameters: &mut dyn Parameters,
    name: &str,
    size: usize,
    config: &RotaryConfig,
) -> Result<RmsNorm, Error> {
    let norm = RmsNorm::load(parameters, name, size, config.epsilon)?;
    Ok(norm.with_offset(config.family.norm_offset()))
}

/// The norms around a block.
#[derive(Debug, Clone)]
struct BlockNorms {
    /// Over the input.
    before: Option<RotaryNorm>,
    /// Over what the block makes, before its input is added.
    of_output: Option<RotaryNorm>,
    /// Over the sum of both.
    of_sum: Option<RotaryNorm>,
}

impl BlockNorms {
    /// Norms by their names, in the order in which they are applied.
    fn load(parameters: &mut dyn Parameters, names: &[String], config: &RotaryConfig) -> Result<Self, Error> {
        let norms = names
            .iter()
            .map(|name| RotaryNorm::load(parameters, name, config.hidden_size, config));
        let mut norms = norms.collect::<Result<Vec<_>, _>>()?.into_iter();
        let (first, second) = (norms.next(), norms.next());
        Ok(match config.family.norm_order() {
            NormOrder::Post => Self {
                before: None,
                of_output: None,
                of_sum: first,
            },
            NormOrder::Pre | NormOrder::Both => Self {
                before: first,
                of_output: second,
                of_sum: None,
            },
        })
    }

    /// The input of a layer to its output, where `block` is what is between.
    fn around(
        &self,
        exec: Exec,
        input: &Tensor,
        block: impl FnOnce(&Tensor) -> Result<Tensor, TchError>,
    ) -> Result<Tensor, TchError> {
        let normed = self.before.as_ref().map(|norm| norm.forward(exec, input)).transpose()?;
        let mut made = block(normed.as_ref().unwrap_or(input))?;
        if let Some(norm) = &self.of_output {
            made = norm.forward(exec, &made)?;
        }
        if let Some(norm) = &self.of_sum {
            return norm.of_sum(exec, made, input);
        }
        // In mixed precision, what comes from a product is narrower than what it is added to.
        made.f_to_kind(input.kind())?.f_add_(input)
    }
}

/// A layer.
#[derive(Debug, Clone)]
pub(super) struct RotaryLayer {
    attention: SelfAttention,
    attention_norms: BlockNorms,
    feed_forward: FeedForward,
    feed_forward_norms: BlockNorms,
}

impl RotaryLayer {
    pub(super) fn load(parameters: &mut dyn Parameters, number: usize, config: &RotaryConfig) -> Result<Self, Error> {
        let (names, layer) = (config.layer_names(number), config.layer(number));
        let name = |part: &str| format!("{layer}.{part}");
        let reach = config
            .layers
            .get(number)
            .map_or(AttentionReach::ALL, |layer| layer.reach);
        let shape = AttentionShape {
            hidden: config.hidden_size,
            heads: config.heads,
            key_heads: config.key_heads,
            head_size: config.head_size,
            bias: config.attention_bias,
            scale: Some(config.scale),
            reach,
        };
        let maps = AttentionNames {
            query_key_value: config.query_key_value(number),
            output: name(names.attention_output),
        };
        let mut attention = SelfAttention::load(parameters, &maps, &shape)?;
        if let Some([query, key]) = names.head_norms {
            let size = config.head_size;
            let query = root_mean_square(parameters, &name(query), size, config)?;
            attention = attention.with_head_norms([query, root_mean_square(parameters, &name(key), size, config)?]);
        }
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let [widen_bias, narrow_bias] = config.feed_forward_bias;
        let gate = config.family.gate();
        debug_assert_ne!(gate, FeedForwardGate::No);
        let feed_forward = FeedForward {
            widen: Linear::load_joined(parameters, &config.widen(number), hidden, widen_bias)?,
            narrow: Linear::load(parameters, &name(names.narrow), wide, hidden, narrow_bias)?,
            activation: config.activation,
            gate,
        };
        let [of_attention, of_feed_forward] = names
            .norms
            .map(|norms| norms.iter().map(|norm| name(norm)).collect::<Vec<String>>());
        Ok(Self {
            attention,
            attention_norms: BlockNorms::load(parameters, &of_attention, config)?,
            feed_forward,
            feed_forward_norms: BlockNorms::load(parameters, &of_feed_forward, config)?,
        })
    }

    /// `[t, h] -> [t, h]`.
    pub(super) fn forward(&self, input: &Tensor, packed: &Packed, rotation: &RotaryAngles) -> Result<Tensor, TchError> {
        let (exec, positions) = (packed.exec, PositionEffect::Rotation(rotation));
        let attended = self
            .attention_norms
            .around(exec, input, |input| self.attention.forward(input, packed, positions))?;
        self.feed_forward_norms
            .around(exec, &attended, |input| self.feed_forward.forward(exec, input))
    }
}
