//! Adapters of a model that is trained (LoRA, Hu et al. 2022), and how they begin.

use std::path::Path;

use tch::{Device, Kind, Tensor};

use crate::error::{Error, torch};
use crate::nn::{LoraSettings, LowRankMap, Parameter};
use crate::random::Random;

/// What is learned in place of a weight.
#[derive(Debug)]
pub(super) struct Adapter {
    /// The weight's name among the parameters.
    pub(super) weight: String,
    pub(super) map: LowRankMap,
}

/// Ends of the names of an adapter's tensors, as peft calls them.
const PARTS: [&str; 2] = [".lora_A.weight", ".lora_B.weight"];

/// Whether a parameter is part of an adapter, and of no file.
pub(super) fn is_of_adapter(parameter: &str) -> bool {
    PARTS.iter().any(|part| parameter.ends_with(part))
}

impl Adapter {
    /// Names and tensors of what is learned.
    pub(super) fn parameters(&self) -> Vec<Parameter> {
        let map = self.weight.strip_suffix(".weight").unwrap_or(&self.weight);
        let tensors = [&self.map.down, &self.map.up].into_iter();
        let parameter = |(part, tensor): (&str, &Tensor)| Parameter {
            name: format!("{map}{part}"),
            tensor: tensor.shallow_clone(),
            frozen: false,
        };
        PARTS.into_iter().zip(tensors).map(parameter).collect()
    }
}

/// How adapters begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdapterInit<'a> {
    pub(crate) settings: &'a LoraSettings,
    /// Seed of their values.
    pub(crate) seed: u64,
}

impl AdapterInit<'_> {
    /// The adapter of the map `module`, `[output, input]`: the first matrix uniform within one over the square root of
    /// `input`, as torch initialises linear maps and peft adapters; the second one zero, so that training begins from
    /// the model as it is.
    pub(super) fn map(
        &self,
        module: &str,
        output: usize,
        input: usize,
        kind: Kind,
        device: Device,
    ) -> Result<LowRankMap, Error> {
        let rank = self.settings.rank;
        let bound = (1.0 / input as f64).sqrt();
        let mut stream = Random::named(self.seed, &format!("lora/{module}"));
        let values: Vec<f32> = (0..rank * input).map(|_| stream.uniform(bound) as f32).collect();
        let made = || {
            let down = Tensor::f_from_slice(&values)?
                .f_view([rank as i64, input as i64])?
                .f_to_kind(kind)?
                .f_to_device(device)?;
            let up = Tensor::f_zeros([output as i64, rank as i64], (kind, device))?;
            Ok(LowRankMap {
                down: down.set_requires_grad(true),
                up: up.set_requires_grad(true),
                scale: self.settings.scale(),
            })
        };
        made().map_err(torch("making adapters"))
    }

    /// The error where no map of a model has one of the names.
    pub(super) fn matches_nothing(&self, root: &Path) -> Error {
        Error::Field {
            path: root.to_owned(),
            field: "model.lora.targets",
            expected: "ends of names of maps of its transformer, or `all-linear`".to_owned(),
            got: format!("{:?}, which no map has", self.settings.targets),
        }
    }
}
