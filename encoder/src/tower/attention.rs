//! Multi-head self-attention (Vaswani et al. 2017, section 3.2.2) through torch's fused kernel.

use tch::{TchError, Tensor};

use super::linear::Linear;
use super::packed::{Packed, joined};
use super::parameters::Parameters;
use crate::error::Error;

/// Sizes and names of one attention.
#[derive(Debug, Clone)]
pub(crate) struct AttentionShape {
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) head_size: usize,
    /// Maps with a bias vector.
    pub(crate) bias: bool,
    /// What scores are multiplied with; `1 / sqrt(head_size)` where absent.
    pub(crate) scale: Option<f64>,
}

#[derive(Debug)]
pub(crate) struct SelfAttention {
    /// Query, key and value maps as one.
    query_key_value: Linear,
    output: Linear,
    heads: i64,
    head_size: i64,
    scale: Option<f64>,
}

impl SelfAttention {
    /// Reads the maps of query, key, value and output by their names.
    pub(crate) fn load(
        parameters: &mut dyn Parameters,
        names: [String; 4],
        shape: &AttentionShape,
    ) -> Result<Self, Error> {
        let AttentionShape { hidden, heads, head_size, bias, scale } = *shape;
        let inner = heads * head_size;
        let [query, key, value, output] = names;
        let query_key_value = Linear::load_joined(parameters, &[query, key, value], hidden, inner, bias)?;
        let output = Linear::load(parameters, &output, inner, hidden, bias)?;
        Ok(Self { query_key_value, output, heads: heads as i64, head_size: head_size as i64, scale })
    }

    /// `[t, h] -> [t, h]`. `biases`, one per run and `[1, heads, s, s]`, are added to the scores.
    pub(crate) fn forward(
        &self,
        input: &Tensor,
        packed: &Packed,
        biases: Option<&[Tensor]>,
    ) -> Result<Tensor, TchError> {
        let all = self.query_key_value.forward(input)?;
        let runs = packed.runs_of(&all)?;
        let attend = |(number, (run, all)): (usize, (&super::packed::Run, &Tensor))| {
            // [rows, s, 3 * inner] -> [3, rows, heads, s, head_size]
            let parts =
                all.f_view([run.rows, run.tokens, 3, self.heads, self.head_size])?.f_permute([2, 0, 3, 1, 4])?;
            let (query, key, value) = (parts.f_select(0, 0)?, parts.f_select(0, 1)?, parts.f_select(0, 2)?);
            let bias = biases.and_then(|biases| biases.get(number));
            let bias = bias.map(|bias| bias.f_to_kind(query.kind())).transpose()?;
            let context =
                Tensor::f_scaled_dot_product_attention(&query, &key, &value, bias, 0.0, false, self.scale, false)?;
            context.f_transpose(1, 2)?.f_reshape([run.rows * run.tokens, self.heads * self.head_size])
        };
        let contexts: Vec<Tensor> = packed.runs.iter().zip(&runs).enumerate().map(attend).collect::<Result<_, _>>()?;
        self.output.forward(&joined(contexts)?)
    }
}
