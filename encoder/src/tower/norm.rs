//! Layer normalisation (Ba et al. 2016) over the last dimension.

use tch::{TchError, Tensor};

use crate::bundle::WeightsFile;
use crate::error::Error;

#[derive(Debug)]
pub(crate) struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    size: i64,
    epsilon: f64,
}

impl LayerNorm {
    /// Reads `{name}.weight` and `{name}.bias`.
    pub(crate) fn load(file: &mut WeightsFile, name: &str, size: usize, epsilon: f64) -> Result<Self, Error> {
        let weight = file.take(&format!("{name}.weight"), &[size])?;
        let bias = file.take(&format!("{name}.bias"), &[size])?;
        Ok(Self { weight, bias, size: size as i64, epsilon })
    }

    pub(crate) fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        input.f_layer_norm([self.size], Some(&self.weight), Some(&self.bias), self.epsilon, true)
    }
}
