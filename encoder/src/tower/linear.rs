//! An affine map: `y = x W^T + b`.
//!
//! On the CPU in f32 torch multiplies with MKL, which on AMD processors (measured: EPYC, Zen 5) runs at half the speed of
//! oneDNN's kernels in the same library; so products of enough rows go through oneDNN. Results differ by f32 rounding only.

use tch::{Device, Kind, TchError, Tensor};

use crate::bundle::WeightsFile;
use crate::error::{Error, torch};

/// Rows from which oneDNN pays: below, changing the layout of input and output costs more than it gains.
const ONEDNN_ROWS: i64 = 64;

/// Weight `[out, in]` and bias `[out]`.
#[derive(Debug)]
pub(crate) struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
    /// The weight in oneDNN's layout, where it can be used.
    onednn: Option<Tensor>,
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
        Self::new(weight, bias)
    }

    /// Reads several maps of one input as one, their outputs side by side: a large product is faster than small ones.
    pub(crate) fn load_joined(
        file: &mut WeightsFile,
        names: &[String],
        input: usize,
        output: usize,
    ) -> Result<Self, Error> {
        let mut take = |part: &str, shape: &[usize]| -> Result<Tensor, Error> {
            let tensors: Vec<Tensor> =
                names.iter().map(|name| file.take(&format!("{name}.{part}"), shape)).collect::<Result<_, _>>()?;
            Tensor::f_cat(&tensors, 0).map_err(torch("joining weights"))
        };
        let weight = take("weight", &[output, input])?;
        let bias = take("bias", &[output])?;
        Self::new(weight, Some(bias))
    }

    fn new(weight: Tensor, bias: Option<Tensor>) -> Result<Self, Error> {
        let usable = weight.device() == Device::Cpu && weight.kind() == Kind::Float && tch::utils::has_mkldnn();
        let onednn = if usable {
            Some(weight.f_to_mkldnn(None::<Kind>).map_err(torch("laying weights out for oneDNN"))?)
        } else {
            None
        };
        Ok(Self { weight, bias, onednn })
    }

    /// `[.., in] -> [.., out]`.
    pub(crate) fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let size = input.size();
        let rows: i64 = size.iter().rev().skip(1).product();
        match &self.onednn {
            Some(weight) if rows >= ONEDNN_ROWS => {
                let input = input.f_contiguous()?.f_to_mkldnn(None::<Kind>)?;
                input.f_mkldnn_linear(weight, self.bias.as_ref())?.f_to_dense(None::<Kind>, false)
            }
            _ => input.f_linear(&self.weight, self.bias.as_ref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every size through torch's own product is the oracle.
    #[test]
    fn both_ways_give_the_same_product() {
        tch::manual_seed(3);
        for (input, output) in [(16, 24), (384, 1152), (33, 7)] {
            let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
            let linear = Linear::new(draw(&[output, input]), Some(draw(&[output]))).unwrap();
            for (rows, tokens) in [(1, 1), (1, 63), (1, 64), (3, 50), (7, 129)] {
                let x = draw(&[rows, tokens, input]);
                let (ours, expected) = (linear.forward(&x).unwrap(), x.linear(&linear.weight, linear.bias.as_ref()));
                assert_eq!(ours.size(), expected.size());
                let difference = (ours - expected).abs().max().double_value(&[]);
                assert!(difference < 1e-3, "{rows} x {tokens} x {input} -> {output}: {difference}");
            }
        }
    }
}
