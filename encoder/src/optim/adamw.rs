//! Adam (Kingma and Ba 2015) with decoupled weight decay (Loshchilov and Hutter 2019, "Decoupled Weight Decay
//! Regularization", algorithm 2), as `torch.optim.AdamW` computes it.

use serde::{Deserialize, Serialize};
use tch::{Kind, TchError, Tensor};

use super::Gradients;
use super::chunks::{self, flat};
use super::entry::{Entries, Moments, OptimizerEntry, scratch, zeros};
use super::groups::{Groups, not_negative};
use super::joined::{Joined, Stretch, Views};
use super::positive;
use crate::error::{Error, torch};
use crate::nn::Parameter;

/// Settings of AdamW. The default is the paper's for fine-tuning BERT (Wang et al. 2021: 2e-5), with torch's other
/// values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct AdamWSettings {
    /// Positive; the schedule and a group's rate are multiplied with it.
    pub learning_rate: f64,
    /// Decay of the mean of gradients, from 0 and below 1.
    pub beta1: f64,
    /// Decay of the mean of their squares, from 0 and below 1.
    pub beta2: f64,
    /// Added to the root of that mean.
    pub epsilon: f64,
    /// The share of a tensor, times the learning rate, that a step takes off.
    pub weight_decay: f64,
}

impl Default for AdamWSettings {
    fn default() -> Self {
        Self {
            learning_rate: 2e-5,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.01,
        }
    }
}

impl AdamWSettings {
    /// Refuses values that cannot be.
    pub(super) fn check(&self) -> Result<(), Error> {
        positive("learning-rate", self.learning_rate)?;
        positive("epsilon", self.epsilon)?;
        not_negative("weight-decay", self.weight_decay)?;
        [("beta1", self.beta1), ("beta2", self.beta2)]
            .into_iter()
            .try_for_each(|(setting, beta)| below_one(setting, beta))
    }
}

#[derive(Debug)]
struct AdamMoments {
    /// Mean of gradients.
    first: Tensor,
    /// Mean of their squares.
    second: Tensor,
}

impl Views for AdamMoments {
    fn zeros(values: i64, like: &Tensor) -> Result<Self, TchError> {
        Ok(Self {
            first: zeros(&[values], like)?,
            second: zeros(&[values], like)?,
        })
    }

    fn view(&self, first: i64, length: i64, shape: &[i64]) -> Result<Self, TchError> {
        let view = |all: &Tensor| all.f_narrow(0, first, length)?.f_view(shape);
        Ok(Self {
            first: view(&self.first)?,
            second: view(&self.second)?,
        })
    }
}

impl AdamMoments {
    /// The moments of a tensor before its first step.
    fn zeros(tensor: &Tensor) -> Result<Self, TchError> {
        let size = tensor.size();
        Ok(Self {
            first: zeros(&size, tensor)?,
            second: zeros(&size, tensor)?,
        })
    }
}

impl Moments for AdamMoments {
    fn named(&self) -> Vec<(&'static str, &Tensor)> {
        vec![("first", &self.first), ("second", &self.second)]
    }
}

/// AdamW over named tensors.
#[derive(Debug)]
pub struct AdamW {
    settings: AdamWSettings,
    entries: Entries<AdamMoments>,
    /// The entries that take a step together, joined into one tensor each.
    joined: Vec<Joined<AdamMoments>>,
}

impl AdamW {
    /// Takes the tensors of `parameters` that are not frozen.
    pub fn new(settings: AdamWSettings, parameters: &[Parameter], groups: &Groups) -> Result<Self, Error> {
        let on_gpu = parameters
            .first()
            .is_some_and(|parameter| parameter.tensor.device().is_cuda());
        Self::with(settings, parameters, groups, on_gpu)
    }

    /// With `join`, small tensors of one treatment take a step together.
    fn with(settings: AdamWSettings, parameters: &[Parameter], groups: &Groups, join: bool) -> Result<Self, Error> {
        settings.check()?;
        let mut entries = Entries::new(parameters, groups, settings.weight_decay, AdamMoments::zeros)?;
        let joined = if join {
            Joined::join_all(&mut entries.0)
        } else {
            Ok(Vec::new())
        };
        Ok(Self {
            settings,
            entries,
            joined: joined.map_err(torch("joining tensors that learn"))?,
        })
    }

    pub(super) fn rate(&self) -> f64 {
        self.settings.learning_rate
    }

