//! The encoder of BERT (Devlin et al. 2019): post-normalised transformer layers.

use tch::{TchError, Tensor};

use super::attention::SelfAttention;
use super::embedding::Embedding;
use super::linear::Linear;
use super::norm::LayerNorm;
use crate::bundle::{BertConfig, HiddenActivation, WeightsFile};
use crate::error::Error;

#[derive(Debug)]
struct Layer {
    attention: SelfAttention,
    attention_norm: LayerNorm,
    widen: Linear,
    narrow: Linear,
    output_norm: LayerNorm,
    activation: HiddenActivation,
}

impl Layer {
    fn load(file: &mut WeightsFile, name: &str, config: &BertConfig) -> Result<Self, Error> {
        let (hidden, wide, epsilon) = (config.hidden_size, config.intermediate_size, config.layer_norm_eps);
        Ok(Self {
            attention: SelfAttention::load(file, &format!("{name}.attention"), hidden, config.heads)?,
            attention_norm: LayerNorm::load(file, &format!("{name}.attention.output.LayerNorm"), hidden, epsilon)?,
            widen: Linear::load(file, &format!("{name}.intermediate.dense"), hidden, wide)?,
            narrow: Linear::load(file, &format!("{name}.output.dense"), wide, hidden)?,
            output_norm: LayerNorm::load(file, &format!("{name}.output.LayerNorm"), hidden, epsilon)?,
            activation: config.activation,
        })
    }

    fn forward(&self, input: &Tensor, mask: Option<&Tensor>) -> Result<Tensor, TchError> {
        let attended = self.attention_norm.forward(&self.attention.forward(input, mask)?.f_add_(input)?)?;
        let widened = self.widen.forward(&attended)?;
        let activated = match self.activation {
            HiddenActivation::Gelu => widened.f_gelu("none")?,
            HiddenActivation::GeluTanh => widened.f_gelu("tanh")?,
            HiddenActivation::Relu => widened.f_relu()?,
        };
        self.output_norm.forward(&self.narrow.forward(&activated)?.f_add_(&attended)?)
    }
}

/// A BERT encoder without its pooler.
#[derive(Debug)]
pub(crate) struct Bert {
    embedding: Embedding,
    layers: Vec<Layer>,
}

impl Bert {
    pub(crate) fn load(file: &mut WeightsFile, config: &BertConfig) -> Result<Self, Error> {
        let embedding = Embedding::load(file, config)?;
        let layers = (0..config.layers)
            .map(|number| Layer::load(file, &format!("encoder.layer.{number}"), config))
            .collect::<Result<_, _>>()?;
        Ok(Self { embedding, layers })
    }

    /// Ids `[b, s]` and their mask (see [`SelfAttention::forward`]) to token vectors `[b, s, h]`.
    pub(crate) fn forward(&self, ids: &Tensor, mask: Option<&Tensor>) -> Result<Tensor, TchError> {
        let mut hidden = self.embedding.forward(ids)?;
        for layer in &self.layers {
            hidden = layer.forward(&hidden, mask)?;
        }
        Ok(hidden)
    }
}
