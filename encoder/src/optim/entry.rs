//! A tensor that learns, how, and its state by name.

use std::collections::{BTreeMap, BTreeSet};

use tch::{Device, Kind, TchError, Tensor};

use super::chunks;
use super::groups::{Groups, Treatment};
use crate::error::{Error, torch};
use crate::nn::Parameter;

/// The state that an optimizer keeps of a tensor, without the number of its steps.
pub(super) trait Moments {
    /// Each tensor with its name.
    fn named(&self) -> Vec<(&'static str, &Tensor)>;
}

/// The number of steps in a saved state.
const STEP: &str = "step";

#[derive(Debug)]
pub(super) struct OptimizerEntry<M> {
    pub(super) name: String,
    /// The very tensor that the towers compute with.
    pub(super) tensor: Tensor,
    pub(super) treatment: Treatment,
    /// Steps that it was part of.
    pub(super) steps: i64,
    pub(super) moments: M,
    /// Values of a part in which a step passes over it.
    pub(super) part: i64,
}

/// All tensors that learn, in their given order.
#[derive(Debug)]
pub(super) struct Entries<M>(pub(super) Vec<OptimizerEntry<M>>);

impl<M: Moments> Entries<M> {
    /// Entries of the `parameters` that are not frozen. `moments` makes the initial state of a tensor.
    pub(super) fn new(
        parameters: &[Parameter],
        groups: &Groups,
        weight_decay: f64,
        moments: impl Fn(&Tensor) -> Result<M, TchError>,
    ) -> Result<Self, Error> {
        let trained = || parameters.iter().filter(|parameter| !parameter.frozen);
        let names: Vec<&str> = trained().map(|parameter| parameter.name.as_str()).collect();
        groups.check(&names)?;
        let mut seen = BTreeSet::new();
        if names.is_empty() {
            return Err(wrong_tensors("at least one that is not frozen", "none"));
        }
        let mut entries = Vec::with_capacity(names.len());
        for Parameter { name, tensor, .. } in trained() {
            if !seen.insert(name) {
                return Err(wrong_tensors("tensors of different names", name));
            }
            if !tensor.is_contiguous() || !tensor.requires_grad() {
                return Err(wrong_tensors("contiguous, and to require a gradient", name));
            }
            entries.push(OptimizerEntry {
                name: name.clone(),
                tensor: tensor.shallow_clone(),
                treatment: groups.of(name, weight_decay),
                steps: 0,
                moments: moments(tensor).map_err(torch("making an optimizer's state"))?,
                part: chunks::length(tensor.device(), 1),
            });
        }
        Ok(Self(entries))
    }

    /// On this number of operator threads, which share the work of a part.
    pub(super) fn set_threads(&mut self, threads: usize) {
        for entry in &mut self.0 {
            entry.part = chunks::length(entry.tensor.device(), threads);
        }
    }

    /// The tensors, in order.
    pub(super) fn tensors(&self) -> Vec<Tensor> {
        self.0.iter().map(|entry| entry.tensor.shallow_clone()).collect()
    }

    /// Sets what `backward` added up to zero.
    pub(super) fn zero_grad(&self) -> Result<(), TchError> {
        for entry in &self.0 {
            let gradient = entry.tensor.f_grad()?;
            if gradient.defined() {
                let _ = gradient.f_detach()?.f_zero_()?;
            }
        }
        Ok(())
    }

    /// Everything that the next step depends on, apart from the tensors and gradients themselves: `TENSOR:step` and
    /// `TENSOR:MOMENT`. The tensors are those that the next step changes.
    pub(super) fn state(&self) -> Vec<(String, Tensor)> {
        let mut state = Vec::new();
        for entry in &self.0 {
            state.push((format!("{}:{STEP}", entry.name), Tensor::from(entry.steps)));
            for (moment, tensor) in entry.moments.named() {
                state.push((format!("{}:{moment}", entry.name), tensor.shallow_clone()));
            }
        }
        state
    }

    /// Restores a state. A state that does not fit is refused before anything is changed.
    pub(super) fn restore(&mut self, state: &[(String, Tensor)]) -> Result<(), Error> {
        let mut given: BTreeMap<&str, &Tensor> = BTreeMap::new();
        for (name, tensor) in state {
            if given.insert(name, tensor).is_some() {
                return Err(wrong_state(name, "once", "twice".to_owned()));
            }
        }
        let shown = |tensor: &Tensor| format!("{:?} {:?}", tensor.kind(), tensor.size());
        let mut pairs = Vec::new();
        for (name, own) in self.state() {
            let Some(tensor) = given.remove(name.as_str()) else {
                return Err(wrong_state(&name, &shown(&own), "nothing".to_owned()));
            };
            if shown(&own) != shown(tensor) {
                return Err(wrong_state(&name, &shown(&own), shown(tensor)));
            }
            pairs.push((own, tensor));
        }
        if let Some((name, tensor)) = given.first_key_value() {
            return Err(wrong_state(name, "no such entry", shown(tensor)));
        }
        let copied = tch::no_grad(|| {
            let mut pairs = pairs.iter_mut();
            for entry in &mut self.0 {
                if let Some((_, step)) = pairs.next() {
                    entry.steps = step.f_int64_value(&[])?;
                }
                for (own, tensor) in pairs.by_ref().take(entry.moments.named().len()) {
                    // A view of the entry's own memory.
                    own.f_copy_(tensor)?;
                }
            }
            Ok(())
        });
        copied.map_err(torch("restoring an optimizer's state"))
    }
}

/// Zeros in f32 on the device of a tensor.
pub(super) fn zeros(shape: &[i64], beside: &Tensor) -> Result<Tensor, TchError> {
    Tensor::f_zeros(shape, (Kind::Float, beside.device()))
}

/// Room for `values` f32 values that are about to be written.
pub(super) fn scratch(values: i64, device: Device) -> Result<Tensor, TchError> {
    Tensor::f_empty([values], (Kind::Float, device))
}

fn wrong_tensors(expected: &str, got: &str) -> Error {
    Error::Setting {
        setting: "tensors that learn",
        expected: expected.to_owned(),
        got: got.to_owned(),
    }
}

fn wrong_state(entry: &str, expected: &str, got: String) -> Error {
    Error::OptimizerState {
        entry: entry.to_owned(),
        expected: expected.to_owned(),
        got,
    }
}
