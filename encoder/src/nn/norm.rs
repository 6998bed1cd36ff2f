//! Normalisation over the last dimension.

use tch::{Kind, TchError, Tensor};

use super::exec::Exec;
use super::kernels;
use super::parameters::Parameters;
use super::shared_tensor::SharedTensor;
use crate::error::{Error, torch};

/// Layer normalisation (Ba et al. 2016).
#[derive(Debug, Clone)]
pub(crate) struct LayerNorm {
    weight: SharedTensor,
    bias: SharedTensor,
    size: i64,
    epsilon: f64,
}

impl LayerNorm {
    /// Reads `{name}.weight` and `{name}.bias`.
    pub(crate) fn load(parameters: &mut dyn Parameters, name: &str, size: usize, epsilon: f64) -> Result<Self, Error> {
        let weight = parameters.take(&format!("{name}.weight"), &[size])?.into();
        let bias = parameters.take(&format!("{name}.bias"), &[size])?.into();
        Ok(Self {
            weight,
            bias,
            size: size as i64,
            epsilon,
        })
    }

    /// Reads `{name}.weight`; there is no bias.
    pub(crate) fn load_unbiased(
        parameters: &mut dyn Parameters,
        name: &str,
        size: usize,
        epsilon: f64,
    ) -> Result<Self, Error> {
        let weight = parameters.take(&format!("{name}.weight"), &[size])?;
        let zeros = Tensor::f_zeros(weight.size(), (weight.kind(), weight.device()));
        Ok(Self {
            bias: zeros.map_err(torch("making the zeros of a norm"))?.into(),
            weight: weight.into(),
            size: size as i64,
            epsilon,
        })
    }

    /// Normalises the sum of a product and its residual input.
    pub(crate) fn of_sum(&self, exec: Exec, mut made: Tensor, input: &Tensor) -> Result<Tensor, TchError> {
        let plain = [&made, input, &self.weight, &self.bias]
            .iter()
            .all(|tensor| !tensor.requires_grad());
        if plain
            && exec.by_kernels()
            && let Some(sum) = kernels::add_norm(exec, &made, input, [&self.weight, &self.bias], self.epsilon)?
        {
            return Ok(sum);
        }
        self.forward(&made.f_add_(input)?)
    }

    pub(crate) fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        // In mixed precision, what comes from a product is narrower than what scales it.
        let input = input.f_to_kind(self.weight.kind())?;
        input.f_layer_norm([self.size], Some(&*self.weight), Some(&*self.bias), self.epsilon, true)
    }
}

/// Root mean square normalisation (Zhang and Sennrich 2019), as T5 has it: no mean is taken off, and squares are summed
/// in f32 whatever the network's number type.
#[derive(Debug, Clone)]
pub(crate) struct RmsNorm {
    weight: SharedTensor,
    /// Added to the weight: Gemma's are stored less one.
    offset: f64,
    epsilon: f64,
}

impl RmsNorm {
    /// Reads `{name}.weight`.
    pub(crate) fn load(parameters: &mut dyn Parameters, name: &str, size: usize, epsilon: f64) -> Result<Self, Error> {
        Ok(Self {
            weight: parameters.take(&format!("{name}.weight"), &[size])?.into(),
            offset: 0.0,
            epsilon,
        })
    }

    /// The same where weights are stored less `offset`.
    pub(crate) fn with_offset(self, offset: f64) -> Self {
        Self { offset, ..self }
    }

    /// What normalised values are multiplied with, `[size]`.
    pub(super) fn scale(&self) -> Result<Tensor, TchError> {
        if self.offset == 0.0 {
            return Ok(self.weight.shallow_clone());
        }
        self.weight.f_to_kind(Kind::Float)?.f_add_scalar(self.offset)
    }

    pub(super) fn epsilon(&self) -> f64 {
        self.epsilon
    }

    pub(crate) fn forward(&self, exec: Exec, input: &Tensor) -> Result<Tensor, TchError> {
        let plain = !input.requires_grad() && !self.weight.requires_grad();
        if plain
            && exec.by_kernels()
            && let Some(normed) = kernels::root_mean_square(exec, input, &self.scale()?, self.epsilon)?
        {
            return Ok(normed);
        }
        let wide = input.f_to_kind(Kind::Float)?;
        let squares = wide.f_square()?.f_mean_dim(&[-1i64][..], true, None::<Kind>)?;
        let scaled = wide.f_mul(&squares.f_add_scalar(self.epsilon)?.f_rsqrt()?)?;
        if self.offset == 0.0 {
            return scaled.f_to_kind(self.weight.kind())?.f_mul(&self.weight);
        }
        // Gemma's code multiplies before it rounds.
        scaled.f_mul(&self.scale()?)?.f_to_kind(self.weight.kind())
    }
}
