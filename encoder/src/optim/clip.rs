//! Clipping of gradients by their norm (Pascanu et al. 2013), and what to do where it is not finite.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Gradients;
use crate::error::{Error, torch};

/// Keeps the division defined, as in `torch.nn.utils.clip_grad_norm_`.
const SMALL: f64 = 1e-6;

/// Handling of gradients that are not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotFinite {
    /// Ends training with an error that names the step.
    #[default]
    Stop,
    /// Leaves the step out.
    Skip,
}

/// How gradients are treated before a step.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Clipping {
    /// The largest norm of all gradients together; longer ones are scaled down to it. Positive; `None` for any.
    pub max_norm: Option<f64>,
    /// Handling of gradients that are not finite.
    pub not_finite: NotFinite,
}

/// The outcome of clipping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ClipOutcome {
    /// To be applied.
    Apply {
        /// The norm of the gradients before clipping.
        norm: f64,
    },
    /// Not finite, and to be left out.
    Skip,
}

impl Clipping {
    /// Refuses a norm that cannot be.
    pub fn check(&self) -> Result<(), Error> {
        match self.max_norm {
            Some(max_norm) if max_norm.is_nan() || max_norm <= 0.0 => {
                let expected = "positive, or absent for no clipping".to_owned();
                Err(Error::Setting {
                    setting: "max-norm",
                    expected,
                    got: max_norm.to_string(),
                })
            }
            _ => Ok(()),
        }
    }

    /// As [`Self::apply`], for the tensors at each of some places on their own; their norm is that of all gradients.
    pub fn apply_each(
        &self,
        gradients: &mut Gradients,
        parts: &[Range<usize>],
        step: u64,
    ) -> Result<ClipOutcome, Error> {
        let all = Self {
            max_norm: None,
            ..*self
        };
        let outcome = all.apply(gradients, step)?;
        self.check()?;
        if let (ClipOutcome::Apply { .. }, Some(max_norm)) = (outcome, self.max_norm) {
            for part in parts {
                let norm = gradients.norm_of(part.clone()).map_err(torch("measuring gradients"))?;
                let factor = max_norm / (norm + SMALL);
                if factor < 1.0 {
                    gradients
                        .scale_at(part.clone(), factor)
                        .map_err(torch("clipping gradients"))?;
                }
            }
        }
        Ok(outcome)
    }

    /// Measures, checks and clips the gradients of step `step` (counted as the caller likes; errors name it).
    pub fn apply(&self, gradients: &mut Gradients, step: u64) -> Result<ClipOutcome, Error> {
        let norm = gradients.norm().map_err(torch("measuring gradients"))?;
        if !norm.is_finite() {
            return match self.not_finite {
                NotFinite::Stop => Err(Error::GradientNotFinite { step, norm }),
                NotFinite::Skip => Ok(ClipOutcome::Skip),
            };
        }
        self.check()?;
        if let Some(max_norm) = self.max_norm {
            let factor = max_norm / (norm + SMALL);
            if factor < 1.0 {
                gradients.scale(factor);
            }
        }
        Ok(ClipOutcome::Apply { norm })
    }
}

#[cfg(test)]
mod tests {
    use tch::Tensor;

    use super::*;

    fn gradients(values: [f32; 2]) -> Gradients {
        let tensor = Tensor::from_slice(&[0.0_f32, 0.0]).set_requires_grad(true);
        Gradients::backward(&(&tensor * Tensor::from_slice(&values)).sum(None), &[tensor]).unwrap()
    }

    #[test]
    fn only_long_gradients_are_clipped() {
        let clipping = Clipping {
            max_norm: Some(1.0),
            ..Clipping::default()
        };
        let mut long = gradients([3.0, 4.0]);
        assert_eq!(clipping.apply(&mut long, 1).unwrap(), ClipOutcome::Apply { norm: 5.0 });
        assert!((long.norm().unwrap() - 1.0).abs() < 1e-6);
        let mut short = gradients([0.3, 0.4]);
        clipping.apply(&mut short, 1).unwrap();
        assert!(short.factor().is_none());
        let mut any = gradients([3.0, 4.0]);
        Clipping::default().apply(&mut any, 1).unwrap();
        assert!(any.factor().is_none());
        let wrong = Clipping {
            max_norm: Some(0.0),
            ..clipping
        };
        assert!(wrong.apply(&mut any, 1).unwrap_err().to_string().contains("`max-norm`"));
    }

    #[test]
    fn parts_are_clipped_on_their_own() {
        let clipping = Clipping {
            max_norm: Some(1.0),
            ..Clipping::default()
        };
        let tensors = [0.0_f32, 0.0].map(|value| Tensor::from_slice(&[value]).set_requires_grad(true));
        let mut gradients = Gradients::backward(&(&tensors[0] * 40.0 + &tensors[1] * 0.3).sum(None), &tensors).unwrap();
        let outcome = clipping.apply_each(&mut gradients, &[0..1, 1..2], 1).unwrap();
        let ClipOutcome::Apply { norm } = outcome else {
            panic!("{outcome:?}")
        };
        assert!((norm - (1600.0_f64 + 0.09).sqrt()).abs() < 1e-4, "{norm}");
        let of = |place: usize| gradients.norm_of(place..place + 1).unwrap();
        assert!(
            (of(0) - 1.0).abs() < 1e-5 && (of(1) - 0.3).abs() < 1e-6,
            "the short one stays"
        );
        let wrong = Clipping {
            max_norm: Some(-1.0),
            ..clipping
        };
        assert!(wrong.apply_each(&mut gradients, &[0..1, 1..2], 1).is_err());
    }

    #[test]
    fn gradients_that_are_not_finite_stop_or_skip() {
        let mut broken = gradients([f32::NAN, 1.0]);
        let message = Clipping::default().apply(&mut broken, 812).unwrap_err().to_string();
        assert!(message.contains("step 812"), "{message}");
        let skipping = Clipping {
            not_finite: NotFinite::Skip,
            ..Clipping::default()
        };
        assert_eq!(skipping.apply(&mut broken, 812).unwrap(), ClipOutcome::Skip);
    }
}
