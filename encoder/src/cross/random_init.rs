//! Random initialisation: matrices uniform within one over the square root of their input, as torch initialises linear
//! maps; norms 1; biases 0.

use tch::{Device, Kind, Tensor};

use crate::device::{Compute, Dtype};
use crate::error::{Error, torch};
use crate::nn::{Parameter, Parameters, WeightForm};
use crate::random::Random;

/// Initialises the tensors that are asked for, and keeps them.
pub(super) struct RandomInit {
    seed: u64,
    mixed: bool,
    device: Device,
    prefix: String,
    parameters: Vec<Parameter>,
}

impl RandomInit {
    pub(super) fn new(seed: u64, compute: &Compute) -> Self {
        Self {
            seed,
            mixed: compute.dtype == Dtype::Bf16,
            device: compute.torch_device(),
            prefix: String::new(),
            parameters: Vec::new(),
        }
    }

    /// Prefix of the names of the next tensors.
    pub(super) fn within(&mut self, prefix: String) {
        self.prefix = prefix;
    }

    pub(super) fn finish(self) -> Vec<Parameter> {
        self.parameters
    }
}

impl Parameters for RandomInit {
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, Error> {
        let (name, count) = (format!("{}{name}", self.prefix), shape.iter().product());
        let values: Vec<f32> = match shape {
            [_, input] => {
                let bound = (1.0 / *input as f64).sqrt();
                let mut stream = Random::named(self.seed, &name);
                (0..count).map(|_| stream.uniform(bound) as f32).collect()
            }
            _ => vec![if name.ends_with("norm.weight") { 1.0 } else { 0.0 }; count],
        };
        let size: Vec<i64> = shape.iter().map(|&length| length as i64).collect();
        let tensor = Tensor::f_from_slice(&values)
            .and_then(|tensor| {
                tensor
                    .f_view(&size[..])?
                    .f_to_kind(Kind::Float)?
                    .f_to_device(self.device)
            })
            .and_then(|tensor| tensor.f_set_requires_grad(true))
            .map_err(torch("initialising the cross-encoder branch"))?;
        self.parameters.push(Parameter {
            name,
            tensor: tensor.shallow_clone(),
            frozen: false,
        });
        Ok(tensor)
    }

    fn form(&self) -> WeightForm {
        if self.mixed {
            WeightForm::Mixed
        } else {
            WeightForm::Learned
        }
    }
}
