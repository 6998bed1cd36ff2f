//! How a map multiplies: by our kernel, torch's way, oneDNN's, or in int8.
//!
//! * **f32 on the CPU**, where the processor has AVX-512: by our kernel over a weight packed once
//!   (`kernels/product.rs`), which activates what it has made too.
//! * **f32 on other CPUs**, and where the weight learns. torch gives `linear` to MKL, whose kernels for AMD processors
//!   use half of AVX-512 (measured: EPYC, Zen 5: half the speed; Zen 4: 0.9). oneDNN, in the same library, has kernels
//!   for what is there, and torch reaches them without copies through a convolution of kernel size 1 over "pixels" that
//!   are tokens, channels last: `y = x W^T + b` to the letter. Results differ from torch's by f32 rounding only.
//! * **int8 on the CPU.** Weights are rounded once, each output's row by its own scale; inputs at every call, each
//!   token by its own: `y_ij = s_i w_j sum_k q_ik v_jk + b_j` with whole numbers from -127 to 127 (dynamic
//!   quantisation; symmetric, as in Wu et al. 2020, "Integer quantization for deep learning inference", section 3). A
//!   text's vector therefore does not depend on its neighbours in a batch. By our kernel (`kernels/product_int8.rs`)
//!   where the processor has AVX-512 VNNI; elsewhere products are oneDNN's, with sums in 32 bits either way. For x86
//!   processors with AVX2 alone oneDNN has only its reference code (measured on an EPYC, Zen 1: 21 times the time of
//!   f32): there the same whole numbers are multiplied in f32, whose sums are exact up to 2^24, those of 1,040 products
//!   at least.
//!
//! | file | what |
//! |---|---|
//! | `tests.rs` | every way of multiplying against torch and against plain loops |

use std::sync::Arc;

use tch::{Device, Kind, TchError, Tensor};

use super::exec::Exec;
use super::kernels::{self, LARGEST, SMALLEST, WeightPanels};
use super::runs::RunCosts;
use super::shared_tensor::SharedTensor;
use crate::config::HiddenActivation;

#[cfg(test)]
mod tests;

/// Rows from which oneDNN's f32 product pays: it lays the weight out at every call.
const ONEDNN_ROWS: i64 = 64;

/// How many tokens a batch is padded to.
///
/// oneDNN compiles a kernel for every number of rows, and caches a thousand of them. Nearly every batch of real texts
/// has a number of tokens of its own; rounded up, a few dozen remain, for at most 3 % more rows in a full batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Padding {
    /// No padding: no product is oneDNN's.
    No,
    /// Only of large batches: f32 products of few rows are torch's.
    Many,
    /// Of the rows themselves, up to the longest of their neighbours: on a GPU, where each run costs launches.
    Rows(RunCosts),
    /// Always: products of int8 and the half precisions are oneDNN's, whatever the number of rows.
    All,
}

impl Padding {
    /// At least `tokens`.
    pub(super) fn up(self, tokens: usize) -> usize {
        let onednn = tokens >= ONEDNN_ROWS as usize;
        match self {
            Self::Many | Self::All if onednn => tokens.next_multiple_of(64),
            Self::All => tokens.next_multiple_of(8),
            Self::No | Self::Many | Self::Rows(_) => tokens,
        }
    }
}

/// A map's weight as its product takes it.
#[derive(Debug, Clone)]
enum Weight {
    /// The weight packed for our kernel in f32 or int8, with the bias.
    Panels(Arc<WeightPanels>),
    /// `[out, in]`.
    Torch(SharedTensor),
    /// `[out, in]`, and the same memory as a convolution's, `[out, in, 1, 1]`.
    OneDnn { weight: SharedTensor, kernel: SharedTensor },
    /// Whole numbers `[in, out]`, and what one step of each output's is worth, `[out]`.
    Int8 { values: SharedTensor, steps: SharedTensor },
    /// The same whole numbers in f32, without a bias.
    Whole { product: Box<Product>, steps: SharedTensor },
}

