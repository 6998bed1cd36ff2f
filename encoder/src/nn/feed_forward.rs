//! The feed-forward block of a transformer (Vaswani et al. 2017, section 3.3): wide, activated, narrow again.

use tch::{TchError, Tensor};

use super::exec::Exec;
use super::linear::Linear;
use super::product;
use crate::config::HiddenActivation;

#[derive(Debug, Clone)]
pub(crate) struct FeedForward {
    pub(crate) widen: Linear,
    pub(crate) narrow: Linear,
    pub(crate) activation: HiddenActivation,
    /// `widen` gives two halves; the activated first one gates the second (Shazeer 2020).
    pub(crate) gated: bool,
}

impl FeedForward {
    /// `[t, h] -> [t, h]`.
    pub(crate) fn forward(&self, exec: Exec, input: &Tensor) -> Result<Tensor, TchError> {
        if let (false, Linear::Fixed(widen), Linear::Fixed(narrow)) = (self.gated, &self.widen, &self.narrow)
            && let Some(made) = product::fused_mlp(exec, widen, narrow, input, self.activation)?
        {
            return Ok(made);
        }
        let wide = if self.gated {
            let wide = self.widen.forward(exec, input)?;
            let half = wide.size().last().copied().unwrap_or(0) / 2;
            activated(self.activation, &wide.f_narrow(-1, 0, half)?)?.f_mul(&wide.f_narrow(-1, half, half)?)?
        } else if let Linear::Fixed(product) = &self.widen {
            product.activated(exec, input, Some(self.activation))?
        } else {
            activated(self.activation, &self.widen.forward(exec, input)?)?
        };
        self.narrow.forward(exec, &wide)
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
    use tch::{Device, Kind};

    use super::super::linear::Map;
    use super::super::parameters::WeightForm;
    use super::*;

    fn draw(size: &[i64]) -> Tensor {
        Tensor::randn(size, (Kind::Float, Device::Cpu))
    }

    fn map(output: i64, input: i64) -> Map {
        Map {
            weight: draw(&[output, input]),
            bias: Some(draw(&[output])),
        }
    }

    #[test]
    fn fixed_and_learned_blocks_give_the_same() {
        tch::manual_seed(4);
        for (activation, gated) in [
            (HiddenActivation::Gelu, false),
            (HiddenActivation::Relu, false),
            (HiddenActivation::GeluTanh, false),
            (HiddenActivation::GeluTanh, true),
        ] {
            let (widen, narrow) = (map(if gated { 96 } else { 48 }, 16), map(16, 48));
            let act = |x: &Tensor| match activation {
                HiddenActivation::Gelu => x.gelu("none"),
                HiddenActivation::GeluTanh => x.gelu("tanh"),
                HiddenActivation::Relu => x.relu(),
            };
            for rows in [1, 64, 300] {
                let x = draw(&[rows, 16]);
                let before = x.copy();
                let wide = x.linear(&widen.weight, widen.bias.as_ref());
                let wide = if gated {
                    act(&wide.narrow(1, 0, 48)) * wide.narrow(1, 48, 48)
                } else {
                    act(&wide)
                };
                let expected = wide.linear(&narrow.weight, narrow.bias.as_ref());
                let blocks = [
                    [&widen, &narrow].map(|map| Linear::of(vec![map.clone()], WeightForm::Fixed).unwrap()),
                    [
                        Linear::Learned(vec![widen.clone()]),
                        Linear::Learned(vec![narrow.clone()]),
                    ],
                ];
                for [widen, narrow] in blocks {
                    let block = FeedForward {
                        widen,
                        narrow,
                        activation,
                        gated,
                    };
                    let difference = (block.forward(Exec::ONE_THREAD, &x).unwrap() - &expected)
                        .abs()
                        .max()
                        .double_value(&[]);
                    assert!(difference < 1e-3, "{activation:?} {gated} {rows}: {difference}");
                    assert_eq!(x, before);
                }
            }
        }
    }
}
