//! The feed-forward block of a transformer (Vaswani et al. 2017, section 3.3): wide, activated, narrow again.

use tch::{TchError, Tensor};

use super::exec::Exec;
use super::kernels;
use super::linear::Linear;
use super::product;
use crate::config::{FeedForwardGate, HiddenActivation};

#[derive(Debug, Clone)]
pub(crate) struct FeedForward {
    pub(crate) widen: Linear,
    pub(crate) narrow: Linear,
    pub(crate) activation: HiddenActivation,
    /// Where there is one, `widen` gives two halves.
    pub(crate) gate: FeedForwardGate,
}

impl FeedForward {
    /// `[t, h] -> [t, h]`.
    pub(crate) fn forward(&self, exec: Exec, input: &Tensor) -> Result<Tensor, TchError> {
        if let (FeedForwardGate::No, Linear::Fixed(widen), Linear::Fixed(narrow)) =
            (self.gate, &self.widen, &self.narrow)
            && let Some(made) = product::fused_mlp(exec, widen, narrow, input, self.activation)?
        {
            return Ok(made);
        }
        let wide = if self.gate != FeedForwardGate::No {
            self.gated(exec, &self.widen.forward(exec, input)?)?
        } else if let Linear::Fixed(product) = &self.widen {
            product.activated(exec, input, Some(self.activation))?
        } else {
            activated(self.activation, &self.widen.forward(exec, input)?)?
        };
        self.narrow.forward(exec, &wide)
    }

    /// Two halves side by side, `[t, 2 * wide]`, to `[t, wide]`.
    fn gated(&self, exec: Exec, wide: &Tensor) -> Result<Tensor, TchError> {
        let second = self.gate == FeedForwardGate::Second;
        if exec.by_kernels()
            && !wide.requires_grad()
            && let Some(gated) = kernels::gate(exec, wide, self.activation, second)?
        {
            return Ok(gated);
        }
        let half = wide.size().last().copied().unwrap_or(0) / 2;
        let (first, other) = (wide.f_narrow(-1, 0, half)?, wide.f_narrow(-1, half, half)?);
        let (gate, gated) = if second { (other, first) } else { (first, other) };
        activated(self.activation, &gate)?.f_mul(&gated)
    }
}

fn activated(activation: HiddenActivation, wide: &Tensor) -> Result<Tensor, TchError> {
    match activation {
        HiddenActivation::Gelu => wide.f_gelu("none"),
        HiddenActivation::GeluTanh => wide.f_gelu("tanh"),
        HiddenActivation::Relu => wide.f_relu(),
        HiddenActivation::Silu => wide.f_silu(),
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
            low_rank: None,
        }
    }

    #[test]
    fn fixed_and_learned_blocks_give_the_same() {
        tch::manual_seed(4);
        for (activation, gate) in [
            (HiddenActivation::Gelu, FeedForwardGate::No),
            (HiddenActivation::Relu, FeedForwardGate::No),
            (HiddenActivation::GeluTanh, FeedForwardGate::No),
            (HiddenActivation::Silu, FeedForwardGate::No),
            (HiddenActivation::GeluTanh, FeedForwardGate::First),
            (HiddenActivation::Silu, FeedForwardGate::First),
            (HiddenActivation::Gelu, FeedForwardGate::Second),
        ] {
            let gated = gate != FeedForwardGate::No;
            let (widen, narrow) = (map(if gated { 96 } else { 48 }, 16), map(16, 48));
            let act = |x: &Tensor| match activation {
                HiddenActivation::Gelu => x.gelu("none"),
                HiddenActivation::GeluTanh => x.gelu("tanh"),
                HiddenActivation::Relu => x.relu(),
                HiddenActivation::Silu => x.silu(),
            };
            for rows in [1, 64, 300] {
                let x = draw(&[rows, 16]);
                let before = x.copy();
                let wide = x.linear(&widen.weight, widen.bias.as_ref());
                let halves = || (wide.narrow(1, 0, 48), wide.narrow(1, 48, 48));
                let wide = match gate {
                    FeedForwardGate::No => act(&wide),
                    FeedForwardGate::First => act(&halves().0) * halves().1,
                    FeedForwardGate::Second => halves().0 * act(&halves().1),
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
                        gate,
                    };
                    let difference = (block.forward(Exec::ONE_THREAD, &x).unwrap() - &expected)
                        .abs()
                        .max()
                        .double_value(&[]);
                    assert!(difference < 1e-3, "{activation:?} {gate:?} {rows}: {difference}");
                    assert_eq!(x, before);
                }
            }
        }
    }
}
