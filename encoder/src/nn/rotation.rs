//! The rotations of queries and keys by the positions of a batch's tokens (RoPE, Su et al. 2021, section 3.2).
//!
//! A pair of values lies half a head apart, as transformers has it, and not side by side.

use tch::{Kind, TchError, Tensor};

use super::exec::Exec;
use super::kernels::{self, Heads};
use super::norm::RmsNorm;
use super::packed::Packed;
use crate::config::RopeFrequencies;

/// Cosines and sines of a batch.
#[derive(Debug)]
pub(crate) struct RotaryAngles {
    /// `[t, size / 2]`, f32.
    cosines: Tensor,
    /// `[t, size / 2]`, f32.
    sines: Tensor,
}

impl RotaryAngles {
    /// Of heads of `size` values.
    pub(super) fn new(packed: &Packed, frequencies: RopeFrequencies, size: usize) -> Result<Self, TchError> {
        let float = (Kind::Float, packed.ids.device());
        // In f32 step by step, as transformers computes them: far positions would tell the difference.
        let exponents = Tensor::f_arange_start_step(0, size as i64, 2, float)?.f_div_scalar(size as f64)?;
        let base = Tensor::f_full([1], frequencies.theta, float)?;
        let mut inverse = base.f_pow(&exponents)?.f_reciprocal()?;
        if frequencies.factor.to_bits() != 1.0_f64.to_bits() {
            inverse = inverse.f_div_scalar(frequencies.factor)?;
        }
        let positions = packed.positions.f_to_kind(Kind::Float)?.f_unsqueeze(1)?;
        let angles = positions.f_mul(&inverse.f_unsqueeze(0)?)?;
        Ok(Self {
            cosines: angles.f_cos()?,
            sines: angles.f_sin()?,
        })
    }

    /// Queries, keys and values side by side, `[t, width]`: the first two normalised by `norms`, where there are some,
    /// and rotated.
    pub(super) fn apply(
        &self,
        exec: Exec,
        all: &Tensor,
        heads: Heads,
        norms: Option<&[RmsNorm; 2]>,
    ) -> Result<Tensor, TchError> {
        if exec.by_kernels() && !all.requires_grad() {
            let scales = match norms {
                None => None,
                Some([query, key]) => Some(([query.scale()?, key.scale()?], query.epsilon())),
            };
            let learned = |scales: &[Tensor; 2]| scales.iter().any(Tensor::requires_grad);
            let scales = scales.as_ref().map(|(scales, epsilon)| (scales, *epsilon));
            if !scales.is_some_and(|(scales, _)| learned(scales))
                && let Some(rotated) = kernels::rotate(exec, heads, all, [&self.cosines, &self.sines], scales)?
            {
                return Ok(rotated);
            }
        }
        let (tokens, size) = (all.size2()?.0, heads.size as i64);
        let of = |first: usize, count: usize| {
            all.f_narrow(1, first as i64 * size, count as i64 * size)?
                .f_reshape([tokens, count as i64, size])
        };
        let (mut query, mut key) = (of(0, heads.count)?, of(heads.count, heads.keys)?);
        let value = of(heads.count + heads.keys, heads.keys)?;
        if let Some([of_queries, of_keys]) = norms {
            query = of_queries.forward(exec, &query)?.f_to_kind(all.kind())?;
            key = of_keys.forward(exec, &key)?.f_to_kind(all.kind())?;
        }
        let parts = [self.rotated(&query)?, self.rotated(&key)?, value];
        Tensor::f_cat(&parts, 1)?.f_reshape([tokens, -1])
    }

    /// `[t, heads, size]`, in f32 and back.
    fn rotated(&self, values: &Tensor) -> Result<Tensor, TchError> {
        let wide = values.f_to_kind(Kind::Float)?;
        let halves = wide.f_chunk(2, -1)?;
        let [first, second] = &halves[..] else {
            return Err(TchError::Shape(format!("expected two halves, got: {}", halves.len())));
        };
        let (cosines, sines) = (self.cosines.f_unsqueeze(1)?, self.sines.f_unsqueeze(1)?);
        let turned = [
            first.f_mul(&cosines)?.f_sub(&second.f_mul(&sines)?)?,
            second.f_mul(&cosines)?.f_add(&first.f_mul(&sines)?)?,
        ];
        Tensor::f_cat(&turned, -1)?.f_to_kind(values.kind())
    }
}
