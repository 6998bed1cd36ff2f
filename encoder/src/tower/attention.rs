//! Multi-head self-attention (Vaswani et al. 2017, section 3.2.2) through torch's fused kernel.

use tch::{TchError, Tensor};

use super::linear::Linear;
use crate::bundle::WeightsFile;
use crate::error::Error;

#[derive(Debug)]
pub(crate) struct SelfAttention {
    /// Query, key and value maps as one.
    query_key_value: Linear,
    output: Linear,
    heads: i64,
    head_size: i64,
}

impl SelfAttention {
    /// Reads `{name}.self.{query,key,value}` and `{name}.output.dense`.
    pub(crate) fn load(file: &mut WeightsFile, name: &str, hidden: usize, heads: usize) -> Result<Self, Error> {
        let names = ["query", "key", "value"].map(|part| format!("{name}.self.{part}"));
        let query_key_value = Linear::load_joined(file, &names, hidden, hidden)?;
        let output = Linear::load(file, &format!("{name}.output.dense"), hidden, hidden)?;
        Ok(Self { query_key_value, output, heads: heads as i64, head_size: (hidden / heads) as i64 })
    }

    /// `[b, s, h] -> [b, s, h]`; `mask` is `[b, 1, 1, s]`, true where a token may be attended to, and absent where every
    /// row is full.
    pub(crate) fn forward(&self, input: &Tensor, mask: Option<&Tensor>) -> Result<Tensor, TchError> {
        let (rows, tokens, hidden) = input.size3()?;
        // [b, s, 3h] -> [3, b, heads, s, head_size]
        let joined = self
            .query_key_value
            .forward(input)?
            .f_view([rows, tokens, 3, self.heads, self.head_size])?
            .f_permute([2, 0, 3, 1, 4])?;
        let (query, key, value) = (joined.f_select(0, 0)?, joined.f_select(0, 1)?, joined.f_select(0, 2)?);
        let context = Tensor::f_scaled_dot_product_attention(&query, &key, &value, mask, 0.0, false, None, false)?;
        self.output.forward(&context.f_transpose(1, 2)?.f_reshape([rows, tokens, hidden])?)
    }
}
