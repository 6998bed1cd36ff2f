//! `Dense` modules, an affine map and an activation, and the maps of a head, in f32 on the pooled vectors.

use tch::{Kind, TchError, Tensor};

use super::exec::Exec;
use super::linear::Linear;
use super::norm::LayerNorm;
use super::parameters::Parameters;
use crate::config::{Activation, DenseConfig, HeadMapConfig};
use crate::error::Error;

#[derive(Debug, Clone)]
pub(crate) struct Dense {
    linear: Linear,
    kind: Kind,
    activation: Activation,
}

impl Dense {
    /// Reads `{name}.weight` and, if configured, `{name}.bias`; `kind` is the network's dtype.
    pub(crate) fn load(
        parameters: &mut dyn Parameters,
        name: &str,
        config: &DenseConfig,
        kind: Kind,
    ) -> Result<Self, Error> {
        let linear = Linear::load_exact(parameters, name, config.in_features, config.out_features, config.bias)?;
        Ok(Self {
            linear,
            kind,
            activation: config.activation,
        })
    }

    /// `[b, in] -> [b, out]`, f32 in and out.
    pub(crate) fn forward(&self, exec: Exec, input: &Tensor) -> Result<Tensor, TchError> {
        let output = self
            .linear
            .forward(exec, &input.f_to_kind(self.kind)?)?
            .f_to_kind(Kind::Float)?;
        match self.activation {
            Activation::Identity => Ok(output),
            Activation::Tanh => output.f_tanh(),
            Activation::Relu => output.f_relu(),
            Activation::Gelu => output.f_gelu("none"),
        }
    }
}

/// A map of a head and the layer norm that follows it, where there is one.
#[derive(Debug, Clone)]
pub(crate) struct HeadMap {
    dense: Dense,
    norm: Option<LayerNorm>,
}

impl HeadMap {
    /// Reads the map's tensors and the norm's.
    pub(crate) fn load(parameters: &mut dyn Parameters, config: &HeadMapConfig, kind: Kind) -> Result<Self, Error> {
        let dense = Dense::load(parameters, config.name, &config.map, kind)?;
        let size = config.map.out_features;
        let norm = config.norm.map(|norm| {
            if norm.bias {
                LayerNorm::load(parameters, norm.name, size, norm.epsilon)
            } else {
                LayerNorm::load_unbiased(parameters, norm.name, size, norm.epsilon)
            }
        });
        Ok(Self {
            dense,
            norm: norm.transpose()?,
        })
    }

    /// `[b, in] -> [b, out]`, f32 in and out.
    pub(crate) fn forward(&self, exec: Exec, input: &Tensor) -> Result<Tensor, TchError> {
        let output = self.dense.forward(exec, input)?;
        match &self.norm {
            Some(norm) => norm.forward(&output)?.f_to_kind(Kind::Float),
            None => Ok(output),
        }
    }
}
