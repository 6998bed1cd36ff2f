//! From token vectors to one vector per text: mean, cls and max, in f32 whatever the network's dtype.

use tch::{Kind, TchError, Tensor};

use crate::bundle::{PoolingConfig, PoolingMode};

/// Which tokens of a padded batch are real and which of them are pooled.
#[derive(Debug)]
pub(crate) struct PooledTokens {
    /// `[b, s]`, true where a token is pooled: real, and behind the prompt where the prompt is left out.
    pub(crate) mask: Tensor,
    /// Position of the first pooled token, the same in every row.
    pub(crate) first: i64,
    /// Whether `mask` is true everywhere.
    pub(crate) full: bool,
}

#[derive(Debug)]
pub(crate) struct Pooling {
    config: PoolingConfig,
}

impl Pooling {
    pub(crate) fn new(config: PoolingConfig) -> Self {
        Self { config }
    }

    /// Whether the prompt's tokens take part.
    pub(crate) fn include_prompt(&self) -> bool {
        self.config.include_prompt
    }

    /// Length of the result for token vectors of this length.
    pub(crate) fn output_size(&self, hidden: usize) -> usize {
        hidden * self.config.modes.len()
    }

    /// Token vectors `[b, s, h]` to `[b, modes * h]` in f32.
    pub(crate) fn forward(&self, hidden: &Tensor, tokens: &PooledTokens) -> Result<Tensor, TchError> {
        let hidden = hidden.f_to_kind(Kind::Float)?;
        let pooled: Vec<Tensor> = self
            .config
            .modes
            .iter()
            .map(|mode| match mode {
                PoolingMode::Cls => hidden.f_select(1, tokens.first),
                PoolingMode::Max => maximum(&hidden, tokens),
                PoolingMode::Mean => mean(&hidden, tokens),
            })
            .collect::<Result<_, _>>()?;
        Tensor::f_cat(&pooled, 1)
    }
}

fn mean(hidden: &Tensor, tokens: &PooledTokens) -> Result<Tensor, TchError> {
    if tokens.full {
        return hidden.f_mean_dim(&[1i64][..], false, None::<Kind>);
    }
    // A product of matrices reads the token vectors once: [b, 1, s] x [b, s, h].
    let weights = tokens.mask.f_to_kind(Kind::Float)?;
    let counts = weights.f_sum_dim_intlist(&[1i64][..], true, None::<Kind>)?;
    weights.f_unsqueeze(1)?.f_bmm(hidden)?.f_squeeze_dim(1)?.f_div(&counts)
}

fn maximum(hidden: &Tensor, tokens: &PooledTokens) -> Result<Tensor, TchError> {
    let unpooled = tokens.mask.f_logical_not()?.f_unsqueeze(-1)?;
    hidden.f_masked_fill(&unpooled, f64::NEG_INFINITY)?.f_amax(&[1i64][..], false)
}