    /// To be stepped on a thread with this number of operator threads.
    pub(super) fn set_threads(&mut self, threads: usize) {
        self.entries.set_threads(threads);
    }

    /// The tensors that learn, in the order in which [`Gradients`] have to be.
    pub fn tensors(&self) -> Vec<Tensor> {
        self.entries.tensors()
    }

    /// One step with the learning rate times `factor`. A tensor without a gradient stays as it is.
    pub fn step(&mut self, gradients: &Gradients, factor: f64) -> Result<(), Error> {
        tch::no_grad(|| self.update_all(gradients, factor)).map_err(torch("taking a step of AdamW"))
    }

    /// Updates stretches of joined tensors, and then each tensor that is in none of them.
    fn update_all(&mut self, gradients: &Gradients, factor: f64) -> Result<(), TchError> {
        let Self {
            settings,
            entries: Entries(entries),
            joined,
        } = self;
        let settings = *settings;
        let mut alone = vec![true; entries.len()];
        for joined in joined.iter() {
            for Stretch {
                mut entry,
                gradient,
                places,
            } in joined.stretches(entries, gradients)?
            {
                update(&mut entry, settings, &gradient, gradients.factor(), factor)?;
                for place in places {
                    if let (Some(own), Some(alone)) = (entries.get_mut(place), alone.get_mut(place)) {
                        own.steps = entry.steps;
                        *alone = false;
                    }
                }
            }
        }
        let left = entries
            .iter_mut()
            .zip(&alone)
            .enumerate()
            .filter(|(_, (_, alone))| **alone);
        for (place, (entry, _)) in left {
            let Some(gradient) = gradients.at(place) else { continue };
            update(entry, settings, gradient, gradients.factor(), factor)?;
        }
        Ok(())
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

/// Refuses a decay that is not from 0 and below 1.
pub(super) fn below_one(setting: &'static str, decay: f64) -> Result<(), Error> {
    if (0.0..1.0).contains(&decay) {
        return Ok(());
    }
    Err(Error::Setting {
        setting,
        expected: "from 0 and below 1".to_owned(),
        got: decay.to_string(),
    })
}

fn update(
    entry: &mut OptimizerEntry<AdamMoments>,
    settings: AdamWSettings,
    gradient: &Tensor,
    scale: Option<f64>,
    factor: f64,
) -> Result<(), TchError> {
    let AdamWSettings {
        learning_rate,
        beta1,
        beta2,
        epsilon,
        ..
    } = settings;
    entry.steps += 1;
    let steps = entry.steps as f64;
    let rate = learning_rate * factor * entry.treatment.rate;
    let decay = entry.treatment.weight_decay;
    // The update is -rate / (1 - beta1^t) * first / (sqrt(second / (1 - beta2^t)) + epsilon); all numbers go into the
    // denominator.
    let size = rate / (1.0 - beta1.powf(steps));
    let root = -1.0 / ((1.0 - beta2.powf(steps)).sqrt() * size);

    let (values, gradient) = (flat(&entry.tensor)?, flat(gradient)?);
    let (first, second) = (flat(&entry.moments.first)?, flat(&entry.moments.second)?);
    let (count, kind) = (entry.tensor.numel() as i64, entry.tensor.kind());
    let each = entry.part;
    let room = scratch(each.min(count), entry.tensor.device())?;
    for (start, length) in chunks::parts(count, each) {
        let part = |tensor: &Tensor| tensor.f_narrow(0, start, length);
        let (mut first, mut second) = (part(&first)?, part(&second)?);
        let mut room = room.f_narrow(0, 0, length)?;
        let mut gradient = part(&gradient)?.f_to_kind(Kind::Float)?;
        if let Some(scale) = scale {
            gradient = gradient.f_mul_scalar_out(&room, scale)?;
        }
        let _ = first.f_lerp_(&gradient, 1.0 - beta1)?;
        let _ = gradient.f_square_out(&room)?;
        let _ = second.f_lerp_(&room, 1.0 - beta2)?;
        if rate == 0.0 {
            continue;
        }
        let _ = second.f_sqrt_out(&room)?;
        let _ = room.f_mul_scalar_(root)?.f_sub_scalar_(epsilon / size)?;
        let mut values = part(&values)?;
        let mut wide = values.f_to_kind(Kind::Float)?;
        if decay > 0.0 {
            let _ = wide.f_mul_scalar_(1.0 - rate * decay)?;
        }
        let _ = wide.f_addcdiv_(&first, &room)?;
        if kind != Kind::Float {
            values.f_copy_(&wide)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Group;
    use super::*;

    /// Names, sizes and values of a small network, the same each time; one tensor is in bf16, and one learns more
    /// slowly.
    fn parameters() -> Vec<Parameter> {
        let tensor = |(place, shape): (usize, &[i64])| {
            let count = shape.iter().product::<i64>();
            let values = (Tensor::arange(count, (Kind::Float, tch::Device::Cpu)) + place as f64)
                .sin()
                .view(shape);
            let kind = if place == 5 { Kind::BFloat16 } else { Kind::Float };
            let tensor = values.to_kind(kind).contiguous().set_requires_grad(true);
            Parameter {
                name: format!("{}{place}", if place == 3 { "slow" } else { "fast" }),
                tensor,
                frozen: false,
            }
        };
        // The last is as a learned temperature.
        let shapes: [&[i64]; 7] = [&[5, 13], &[7], &[64], &[3, 3], &[1], &[4], &[]];
        shapes.into_iter().enumerate().map(tensor).collect()
    }

    /// The gradients of a loss over all parameters but those at some places.
    fn gradients(parameters: &[Parameter], step: i32, without: &[usize]) -> Gradients {
        let learned: Vec<Tensor> = parameters
            .iter()
            .map(|parameter| parameter.tensor.shallow_clone())
            .collect();
        let used = learned.iter().enumerate().filter(|(place, _)| !without.contains(place));
        let term = |tensor: &Tensor| (tensor.to_kind(Kind::Float).cos() * f64::from(step + 1)).sum(Kind::Float);
        let loss: Tensor = used.map(|(_, tensor)| term(tensor)).sum();
        let mut gradients = Gradients::backward(&loss, &learned).unwrap();
        gradients.scale(0.5);
        gradients
    }

    #[test]
    fn joined_tensors_take_the_steps_that_each_takes_alone() {
        let settings = AdamWSettings {
            learning_rate: 0.05,
            ..AdamWSettings::default()
        };
        let groups = Groups(vec![Group {
            names: vec!["slow*".to_owned()],
            rate: 0.1,
            weight_decay: None,
        }]);
        let (alone, together) = (parameters(), parameters());
        let mut plain = AdamW::with(settings, &alone, &groups, false).unwrap();
        let mut joined = AdamW::with(settings, &together, &groups, true).unwrap();
        assert!(plain.joined.is_empty());
        let places: Vec<Vec<usize>> = joined.joined.iter().map(Joined::places).collect();
        assert_eq!(
            places,
            [[0, 1, 2, 4, 6]],
            "one treatment, in f32, and more than one tensor"
        );
        let stretches = |joined: &AdamW, gradients: &Gradients| -> Vec<Vec<usize>> {
            let stretches = joined.joined[0].stretches(&joined.entries.0, gradients).unwrap();
            stretches.into_iter().map(|stretch| stretch.places).collect()
        };
        let compare = |step: i32| {
            for (alone, together) in alone.iter().zip(&together) {
                let apart = (&alone.tensor - &together.tensor).abs().max().double_value(&[]);
                assert!(apart < 1e-6, "step {step}, {}: {apart}", alone.name);
            }
        };
        compare(-1);
        let all = vec![vec![0, 1, 2, 4, 6]];
        // The branch of ENDX may begin later: some have no gradient at first, and fewer steps from then on.
        let steps: [(&[usize], Vec<Vec<usize>>); 6] = [
            (&[], all.clone()),
            (&[], all.clone()),
            (&[], all),
            (&[1, 5], vec![vec![0], vec![2, 4, 6]]),
            (&[], vec![vec![0], vec![1], vec![2, 4, 6]]),
            (&[4, 6], vec![vec![0], vec![1], vec![2]]),
        ];
        for (step, (without, expected)) in (0..).zip(steps) {
            let own = gradients(&together, step, without);
            assert_eq!(stretches(&joined, &own), expected);
            plain.step(&gradients(&alone, step, without), 1.0).unwrap();
            joined.step(&own, 1.0).unwrap();
            compare(step);
            if [1, 3].contains(&step) {
                // A state goes from one to the other, and steps go on together.
                joined.restore(&plain.state()).unwrap();
                compare(step);
            }
        }
        for ((name, alone), (other, together)) in plain.state().into_iter().zip(joined.state()) {
            assert_eq!((&name, alone.size()), (&other, together.size()));
            let apart = (alone - together).abs().max().double_value(&[]);
            assert!(apart < 1e-6, "{name}: {apart}");
        }
    }
}
