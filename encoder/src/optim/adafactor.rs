//! Adafactor (Shazeer and Stern 2018, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", algorithms 4 and
//! 5), as `transformers.optimization.Adafactor` computes it: of a matrix only the mean squares of rows and columns are
//! kept, and an update is clipped by its root mean square.
//!
//! A tensor of more than two dimensions is factored over its last two. Vectors keep all squares.

use serde::{Deserialize, Serialize};
use tch::{Kind, TchError, Tensor};

use super::Gradients;
use super::adamw::below_one;
use super::chunks::flat;
use super::entry::{Entries, Moments, OptimizerEntry, zeros};
use super::groups::{Groups, not_negative};
use super::positive;
use super::slabs::{Factors, Slab, UpdateStep};
use crate::error::{Error, torch};
use crate::nn::Parameter;

/// Settings of Adafactor. The default is the papers' (Dong et al. 2022, Ni et al. 2022): a learning rate of 1e-3
/// relative to the root mean square of a tensor's values, as T5's trainer has it. It is no absolute rate as AdamW's:
/// with `scale_parameter = false` it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct AdafactorSettings {
    /// Positive, and the schedule and a group's rate are multiplied with it. In its place, with `relative-step`, stands
    /// `min(0.01, 1 / sqrt(step))`. Relative to a tensor with `scale-parameter`, else absolute.
    pub learning_rate: f64,
    /// The rate follows from the number of the step, and `learning-rate` is not used.
    pub relative_step: bool,
    /// With `relative-step`: `min(1e-6 * step, 1 / sqrt(step))`.
    pub warm_up_init: bool,
    /// Multiplies the rate with the root mean square of the tensor's values, at least `epsilon-scale`.
    pub scale_parameter: bool,
    /// Added to squared gradients.
    pub epsilon: f64,
    /// The smallest scale of a tensor.
    pub epsilon_scale: f64,
    /// The largest root mean square of an update, before the rate.
    pub clip_threshold: f64,
    /// Squares decay with `1 - step^-decay_rate`.
    pub decay_rate: f64,
    /// Decay of the mean of updates, from 0 and below 1; absent for none, which saves a copy of the model.
    pub beta1: Option<f64>,
    /// The share of a tensor, times the rate, that a step takes off.
    pub weight_decay: f64,
}

impl Default for AdafactorSettings {
    fn default() -> Self {
        Self {
            learning_rate: 1e-3,
            relative_step: false,
            warm_up_init: false,
            scale_parameter: true,
            epsilon: 1e-30,
            epsilon_scale: 1e-3,
            clip_threshold: 1.0,
            decay_rate: 0.8,
            beta1: None,
            weight_decay: 0.0,
        }
    }
}

impl AdafactorSettings {
    /// Refuses values that cannot be.
    pub(super) fn check(&self) -> Result<(), Error> {
        for (setting, value) in [
            ("learning-rate", self.learning_rate),
            ("epsilon", self.epsilon),
            ("epsilon-scale", self.epsilon_scale),
            ("clip-threshold", self.clip_threshold),
            ("decay-rate", self.decay_rate),
        ] {
            positive(setting, value)?;
        }
        not_negative("weight-decay", self.weight_decay)?;
        below_one("beta1", self.beta1.unwrap_or(0.0))?;
        if self.warm_up_init && !self.relative_step {
            let expected = "with `relative-step = true` only".to_owned();
            return Err(Error::Setting {
                setting: "warm-up-init",
                expected,
                got: "true".to_owned(),
            });
        }
        Ok(())
    }

    /// The rate of a tensor's `steps`-th step, before schedule, group and its own scale.
    fn base(&self, steps: i64) -> f64 {
        if !self.relative_step {
            return self.learning_rate;
        }
        let most = if self.warm_up_init { 1e-6 * steps as f64 } else { 1e-2 };
        most.min(1.0 / (steps as f64).sqrt())
    }
}

#[derive(Debug)]
enum Squares {
    /// Means along the last and the last but one dimension.
    Factored {
        rows: Tensor,
        columns: Tensor,
    },
    Whole(Tensor),
}

#[derive(Debug)]
struct FactorMoments {
    squares: Squares,
    momentum: Option<Tensor>,
}

