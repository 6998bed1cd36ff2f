//! The softmax temperature: scores are divided by it.

use tch::{Device, Kind, TchError, Tensor};

use crate::error::{Error, torch};
use crate::nn::Parameter;

/// A learned temperature stays between these: at the first, scores of cosines already span 2000, far beyond what a
/// softmax in f32 tells apart.
const BOUNDS: [f64; 2] = [0.001, 100.0];

/// Divisor of the scores before the softmax.
#[derive(Debug)]
pub enum Temperature {
    /// A constant; GTR uses 0.01.
    Fixed(f64),
    /// A number that learns. Its logarithm is what is held, so that it stays positive and a step changes it by a factor
    /// (Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision", section 2.5).
    Learned {
        /// The logarithm of the temperature: one value, with a gradient.
        log: Tensor,
    },
}

impl Temperature {
    /// Name of the learned logarithm among the tensors that learn.
    pub const NAME: &'static str = "loss/log_temperature";

    /// One that does not learn. It has to be positive.
    pub fn fixed(temperature: f64) -> Result<Self, Error> {
        positive(temperature).map(Self::Fixed)
    }

    /// One that learns, from `initial` on. It has to be positive.
    pub fn learned(initial: f64, device: Device) -> Result<Self, Error> {
        let log = positive(initial)?.clamp(BOUNDS[0], BOUNDS[1]).ln();
        let log = Tensor::f_full([], log, (Kind::Float, device)).and_then(|log| log.f_set_requires_grad(true));
        Ok(Self::Learned {
            log: log.map_err(torch("making the temperature"))?,
        })
    }

    /// The parameter for the optimizer, if it is trained.
    pub fn parameter(&self) -> Option<Parameter> {
        match self {
            Self::Fixed(_) => None,
            Self::Learned { log } => Some(Parameter {
                name: Self::NAME.to_owned(),
                tensor: log.shallow_clone(),
                frozen: false,
            }),
        }
    }

    /// The current value.
    pub fn value(&self) -> Result<f64, TchError> {
        match self {
            Self::Fixed(temperature) => Ok(*temperature),
            Self::Learned { log } => Ok(log.f_double_value(&[])?.exp()),
        }
    }

    /// To be called after a step: puts a learned temperature that left `[0.001, 100]` back onto the bound.
    pub fn keep_in_bounds(&self) -> Result<(), TchError> {
        let Self::Learned { log } = self else { return Ok(()) };
        let mut log = log.f_detach()?;
        log.f_clamp_(BOUNDS[0].ln(), BOUNDS[1].ln()).map(|_| ())
    }

    /// Scores over the temperature.
    pub(crate) fn divide(&self, scores: &Tensor) -> Result<Tensor, TchError> {
        match self {
            Self::Fixed(1.0) => Ok(scores.shallow_clone()),
            Self::Fixed(temperature) => scores.f_div_scalar(*temperature),
            Self::Learned { log } => scores.f_mul(&log.f_neg()?.f_exp()?),
        }
    }
}

fn positive(temperature: f64) -> Result<f64, Error> {
    if temperature.is_finite() && temperature > 0.0 {
        return Ok(temperature);
    }
    let expected = "a positive number, such as 0.01".to_owned();
    Err(Error::Setting {
        setting: "temperature",
        expected,
        got: temperature.to_string(),
    })
}