/// Whether products on the CPU, in f32 or `int8`, use our kernels, which share the work among threads themselves.
pub(crate) fn by_kernels(int8: bool) -> bool {
    kernels::can_multiply(int8)
}

/// A map that stays as it is.
#[derive(Debug, Clone)]
pub(crate) struct Product {
    weight: Weight,
    /// `[out]`.
    bias: Option<SharedTensor>,
}

impl Product {
    /// Makes a product of a weight `[out, in]`, rounded if `int8`, and a bias `[out]`.
    pub(super) fn of(weight: Tensor, bias: Option<Tensor>, int8: bool) -> Result<Self, TchError> {
        let weight = if let Some(panels) = kernels::pack_weights(&weight, bias.as_ref(), int8)? {
            return Ok(Self {
                weight: Weight::Panels(Arc::new(panels)),
                bias: None,
            });
        } else if int8 {
            if has_int8() {
                quantized(&weight)?
            } else {
                whole(&weight)?
            }
        } else if weight.device() == Device::Cpu && weight.kind() == Kind::Float && tch::utils::has_mkldnn() {
            by_onednn(weight)?
        } else {
            Weight::Torch(weight.into())
        };
        Ok(Self {
            weight,
            bias: bias.map(SharedTensor::from),
        })
    }

    /// `[.., in] -> [.., out]`.
    pub(super) fn forward(&self, exec: Exec, input: &Tensor) -> Result<Tensor, TchError> {
        self.activated(exec, input, None)
    }

    /// `[.., in] -> [.., out]`, activated.
    pub(super) fn activated(
        &self,
        exec: Exec,
        input: &Tensor,
        activation: Option<HiddenActivation>,
    ) -> Result<Tensor, TchError> {
        let bias = self.bias.as_deref();
        let width = input.size().last().copied().unwrap_or(0);
        let rows = input.size().iter().rev().skip(1).product::<i64>();
        let shaped = |output: Tensor| {
            let mut size = input.size();
            size.pop();
            size.extend(output.size().last());
            output.f_reshape(&size)
        };
        let mut made = match &self.weight {
            Weight::Panels(panels) => {
                return shaped(kernels::multiply(
                    exec,
                    panels,
                    &input.f_reshape([rows, width])?,
                    activation,
                )?);
            }
            Weight::OneDnn { kernel, .. } if rows >= ONEDNN_ROWS => {
                shaped(convolved(&input.f_reshape([rows, width])?, kernel, bias)?)
            }
            Weight::Int8 { values, steps } => {
                let (input, worth) = quantize(&input.f_reshape([rows, width])?)?;
                let sums = input
                    .f_to_kind(Kind::Int8)?
                    .f_internal_int_mm(values)?
                    .f_to_kind(Kind::Float)?;
                shaped(scaled(sums, &worth, steps, bias)?)
            }
            Weight::Whole { product, steps } => {
                let (input, worth) = quantize(&input.f_reshape([rows, width])?)?;
                shaped(scaled(product.forward(exec, &input)?, &worth, steps, bias)?)
            }
            Weight::Torch(weight) | Weight::OneDnn { weight, .. } => input.f_linear(weight, bias),
        }?;
        // In place: it is not shared.
        match activation {
            None => Ok(made),
            Some(HiddenActivation::Gelu) => made.f_gelu_("none"),
            Some(HiddenActivation::GeluTanh) => made.f_gelu_("tanh"),
            Some(HiddenActivation::Relu) => made.f_relu_(),
            Some(HiddenActivation::Silu) => made.f_silu_(),
        }
    }
}

fn quantized(weight: &Tensor) -> Result<Weight, TchError> {
    let (values, steps) = quantize(weight)?;
    let values = values.f_to_kind(Kind::Int8)?.f_transpose(0, 1)?.f_contiguous()?.into();
    Ok(Weight::Int8 {
        values,
        steps: steps.f_squeeze_dim(1)?.into(),
    })
}