impl FactorMoments {
    /// The moments of a tensor before its first step.
    fn zeros(tensor: &Tensor, with_momentum: bool) -> Result<Self, TchError> {
        let size = tensor.size();
        let squares = match &size[..] {
            [before @ .., n, m] => Squares::Factored {
                rows: zeros(&[before, &[*n]].concat(), tensor)?,
                columns: zeros(&[before, &[*m]].concat(), tensor)?,
            },
            _ => Squares::Whole(zeros(&size, tensor)?),
        };
        let momentum = if with_momentum {
            Some(zeros(&size, tensor)?)
        } else {
            None
        };
        Ok(Self { squares, momentum })
    }
}

impl Moments for FactorMoments {
    fn named(&self) -> Vec<(&'static str, &Tensor)> {
        let mut named = match &self.squares {
            Squares::Factored { rows, columns } => vec![("rows", rows), ("columns", columns)],
            Squares::Whole(second) => vec![("second", second)],
        };
        named.extend(self.momentum.as_ref().map(|momentum| ("momentum", momentum)));
        named
    }
}

/// Adafactor over named tensors.
#[derive(Debug)]
pub struct Adafactor {
    settings: AdafactorSettings,
    entries: Entries<FactorMoments>,
}

impl Adafactor {
    /// Takes the tensors of `parameters` that are not frozen.
    pub fn new(settings: AdafactorSettings, parameters: &[Parameter], groups: &Groups) -> Result<Self, Error> {
        settings.check()?;
        let moments = |tensor: &Tensor| FactorMoments::zeros(tensor, settings.beta1.is_some());
        Ok(Self {
            settings,
            entries: Entries::new(parameters, groups, settings.weight_decay, moments)?,
        })
    }

    /// To be stepped on a thread with this number of operator threads.
    pub(super) fn set_threads(&mut self, threads: usize) {
        self.entries.set_threads(threads);
    }

    /// The tensors that learn, in the order in which [`Gradients`] have to be.
    pub fn tensors(&self) -> Vec<Tensor> {
        self.entries.tensors()
    }

    pub(super) fn rate(&self) -> f64 {
        let steps = self.entries.0.iter().map(|entry| entry.steps).max().unwrap_or_default();
        self.settings.base(steps.max(1))
    }

    /// One step with the rate times `factor`. A tensor without a gradient stays as it is.
    pub fn step(&mut self, gradients: &Gradients, factor: f64) -> Result<(), Error> {
        let settings = self.settings;
        let entries = &mut self.entries.0;
        tch::no_grad(|| update_all(entries, &settings, gradients, factor)).map_err(torch("taking a step of Adafactor"))
    }

    pub(super) fn state(&self) -> Vec<(String, Tensor)> {
        self.entries.state()
    }

    pub(super) fn restore(&mut self, state: &[(String, Tensor)]) -> Result<(), Error> {
        self.entries.restore(state)
    }

    pub(super) fn zero_grad(&self) -> Result<(), TchError> {
        self.entries.zero_grad()
    }
}

/// The numbers of one tensor's step.
struct Update<'a> {
    settings: &'a AdafactorSettings,
    /// How far the mean squares move.
    weight: f64,
    /// One value on the tensor's device, which so never waits for the processor.
    rate: Tensor,
    /// The share of the tensor that weight decay leaves, as one value.
    kept: Option<Tensor>,
}

impl<'a> Update<'a> {
    fn new(
        entry: &OptimizerEntry<FactorMoments>,
        settings: &'a AdafactorSettings,
        factor: f64,
    ) -> Result<Self, TchError> {
        let steps = entry.steps as f64;
        let base = settings.base(entry.steps) * factor * entry.treatment.rate;
        let rate = if settings.scale_parameter {
            let values = flat(&entry.tensor)?.f_to_kind(Kind::Float)?;
            root_mean(&values.f_dot(&values)?, &entry.tensor)?
                .f_clamp_min(settings.epsilon_scale)?
                .f_mul_scalar(base)?
        } else {
            Tensor::f_full([], base, (Kind::Float, entry.tensor.device()))?
        };
        let decay = entry.treatment.weight_decay;
        let kept = if decay == 0.0 {
            None
        } else {
            Some(rate.f_mul_scalar(-decay)?.f_add_scalar(1.0)?)
        };
        Ok(Self {
            settings,
            weight: steps.powf(-settings.decay_rate),
            rate,
            kept,
        })
    }

    /// The rate over what an update is divided by, so that its root mean square is `clip_threshold` at most.
    fn clipped(&self, squares: &Tensor, of: &Tensor) -> Result<Tensor, TchError> {
        let denominator = root_mean(squares, of)?
            .f_div_scalar(self.settings.clip_threshold)?
            .f_clamp_min(1.0)?;
        self.rate.f_div(&denominator)
    }

