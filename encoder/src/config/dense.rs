//! Settings of a `Dense` module, an affine map and an activation: `N_Dense/config.json`.

use std::path::Path;

use serde_json::{Value, json};

use super::TensorSpec;
use super::json::JsonFile;
use crate::error::Error;

/// The activation after a dense layer, by the last part of its torch class path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activation {
    Identity,
    Tanh,
    Relu,
    Gelu,
}

impl Activation {
    fn name(self) -> &'static str {
        match self {
            Self::Identity => "Identity",
            Self::Tanh => "Tanh",
            Self::Relu => "ReLU",
            Self::Gelu => "GELU",
        }
    }
}

/// Settings of a `Dense` module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DenseConfig {
    pub(crate) in_features: usize,
    pub(crate) out_features: usize,
    pub(crate) bias: bool,
    pub(crate) activation: Activation,
}

impl DenseConfig {
    /// A linear map without bias.
    pub(crate) fn projection(in_features: usize, out_features: usize) -> Self {
        Self {
            in_features,
            out_features,
            bias: false,
            activation: Activation::Identity,
        }
    }

    /// `config.json` in the classic form.
    pub(crate) fn classic(&self) -> Value {
        let class = match self.activation {
            Activation::Identity => "torch.nn.modules.linear.Identity".to_owned(),
            other => format!("torch.nn.modules.activation.{}", other.name()),
        };
        json!({
            "in_features": self.in_features,
            "out_features": self.out_features,
            "bias": self.bias,
            "activation_function": class,
        })
    }

    pub(crate) fn read(folder: &Path) -> Result<Self, Error> {
        let settings = JsonFile::required(&folder.join("config.json"))?;
        let class = settings
            .text("activation_function")?
            .unwrap_or("torch.nn.modules.activation.Tanh");
        let activation = [
            Activation::Identity,
            Activation::Tanh,
            Activation::Relu,
            Activation::Gelu,
        ]
        .into_iter()
        .find(|activation| class.starts_with("torch.nn.") && class.rsplit('.').next() == Some(activation.name()))
        .ok_or_else(|| settings.unsupported("activation", "torch.nn's `Identity`, `Tanh`, `ReLU` and `GELU`", class))?;
        Ok(Self {
            in_features: settings.positive("in_features")?,
            out_features: settings.positive("out_features")?,
            bias: settings.flag("bias")?.unwrap_or(true),
            activation,
        })
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = TensorSpec> {
        let weight = ("linear.weight".to_owned(), vec![self.out_features, self.in_features]);
        let bias = self.bias.then(|| ("linear.bias".to_owned(), vec![self.out_features]));
        std::iter::once(weight).chain(bias)
    }

    pub(crate) fn fact(&self) -> Value {
        json!({ "dense": {
            "in_features": self.in_features,
            "out_features": self.out_features,
            "bias": self.bias,
            "activation": self.activation.name(),
        } })
    }
}
