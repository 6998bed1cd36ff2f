//! Affine maps, `y = x W^T + b`, and two of them with an activation between.
//!
//! On the CPU in f32 torch multiplies with MKL, which on AMD processors (measured: EPYC, Zen 5) runs at half the speed of
//! oneDNN's kernels in the same library; so products of enough rows go through oneDNN. Results differ by f32 rounding only.

use tch::{Device, Kind, TchError, Tensor};

use super::parameters::Parameters;
use crate::bundle::HiddenActivation;
use crate::error::{Error, torch};

/// Rows from which oneDNN pays: below, changing the layout of input and output costs more than it gains.
const ONEDNN_ROWS: i64 = 64;

/// Weight `[out, in]` and bias `[out]`.
#[derive(Debug)]
struct Map {
    weight: Tensor,
    bias: Option<Tensor>,
}

/// One map, or several of one input with their outputs side by side: a large product is faster than small ones.
#[derive(Debug)]
pub(crate) struct Linear {
    /// One, unless the maps are to be learned: then each is a tensor of its own.
    maps: Vec<Map>,
    /// The weight in oneDNN's layout, where it can be used.
    onednn: Option<Tensor>,
    /// Multiplies in bfloat16 whatever the weight's number type (mixed precision, Micikevicius et al. 2018).
    mixed: bool,
}

impl Linear {
    /// Reads `{name}.weight` and, if `bias`, `{name}.bias`.
    pub(crate) fn load(
        parameters: &mut dyn Parameters,
        name: &str,
        input: usize,
        output: usize,
        bias: bool,
    ) -> Result<Self, Error> {
        Self::load_joined(parameters, &[name.to_owned()], input, output, bias)
    }

    /// Reads several maps of one input as one.
    pub(crate) fn load_joined(
        parameters: &mut dyn Parameters,
        names: &[String],
        input: usize,
        output: usize,
        bias: bool,
    ) -> Result<Self, Error> {
        let maps = names.iter().map(|name| {
            let weight = parameters.take(&format!("{name}.weight"), &[output, input])?;
            let bias = if bias { Some(parameters.take(&format!("{name}.bias"), &[output])?) } else { None };
            Ok(Map { weight, bias })
        });
        let maps = maps.collect::<Result<Vec<Map>, Error>>()?;
        if parameters.trainable() {
            Ok(Self { maps, onednn: None, mixed: parameters.mixed() })
        } else {
            Self::fixed(&maps)
        }
    }

    /// Maps that stay as they are: joined, and laid out for oneDNN.
    fn fixed(maps: &[Map]) -> Result<Self, Error> {
        let map = join(maps).map_err(torch("joining weights"))?;
        let usable = map.weight.device() == Device::Cpu && map.weight.kind() == Kind::Float && tch::utils::has_mkldnn();
        let onednn = if usable {
            Some(map.weight.f_to_mkldnn(None::<Kind>).map_err(torch("laying weights out for oneDNN"))?)
        } else {
            None
        };
        Ok(Self { maps: vec![map], onednn, mixed: false })
    }

    /// `[.., in] -> [.., out]`.
    pub(crate) fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        if self.mixed {
            let map = join(&self.maps)?;
            let narrow = |tensor: &Tensor| tensor.f_to_kind(Kind::BFloat16);
            let bias = map.bias.as_ref().map(narrow).transpose()?;
            return narrow(input)?.f_linear(&narrow(&map.weight)?, bias.as_ref());
        }
        match (&self.onednn, self.maps.as_slice()) {
            (Some(weight), [map]) if rows(input) >= ONEDNN_ROWS => {
                let input = input.f_contiguous()?.f_to_mkldnn(None::<Kind>)?;
                input.f_mkldnn_linear(weight, map.bias.as_ref())?.f_to_dense(None::<Kind>, false)
            }
            (_, [map]) => input.f_linear(&map.weight, map.bias.as_ref()),
            (_, maps) => {
                let map = join(maps)?;
                input.f_linear(&map.weight, map.bias.as_ref())
            }
        }
    }

    /// Weight in oneDNN's layout, and bias, for products whose input already is in it.
    fn onednn(&self) -> Option<(&Tensor, Option<&Tensor>)> {
        Some((self.onednn.as_ref()?, self.maps.first()?.bias.as_ref()))
    }
}

fn join(maps: &[Map]) -> Result<Map, TchError> {
    if let [map] = maps {
        return Ok(Map { weight: map.weight.shallow_clone(), bias: map.bias.as_ref().map(Tensor::shallow_clone) });
    }
    let weights: Vec<&Tensor> = maps.iter().map(|map| &map.weight).collect();
    let biases: Vec<&Tensor> = maps.iter().filter_map(|map| map.bias.as_ref()).collect();
    let bias = if biases.is_empty() { None } else { Some(Tensor::f_cat(&biases, 0)?) };
    Ok(Map { weight: Tensor::f_cat(&weights, 0)?, bias })
}

fn rows(input: &Tensor) -> i64 {
    input.size().iter().rev().skip(1).product()
}

