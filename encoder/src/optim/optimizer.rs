//! One of the optimizers, chosen by its settings.

use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::{Adafactor, AdafactorSettings, AdamW, AdamWSettings, Gradients, Groups};
use crate::error::{Error, torch};
use crate::nn::Parameter;

/// Which optimizer, and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum OptimizerSettings {
    /// Adafactor.
    Adafactor(AdafactorSettings),
    /// AdamW.
    AdamW(AdamWSettings),
}

impl OptimizerSettings {
    /// Refuses values that cannot be.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Adafactor(settings) => settings.check(),
            Self::AdamW(settings) => settings.check(),
        }
    }
}

/// An optimizer over named tensors.
#[derive(Debug)]
pub enum Optimizer {
    /// Adafactor.
    Adafactor(Adafactor),
    /// AdamW.
    AdamW(AdamW),
}

impl Optimizer {
    /// Takes the tensors of `parameters` that are not frozen; others it never touches.
    pub fn new(settings: &OptimizerSettings, parameters: &[Parameter], groups: &Groups) -> Result<Self, Error> {
        Ok(match settings {
            OptimizerSettings::Adafactor(settings) => Self::Adafactor(Adafactor::new(*settings, parameters, groups)?),
            OptimizerSettings::AdamW(settings) => Self::AdamW(AdamW::new(*settings, parameters, groups)?),
        })
    }

    /// To be stepped on a thread with this number of operator threads; one otherwise.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        match &mut self {
            Self::Adafactor(adafactor) => adafactor.set_threads(threads),
            Self::AdamW(adamw) => adamw.set_threads(threads),
        }
        self
    }

    /// The learning rate of the last step (before one: of the first), before schedule and groups: as set, or as
    /// Adafactor's relative steps have it, there before a tensor's own scale.
    pub fn rate(&self) -> f64 {
        match self {
            Self::Adafactor(adafactor) => adafactor.rate(),
            Self::AdamW(adamw) => adamw.rate(),
        }
    }

    /// The tensors that learn, in the order in which [`Gradients`] have to be.
    pub fn tensors(&self) -> Vec<Tensor> {
        match self {
            Self::Adafactor(adafactor) => adafactor.tensors(),
            Self::AdamW(adamw) => adamw.tensors(),
        }
    }

    /// One step with the gradients that `backward` added up, and the learning rate times `factor`.
    pub fn step(&mut self, factor: f64) -> Result<(), Error> {
        let gradients = Gradients::from_tensors(&self.tensors()).map_err(torch("reading gradients"))?;
        self.step_with(&gradients, factor)
    }

    /// One step with these gradients, one for each of [`Self::tensors`], and the learning rate times `factor`. A tensor
    /// without a gradient stays as it is.
    pub fn step_with(&mut self, gradients: &Gradients, factor: f64) -> Result<(), Error> {
        let expected = self.tensors().len();
        if gradients.len() != expected {
            let reason = format!(
                "{expected} gradients are needed, one for each tensor that learns, got: {}",
                gradients.len()
            );
            return Err(Error::Torch {
                action: "taking a step",
                source: tch::TchError::Shape(reason),
            });
        }
        match self {
            Self::Adafactor(adafactor) => adafactor.step(gradients, factor),
            Self::AdamW(adamw) => adamw.step(gradients, factor),
        }
    }

    /// Sets what `backward` added up to zero. Not needed with [`Gradients::backward`].
    pub fn zero_grad(&mut self) -> Result<(), Error> {
        let zeroed = match self {
            Self::Adafactor(adafactor) => adafactor.zero_grad(),
            Self::AdamW(adamw) => adamw.zero_grad(),
        };
        zeroed.map_err(torch("setting gradients to zero"))
    }

    /// Everything that later steps depend on, apart from the trained tensors and the settings: by tensor, `NAME:step`
    /// (whole number) and `NAME:MOMENT` (f32). These are the optimizer's own tensors, which the next step changes: save
    /// or copy them before.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        match self {
            Self::Adafactor(adafactor) => adafactor.state(),
            Self::AdamW(adamw) => adamw.state(),
        }
    }

    /// Takes back what [`Self::state`] gave, from any device: the next steps are then the same to the bit. An entry
    /// that is missing, too many, or of another shape or number type is an error by its name, and nothing is changed.
    pub fn restore(&mut self, state: &[(String, Tensor)]) -> Result<(), Error> {
        match self {
            Self::Adafactor(adafactor) => adafactor.restore(state),
            Self::AdamW(adamw) => adamw.restore(state),
        }
    }
}
