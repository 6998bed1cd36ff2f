//! `Dense` modules: an affine map and an activation, in f32 on the pooled vectors.

use tch::{Kind, TchError, Tensor};

use super::exec::Exec;
use super::linear::Linear;
use super::parameters::Parameters;
use crate::config::{Activation, DenseConfig};
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