/// The feed-forward block of a transformer: wide, activated, narrow again.
#[derive(Debug)]
pub(crate) struct FeedForward {
    pub(crate) widen: Linear,
    pub(crate) narrow: Linear,
    pub(crate) activation: HiddenActivation,
    /// `widen` gives two halves; the activated first one gates the second (Shazeer 2020).
    pub(crate) gated: bool,
}

impl FeedForward {
    /// `[t, h] -> [t, h]`.
    pub(crate) fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        // oneDNN's own layout from the first product to the last: the widest tensors of the network are not copied.
        let pointwise = !self.gated && self.activation != HiddenActivation::GeluTanh;
        if let (Some((widen, widen_bias)), Some((narrow, narrow_bias)), true) =
            (self.widen.onednn(), self.narrow.onednn(), pointwise && rows(input) >= ONEDNN_ROWS)
        {
            let wide = input.f_contiguous()?.f_to_mkldnn(None::<Kind>)?.f_mkldnn_linear(widen, widen_bias)?;
            let wide = activated(self.activation, &wide)?.f_mkldnn_linear(narrow, narrow_bias)?;
            return wide.f_to_dense(None::<Kind>, false);
        }
        let wide = self.widen.forward(input)?;
        let wide = if self.gated {
            let half = wide.size().last().copied().unwrap_or(0) / 2;
            activated(self.activation, &wide.f_narrow(-1, 0, half)?)?.f_mul(&wide.f_narrow(-1, half, half)?)?
        } else {
            activated(self.activation, &wide)?
        };
        self.narrow.forward(&wide)
    }
}

fn activated(activation: HiddenActivation, wide: &Tensor) -> Result<Tensor, TchError> {
    match activation {
        HiddenActivation::Gelu => wide.f_gelu("none"),
        HiddenActivation::GeluTanh => wide.f_gelu("tanh"),
        HiddenActivation::Relu => wide.f_relu(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(size: &[i64]) -> Tensor {
        Tensor::randn(size, (Kind::Float, Device::Cpu))
    }

    fn apart(a: &Tensor, b: &Tensor) -> f64 {
        assert_eq!(a.size(), b.size());
        (a - b).abs().max().double_value(&[])
    }

    fn map(output: i64, input: i64, bias: bool) -> Map {
        Map { weight: draw(&[output, input]), bias: bias.then(|| draw(&[output])) }
    }

    /// Torch's own product.
    fn plain(map: &Map, x: &Tensor) -> Tensor {
        x.linear(&map.weight, map.bias.as_ref())
    }

    #[test]
    fn every_way_gives_the_same_product() {
        tch::manual_seed(3);
        for (input, output) in [(16, 24), (384, 1152), (33, 7)] {
            let fixed = Linear::fixed(&[map(output, input, true), map(output, input, true)]).unwrap();
            let halves = |tensor: &Tensor| tensor.chunk(2, 0);
            let [joined] = fixed.maps.as_slice() else { panic!("one map") };
            let (weights, biases) = (halves(&joined.weight), halves(joined.bias.as_ref().unwrap()));
            let maps = weights.into_iter().zip(biases).map(|(weight, bias)| Map { weight, bias: Some(bias) });
            let learned = Linear { maps: maps.collect(), onednn: None, mixed: false };
            for rows in [1, 63, 64, 150, 7 * 129] {
                let x = draw(&[rows, input]);
                let expected = plain(joined, &x);
                for linear in [&fixed, &learned] {
                    let difference = apart(&linear.forward(&x).unwrap(), &expected);
                    assert!(difference < 1e-3, "{rows} x {input} -> {output}: {difference}");
                }
            }
        }
    }

    #[test]
    fn both_ways_give_the_same_block() {
        tch::manual_seed(4);
        for (activation, gated) in [
            (HiddenActivation::Gelu, false),
            (HiddenActivation::Relu, false),
            (HiddenActivation::GeluTanh, false),
            (HiddenActivation::GeluTanh, true),
        ] {
            let widen = Linear::fixed(&[map(if gated { 96 } else { 48 }, 16, true)]).unwrap();
            let narrow = Linear::fixed(&[map(16, 48, false)]).unwrap();
            let block = FeedForward { widen, narrow, activation, gated };
            let act = |x: &Tensor| match activation {
                HiddenActivation::Gelu => x.gelu("none"),
                HiddenActivation::GeluTanh => x.gelu("tanh"),
                HiddenActivation::Relu => x.relu(),
            };
            for rows in [1, 64, 300] {
                let x = draw(&[rows, 16]);
                let wide = plain(&block.widen.maps[0], &x);
                let wide = if gated { act(&wide.narrow(1, 0, 48)) * wide.narrow(1, 48, 48) } else { act(&wide) };
                let expected = plain(&block.narrow.maps[0], &wide);
                let difference = apart(&block.forward(&x).unwrap(), &expected);
                assert!(difference < 1e-3, "{activation:?} {gated} {rows}: {difference}");
            }
        }
    }
}
