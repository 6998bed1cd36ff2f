//! From token vectors to one vector per text, in f32 whatever the network's dtype.

use tch::{Kind, TchError, Tensor};

use super::packed::{Packed, joined};
use crate::bundle::{PoolingConfig, PoolingMode};

#[derive(Debug, Clone)]
pub(crate) struct Pooling {
    config: PoolingConfig,
}

impl Pooling {
    pub(crate) fn new(config: PoolingConfig) -> Self {
        Self { config }
    }

    /// Token vectors `[t, h]` to `[rows, modes * h]` in f32.
    pub(crate) fn forward(&self, hidden: &Tensor, packed: &Packed) -> Result<Tensor, TchError> {
        let skipped = if self.config.include_prompt { 0 } else { packed.prompt };
        let runs = packed.runs_of(hidden)?;
        let pooled = packed.runs.iter().zip(&runs).map(|(run, hidden)| {
            // What follows the prompt, at least the token behind the text.
            let skipped = skipped.min(run.tokens - 1);
            let tokens = hidden.f_to_kind(Kind::Float)?.f_narrow(1, skipped, run.tokens - skipped)?;
            let modes = self.config.modes.iter().map(|mode| pool(*mode, &tokens, skipped));
            Tensor::f_cat(&modes.collect::<Result<Vec<Tensor>, _>>()?, 1)
        });
        joined(pooled.collect::<Result<_, _>>()?)
    }
}

/// `[rows, s, h] -> [rows, h]`; `skipped` tokens stood before the first.
fn pool(mode: PoolingMode, tokens: &Tensor, skipped: i64) -> Result<Tensor, TchError> {
    let along = &[1i64][..];
    match mode {
        PoolingMode::Cls => tokens.f_select(1, 0),
        PoolingMode::Max => tokens.f_amax(along, false),
        PoolingMode::Mean => tokens.f_mean_dim(along, false, None::<Kind>),
        PoolingMode::MeanSqrtLength => {
            let count = tokens.size().get(1).copied().unwrap_or(1) as f64;
            tokens.f_sum_dim_intlist(along, false, None::<Kind>)?.f_div_scalar(count.sqrt())
        }
        PoolingMode::WeightedMean => {
            // The place of each token from 1, as a weight (Muennighoff 2022, "SGPT").
            let end = skipped + tokens.size().get(1).copied().unwrap_or(1);
            let places = Tensor::f_arange_start(skipped + 1, end + 1, (Kind::Float, tokens.device()))?;
            let weights = places.f_div(&places.f_sum(None::<Kind>)?)?.f_view([1, -1, 1])?;
            tokens.f_mul(&weights)?.f_sum_dim_intlist(along, false, None::<Kind>)
        }
        PoolingMode::LastToken => tokens.f_select(1, -1),
    }
}
