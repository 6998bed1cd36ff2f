//! The whole loss of ENDX (Wang et al. 2021): `L = a_dual L_dual + a_cross L_cross + a_ga L_ga` (equation 13), and how
//! the weights within `L_ga` grow (section 4.4).

use serde::{Deserialize, Serialize};
use tch::{TchError, Tensor};

/// Grows linearly from 0 over some epochs, and stays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Ramp {
    /// The weight from the end of the growth on.
    pub to: f64,
    /// Length of the growth; 0 for none.
    pub epochs: f64,
    /// Epochs before it begins, in which the weight is 0: the cross encoder learns alone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after: f64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference to the field"
)]
fn is_zero(value: &f64) -> bool {
    value.abs() < f64::MIN_POSITIVE
}

impl Ramp {
    /// The weight at a point of training, in epochs since its begin; parts of epochs count.
    pub fn at(&self, epoch: f64) -> f64 {
        let grown = epoch - self.after;
        if grown < 0.0 {
            return 0.0;
        }
        if grown >= self.epochs {
            self.to
        } else {
            self.to * grown / self.epochs
        }
    }
}

/// Weights of the four terms of equation 12.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeometryWeights {
    /// Weight of answers given a question.
    pub a_q: f64,
    /// Weight of questions given a question.
    pub q_q: f64,
    /// Weight of questions given an answer.
    pub q_a: f64,
    /// Weight of answers given an answer.
    pub a_a: f64,
}

/// Weights of equation 13, and the growth of those of equation 12. The default is the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Endx {
    /// Weight of the dual encoder's own loss.
    pub dual: f64,
    /// Weight of the cross encoder's own loss.
    pub cross: f64,
    /// Weight of the geometry alignment.
    pub geometry: f64,
    /// Weight of answers given a question.
    pub a_q: Ramp,
    /// Weight of questions given a question.
    pub q_q: Ramp,
    /// Weight of questions given an answer.
    pub q_a: Ramp,
    /// Weight of answers given an answer.
    pub a_a: Ramp,
}

impl Default for Endx {
    fn default() -> Self {
        let ramp = |to| Ramp {
            to,
            epochs: 5.0,
            after: 0.0,
        };
        let (between, within) = (ramp(0.5), ramp(1e4));
        Self {
            dual: 0.25,
            cross: 0.25,
            geometry: 0.5,
            a_q: between,
            q_q: within,
            q_a: between,
            a_a: within,
        }
    }
}

impl Endx {
    /// The weights of equation 12 at a point of training, in epochs.
    pub fn geometry_weights(&self, epoch: f64) -> GeometryWeights {
        GeometryWeights {
            a_q: self.a_q.at(epoch),
            q_q: self.q_q.at(epoch),
            q_a: self.q_a.at(epoch),
            a_a: self.a_a.at(epoch),
        }
    }

    /// Equation 13. `geometry` is the sum of equation 12.
    pub fn combined(&self, dual: &Tensor, cross: &Tensor, geometry: &Tensor) -> Result<Tensor, TchError> {
        let own = dual.f_mul_scalar(self.dual)?.f_add(&cross.f_mul_scalar(self.cross)?)?;
        own.f_add(&geometry.f_mul_scalar(self.geometry)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_grow_over_five_epochs_and_stay() {
        let endx = Endx::default();
        let weights = |a_q, q_q| GeometryWeights {
            a_q,
            q_q,
            q_a: a_q,
            a_a: q_q,
        };
        for (epoch, expected) in [
            (0.0, weights(0.0, 0.0)),
            (2.5, weights(0.25, 5e3)),
            (5.0, weights(0.5, 1e4)),
            (30.0, weights(0.5, 1e4)),
        ] {
            assert_eq!(endx.geometry_weights(epoch), expected, "{epoch}");
        }
        assert!(
            (Ramp {
                to: 2.0,
                epochs: 0.0,
                after: 0.0
            }
            .at(0.0)
                - 2.0)
                .abs()
                < 1e-12,
            "no growth"
        );
        let late = Ramp {
            to: 2.0,
            epochs: 1.0,
            after: 0.5,
        };
        for (epoch, expected) in [(0.0, 0.0), (0.5, 0.0), (1.0, 1.0), (1.5, 2.0), (9.0, 2.0)] {
            assert!((late.at(epoch) - expected).abs() < 1e-12, "{epoch}");
        }
        assert!(
            (Ramp { epochs: 0.0, ..late }.at(0.4)).abs() < 1e-12,
            "at once, and not before"
        );
    }

    #[test]
    fn the_whole_loss_is_the_weighted_sum() {
        let [dual, cross, geometry] = [2.0, 4.0, 8.0].map(|value: f64| Tensor::from(value));
        let whole = Endx::default().combined(&dual, &cross, &geometry).unwrap();
        assert!((whole.double_value(&[]) - (0.5 + 1.0 + 4.0)).abs() < 1e-12);
    }
}
