//! An affine map: `y = x W^T + b`.

use tch::{TchError, Tensor};

use crate::bundle::WeightsFile;
use crate::error::{Error, torch};

/// Weight `[out, in]` and bias `[out]`.
#[derive(Debug)]
pub(crate) struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// Reads `{name}.weight` and `{name}.bias`.
    pub(crate) fn load(file: &mut WeightsFile, name: &str, input: usize, output: usize) -> Result<Self, Error> {
        Self::load_with(file, name, input, output, true)
    }

    /// Reads `{name}.weight` and, if `bias`, `{name}.bias`.
    pub(crate) fn load_with(
        file: &mut WeightsFile,
        name: &str,
        input: usize,
        output: usize,
        bias: bool,
    ) -> Result<Self, Error> {
        let weight = file.take(&format!("{name}.weight"), &[output, input])?;
        let bias = if bias { Some(file.take(&format!("{name}.bias"), &[output])?) } else { None };
        Ok(Self { weight, bias })
    }

    /// One map that gives the outputs of several, side by side.
    pub(crate) fn joined(parts: &[Self]) -> Result<Self, Error> {
        let weights: Vec<&Tensor> = parts.iter().map(|part| &part.weight).collect();
        let biases: Option<Vec<&Tensor>> = parts.iter().map(|part| part.bias.as_ref()).collect();
        let join = |tensors: &[&Tensor]| Tensor::f_cat(tensors, 0).map_err(torch("joining weights"));
        Ok(Self { weight: join(&weights)?, bias: biases.map(|biases| join(&biases)).transpose()? })
    }

    pub(crate) fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        input.f_linear(&self.weight, self.bias.as_ref())
    }
}
