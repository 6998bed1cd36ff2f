//! Optimizers and schedules against PyTorch and transformers.
//!
//! | file | what |
//! |---|---|
//! | `steps.rs` | steps against the reference; large, narrow and tied tensors |
//! | `state.rs` | a state that is saved and restored |
//! | `settings.rs` | groups, schedules, and settings that are refused |

use dyad_encoder::model::Parameter;
use dyad_encoder::optim::{AdafactorSettings, AdamWSettings, OptimizerSettings};
use tch::{Kind, Tensor};

use crate::reference::values;

mod settings;
mod state;
mod steps;

const STEPS: i64 = 5;
const SHAPES: [(&str, &[i64]); 3] = [("matrix", &[3, 4]), ("vector", &[5]), ("cube", &[2, 3, 4])];

fn parameters(kind: Kind) -> Vec<Parameter> {
    let parameter = |(place, (name, shape)): (usize, &(&str, &[i64]))| Parameter {
        name: (*name).to_owned(),
        tensor: values(shape, 20.0 + place as f64, kind).set_requires_grad(true),
        frozen: false,
    };
    SHAPES.iter().enumerate().map(parameter).collect()
}

/// A loss whose gradient is what the script gives to a step.
fn loss(parameters: &[Parameter], step: i64) -> Tensor {
    let terms = parameters.iter().enumerate().map(|(place, parameter)| {
        let tensor = &parameter.tensor;
        let gradient = values(&tensor.size(), (100 * step + place as i64) as f64, Kind::Double) * 0.7;
        (tensor * gradient.to_kind(tensor.kind())).sum(None)
    });
    Tensor::stack(&terms.collect::<Vec<_>>(), 0).sum(None)
}

fn adamw(settings: AdamWSettings) -> OptimizerSettings {
    OptimizerSettings::AdamW(settings)
}

fn adafactor(settings: AdafactorSettings) -> OptimizerSettings {
    OptimizerSettings::Adafactor(settings)
}

/// Every case of the script.
fn cases() -> Vec<(&'static str, &'static str, OptimizerSettings)> {
    let relative = AdafactorSettings {
        relative_step: true,
        ..AdafactorSettings::default()
    };
    let external = AdafactorSettings {
        learning_rate: 1e-2,
        scale_parameter: false,
        ..AdafactorSettings::default()
    };
    let decayed = AdamWSettings {
        learning_rate: 1e-2,
        weight_decay: 0.1,
        ..AdamWSettings::default()
    };
    let other_betas = AdamWSettings {
        learning_rate: 3e-2,
        beta1: 0.8,
        beta2: 0.95,
        epsilon: 1e-6,
        weight_decay: 0.0,
    };
    let everything = AdafactorSettings {
        beta1: Some(0.9),
        weight_decay: 0.1,
        decay_rate: 0.5,
        ..relative
    };
    vec![
        ("adamw", "decayed", adamw(decayed)),
        ("adamw", "other_betas", adamw(other_betas)),
        ("adafactor", "relative", adafactor(relative)),
        (
            "adafactor",
            "relative_warm_up",
            adafactor(AdafactorSettings {
                warm_up_init: true,
                ..relative
            }),
        ),
        ("adafactor", "papers", adafactor(AdafactorSettings::default())),
        ("adafactor", "external", adafactor(external)),
        (
            "adafactor",
            "external_decayed",
            adafactor(AdafactorSettings {
                weight_decay: 0.1,
                ..external
            }),
        ),
        (
            "adafactor",
            "momentum",
            adafactor(AdafactorSettings {
                beta1: Some(0.9),
                clip_threshold: 0.5,
                ..external
            }),
        ),
        ("adafactor", "everything", adafactor(everything)),
    ]
}
