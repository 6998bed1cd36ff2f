//! One side: its token vectors refined by those of the matched texts, and aggregated (Wang et al. 2021, equations 2 to
//! 4).

use tch::{Kind, TchError, Tensor};

use super::padded::Padded;
use super::{Aggregator, CrossSettings};
use crate::config::{FeedForwardGate, HiddenActivation, MultiHopConfig, PoolingConfig};
use crate::error::Error;
use crate::nn::{FeedForward, LayerNorm, Linear, MultiHop, Output, Parameters, PoolingLayer};

/// Epsilon of the normalisation, as in BERT.
const EPSILON: f64 = 1e-12;

#[derive(Debug)]
enum Aggregate {
    Mean(PoolingLayer),
    MultiHop(MultiHop),
}

#[derive(Debug)]
pub(super) struct CrossSide {
    query: Linear,
    key_value: Linear,
    output: Linear,
    feed_forward: FeedForward,
    norm: LayerNorm,
    aggregate: Aggregate,
    heads: i64,
}

impl CrossSide {
    /// For token vectors of `size` values.
    pub(super) fn load(parameters: &mut dyn Parameters, settings: &CrossSettings, size: usize) -> Result<Self, Error> {
        let wide = settings.feed_forward.unwrap_or(4 * size);
        let names = ["attention.key", "attention.value"].map(|name| (name.to_owned(), size));
        Ok(Self {
            query: Linear::load(parameters, "attention.query", size, size, false)?,
            key_value: Linear::load_joined(parameters, &names, size, false)?,
            output: Linear::load(parameters, "attention.output", size, size, false)?,
            feed_forward: FeedForward {
                widen: Linear::load(parameters, "feed_forward.widen", size, wide, true)?,
                narrow: Linear::load(parameters, "feed_forward.narrow", wide, size, true)?,
                activation: HiddenActivation::Gelu,
                gate: FeedForwardGate::No,
            },
            norm: LayerNorm::load(parameters, "norm", size, EPSILON)?,
            aggregate: match settings.aggregator {
                Aggregator::Mean => Aggregate::Mean(PoolingLayer::new(PoolingConfig::mean())),
                Aggregator::MultiHop { inner, hops } => {
                    let config = MultiHopConfig {
                        in_features: size,
                        inner,
                        hops,
                        include_prompt: true,
                    };
                    Aggregate::MultiHop(MultiHop::load(parameters, &config)?)
                }
            },
            heads: settings.heads as i64,
        })
    }

    /// `own`, the texts of this side, refined by the matched `other`: `[b, dim]` in f32 and in the texts' order.
    pub(super) fn forward(&self, own: &Output, other: &Output) -> Result<Tensor, TchError> {
        if own.texts() != other.texts() || own.texts() == 0 {
            let (own, other) = (own.texts(), other.texts());
            return Err(TchError::Shape(format!(
                "each question needs its answer, got: {own} texts and {other}"
            )));
        }
        let exec = own.packed().exec;
        let (kept, asked) = (Padded::new(own)?, Padded::new(other)?);
        let query = asked.heads(&self.query.forward(exec, other.tokens())?, self.heads)?;
        // [t, 2 * h]: keys, then values.
        let both = self.key_value.forward(exec, own.tokens())?.f_chunk(2, 1)?;
        let [key, value] = both.as_slice() else {
            return Err(TchError::Shape("keys and values".to_owned()));
        };
        let (key, value) = (kept.heads(key, self.heads)?, kept.heads(value, self.heads)?);
        // Equation 2; what no text has there takes no part.
        let attended = Tensor::f_scaled_dot_product_attention(
            &query,
            &key,
            &value,
            Some(kept.present()),
            0.0,
            false,
            None::<f64>,
            false,
        )?;
        // Equations 3 and 4, on as many token vectors as the other side has tokens.
        let refined = self.output.forward(exec, &asked.pack(&attended)?)?;
        let refined = self
            .norm
            .forward(&refined.f_add(&self.feed_forward.forward(exec, &refined)?)?)?;
        let vectors = match &self.aggregate {
            Aggregate::Mean(mean) => mean.forward(&refined, other.packed())?,
            Aggregate::MultiHop(hops) => hops.forward(&refined, other.packed())?,
        };
        other.in_order_of_texts(&vectors)?.f_to_kind(Kind::Float)
    }
}