fn whole(weight: &Tensor) -> Result<Weight, TchError> {
    let (values, steps) = quantize(weight)?;
    Ok(Weight::Whole {
        product: Box::new(Product::of(values, None, false)?),
        steps: steps.f_squeeze_dim(1)?.into(),
    })
}

/// Whether oneDNN's products of int8 are more than its reference code.
fn has_int8() -> bool {
    #[cfg(target_arch = "x86_64")]
    return [
        std::arch::is_x86_feature_detected!("avx512bw"),
        std::arch::is_x86_feature_detected!("avxvnni"),
    ]
    .contains(&true);
    #[cfg(not(target_arch = "x86_64"))]
    true
}

fn by_onednn(weight: Tensor) -> Result<Weight, TchError> {
    let kernel = weight.f_unsqueeze(-1)?.f_unsqueeze(-1)?.into();
    Ok(Weight::OneDnn {
        weight: weight.into(),
        kernel,
    })
}

/// `[t, in]` by one map, activated, and by the `next` one; nothing where they are not our kernel's.
pub(super) fn fused_mlp(
    exec: Exec,
    first: &Product,
    next: &Product,
    input: &Tensor,
    activation: HiddenActivation,
) -> Result<Option<Tensor>, TchError> {
    match (&first.weight, &next.weight) {
        (Weight::Panels(first), Weight::Panels(next)) => {
            kernels::fused_mlp(exec, first, next, input, activation).map(Some)
        }
        _ => Ok(None),
    }
}

/// `[rows, in]` times a kernel `[out, in, 1, 1]`: `[rows, out]`.
fn convolved(input: &Tensor, kernel: &Tensor, bias: Option<&Tensor>) -> Result<Tensor, TchError> {
    let (rows, width) = input.size2()?;
    let pixels = input
        .f_contiguous()?
        .f_view([1, 1, rows, width])?
        .f_permute([0, 3, 1, 2])?;
    let output = pixels.f_mkldnn_convolution(kernel, bias, [0, 0], [1, 1], [1, 1], 1)?;
    output.f_permute([0, 2, 3, 1])?.f_reshape([rows, -1])
}

/// `[.., in] -> [.., out]` by a weight that learns: the same product, and on the way back both products of its
/// gradients.
pub(super) fn learned(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor, TchError> {
    let usable = weight.device() == Device::Cpu && weight.kind() == Kind::Float && input.kind() == Kind::Float;
    match input.size2() {
        Ok((rows, _)) if usable && rows >= ONEDNN_ROWS && tch::utils::has_mkldnn() => {
            convolved(input, &weight.f_unsqueeze(-1)?.f_unsqueeze(-1)?, bias)
        }
        _ => input.f_linear(weight, bias),
    }
}

/// Sums of products of whole numbers `[n, out]`, by what a step of each row `[n, 1]` and of each output `[out]` is
/// worth.
fn scaled(mut sums: Tensor, worth: &Tensor, steps: &Tensor, bias: Option<&Tensor>) -> Result<Tensor, TchError> {
    let sums = sums.f_mul_(worth)?;
    match bias {
        Some(bias) => bias.f_addcmul(&sums, steps),
        None => sums.f_mul(steps),
    }
}

/// Rows `[n, m]` of numbers as whole ones from -127 to 127, and what one step of each row is worth, `[n, 1]`.
fn quantize(rows: &Tensor) -> Result<(Tensor, Tensor), TchError> {
    // Two reductions that are vectorised; those of `norm` and `aminmax` are not, and took ten times as long.
    let mut largest = rows.f_amax([1], true)?.f_maximum(&rows.f_amin([1], true)?.f_neg_()?)?;
    let steps = largest
        .f_clamp_min_(f64::from(SMALLEST))?
        .f_div_scalar_(f64::from(LARGEST))?;
    let values = rows.f_div(&steps)?.f_round_()?;
    Ok((values, steps))
}
