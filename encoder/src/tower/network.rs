//! The whole way of one batch: transformer, pooling, projections, unit length.

use tch::{Device, Kind, TchError, Tensor};

use super::pooling::PooledTokens;
use super::{Bert, Dense, Pooling};
use crate::error::{Error, torch};
use crate::tokenize::Batch;

/// Below this length a vector counts as zero, as in `torch.nn.functional.normalize`.
const SMALLEST_NORM: f64 = 1e-12;

/// A step after pooling.
#[derive(Debug)]
pub(crate) enum Step {
    Dense(Dense),
    Normalize,
}

/// A siamese encoder: both towers run it, with their own prompts.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) transformer: Bert,
    pub(crate) pooling: Pooling,
    pub(crate) steps: Vec<Step>,
    /// Length of a vector.
    pub(crate) dim: usize,
    pub(crate) device: Device,
}

impl Network {
    /// Embeds a batch: `batch.rows() * dim` values, row-major, every row of unit length.
    pub(crate) fn embed(&self, batch: &Batch) -> Result<Vec<f32>, Error> {
        let vectors = tch::no_grad(|| self.forward(batch)).map_err(torch("embedding a batch"))?;
        let values = batch.rows() * self.dim;
        let mut rows = vec![0.0_f32; values];
        vectors.f_copy_data(&mut rows, values).map_err(torch("copying vectors from the device"))?;
        if rows.iter().all(|value| value.is_finite()) { Ok(rows) } else { Err(Error::NotFinite) }
    }

    /// `[rows, dim]` in f32 on the CPU.
    fn forward(&self, batch: &Batch) -> Result<Tensor, TchError> {
        let (rows, width) = (batch.rows() as i64, batch.width() as i64);
        let ids = Tensor::f_from_slice(batch.ids())?.f_view([rows, width])?.f_to_device(self.device)?;
        let positions = Tensor::f_arange(width, (Kind::Int64, self.device))?;
        let lengths = Tensor::f_from_slice(batch.lengths())?.f_view([rows, 1])?.f_to_device(self.device)?;
        let real = positions.f_lt_tensor(&lengths)?;
        let attended = if batch.is_full() { None } else { Some(real.f_view([rows, 1, 1, width])?) };
        let hidden = self.transformer.forward(&ids, attended.as_ref())?;

        let prompt = if self.pooling.include_prompt() { 0 } else { batch.prompt_tokens() as i64 };
        let tokens = PooledTokens {
            mask: if prompt == 0 { real } else { real.f_logical_and(&positions.f_ge(prompt)?)? },
            first: prompt,
            full: batch.is_full() && prompt == 0,
        };
        let mut vectors = self.pooling.forward(&hidden, &tokens)?;
        for step in &self.steps {
            vectors = match step {
                Step::Dense(dense) => dense.forward(&vectors)?,
                Step::Normalize => unit_length(&vectors)?,
            };
        }
        // A no-op in the common case; it undoes nothing, and makes every model's vectors fit a cosine index.
        unit_length(&vectors.f_narrow(1, 0, self.dim as i64)?)?.f_to_device(Device::Cpu)?.f_contiguous()
    }
}

fn unit_length(vectors: &Tensor) -> Result<Tensor, TchError> {
    let norms = vectors.f_linalg_norm(2.0, &[1i64][..], true, None::<Kind>)?;
    vectors.f_div(&norms.f_clamp_min(SMALLEST_NORM)?)
}