    fn take(&self, entry: &mut OptimizerEntry<FactorMoments>, gradient: &Tensor, scale: f64) -> Result<(), TchError> {
        match &mut entry.moments.squares {
            Squares::Factored { rows, columns } => {
                let mut slabs = slabs(
                    &entry.tensor,
                    gradient,
                    scale,
                    entry.part,
                    [rows, columns],
                    entry.moments.momentum.as_ref(),
                )?;
                let observe = |slab: &mut Slab| slab.observe(self.weight, self.settings.epsilon);
                let factors = slabs.iter_mut().map(observe).collect::<Result<Vec<Factors>, _>>()?;
                let pairs = || slabs.iter().zip(&factors);
                let squares = pairs()
                    .map(|(slab, factors)| slab.squares(factors))
                    .collect::<Result<Vec<_>, _>>()?;
                let rate = self.clipped(&Tensor::f_stack(&squares, 0)?.f_sum(None::<Kind>)?, &entry.tensor)?;
                let beta1 = self.settings.beta1.unwrap_or(0.0);
                let step = UpdateStep {
                    rate: &rate,
                    kept: self.kept.as_ref(),
                    beta1,
                };
                pairs().try_for_each(|(slab, factors)| slab.apply(factors, &step))
            }
            Squares::Whole(second) => {
                // Vectors are small: passes do not matter.
                let gradient = gradient.f_detach()?.f_to_kind(Kind::Float)?.f_mul_scalar(scale)?;
                let _ = second.f_lerp_(&gradient.f_square()?.f_add_scalar(self.settings.epsilon)?, self.weight)?;
                let mut update = second.f_rsqrt()?.f_mul(&gradient)?;
                let rate = self.clipped(&update.f_square()?.f_sum(None::<Kind>)?, &entry.tensor)?;
                let _ = update.f_mul_(&rate)?;
                if let (Some(momentum), Some(beta1)) = (&mut entry.moments.momentum, self.settings.beta1) {
                    let _ = momentum.f_lerp_(&update, 1.0 - beta1)?;
                    update = momentum.shallow_clone();
                }
                let mut values = entry.tensor.f_detach()?;
                let kept = match &self.kept {
                    Some(kept) => values.f_to_kind(Kind::Float)?.f_mul(kept)?,
                    None => values.f_to_kind(Kind::Float)?,
                };
                values.f_copy_(&kept.f_sub(&update)?)
            }
        }
    }
}

fn update_all(
    entries: &mut [OptimizerEntry<FactorMoments>],
    settings: &AdafactorSettings,
    gradients: &Gradients,
    factor: f64,
) -> Result<(), TchError> {
    for (place, entry) in entries.iter_mut().enumerate() {
        let Some(gradient) = gradients.at(place) else { continue };
        entry.steps += 1;
        Update::new(entry, settings, factor)?.take(entry, gradient, gradients.factor().unwrap_or(1.0))?;
    }
    Ok(())
}

/// The root of a sum of squares over the values of `of`.
fn root_mean(squares: &Tensor, of: &Tensor) -> Result<Tensor, TchError> {
    squares.f_div_scalar(of.numel().max(1) as f64)?.f_sqrt()
}

/// A tensor as matrices of its last two dimensions.
fn slabs(
    tensor: &Tensor,
    gradient: &Tensor,
    scale: f64,
    part: i64,
    [rows, columns]: [&Tensor; 2],
    momentum: Option<&Tensor>,
) -> Result<Vec<Slab>, TchError> {
    let size = tensor.size();
    let [before @ .., n, m] = &size[..] else {
        return Ok(Vec::new());
    };
    let count: i64 = before.iter().product();
    let matrices = |tensor: &Tensor| flat(tensor)?.f_view([count, *n, *m]);
    let (values, gradient) = (matrices(tensor)?, matrices(gradient)?);
    let momentum = momentum.map(matrices).transpose()?;
    let (rows, columns) = (flat(rows)?.f_view([count, *n])?, flat(columns)?.f_view([count, *m])?);
    let slab = |at: i64| {
        Ok(Slab {
            gradient: gradient.f_select(0, at)?,
            scale,
            part,
            values: values.f_select(0, at)?,
            rows: rows.f_select(0, at)?,
            columns: columns.f_select(0, at)?,
            momentum: momentum.as_ref().map(|momentum| momentum.f_select(0, at)).transpose()?,
        })
    };
    (0..count).map(slab).collect()
}
