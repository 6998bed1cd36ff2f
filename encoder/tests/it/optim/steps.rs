//! Steps of each optimizer against PyTorch and transformers; large, narrow and tied tensors.

use dyad_encoder::config::Sharing;
use dyad_encoder::model::{Model, Parameter, create};
use dyad_encoder::optim::{AdafactorSettings, AdamWSettings, Gradients, Groups, Optimizer};
use dyad_encoder::transform::Creation;
use dyad_encoder::{Compute, Tower};
use tch::{Kind, Tensor};

use super::{STEPS, adafactor, adamw, cases, loss, parameters};
use crate::fixture::tiny;
use crate::reference::{apart, flat, numbers, reference, values};

#[test]
fn five_steps_are_those_of_the_reference() {
    let all = reference("optim.json");
    for (optimizer, case, settings) in cases() {
        // Both ways to a gradient; and a gradient that is yet to be multiplied, as after clipping.
        for way in ["kept", "taken", "scaled"] {
            let parameters = parameters(Kind::Float);
            let places: Vec<_> = parameters.iter().map(|parameter| parameter.tensor.data_ptr()).collect();
            let mut ours = Optimizer::new(&settings, &parameters, &Groups::default()).unwrap();
            for step in 1..=STEPS {
                let loss = loss(&parameters, step);
                match way {
                    "kept" => {
                        ours.zero_grad().unwrap();
                        loss.backward();
                        ours.step(1.0).unwrap();
                    }
                    "taken" => ours
                        .step_with(&Gradients::backward(&loss, &ours.tensors()).unwrap(), 1.0)
                        .unwrap(),
                    _ => {
                        let mut gradients = Gradients::backward(&(loss * 8.0), &ours.tensors()).unwrap();
                        gradients.scale(0.125);
                        ours.step_with(&gradients, 1.0).unwrap();
                    }
                }
                let Some(expected) = all[optimizer][case].get(step.to_string()) else {
                    continue;
                };
                for parameter in &parameters {
                    let difference = apart(&flat(&parameter.tensor), &numbers(&expected[&parameter.name]));
                    assert!(
                        difference < 2e-6,
                        "{optimizer} {case} {way} {step} {}: {difference}",
                        parameter.name
                    );
                }
            }
            let still: Vec<_> = parameters.iter().map(|parameter| parameter.tensor.data_ptr()).collect();
            assert_eq!(places, still, "in place");
        }
    }
}

/// Tensors of many parts: the cut must not show. One part is taken as the oracle by giving it to `values` tensors that
/// are small.
#[test]
fn a_large_tensor_is_as_its_rows_one_by_one() {
    // 700 x 500 is several parts of 65,536 values on one thread.
    let (rows, columns) = (700, 500);
    let settings = adamw(AdamWSettings {
        learning_rate: 1e-2,
        weight_decay: 0.1,
        ..AdamWSettings::default()
    });
    let whole = values(&[rows, columns], 1.0, Kind::Float).set_requires_grad(true);
    let gradient = values(&[rows, columns], 2.0, Kind::Float);
    let one = [Parameter {
        name: "whole".to_owned(),
        tensor: whole.shallow_clone(),
        frozen: false,
    }];
    let many: Vec<Parameter> = (0..rows)
        .map(|row| Parameter {
            name: row.to_string(),
            tensor: whole.detach().get(row).copy().set_requires_grad(true),
            frozen: false,
        })
        .collect();
    let (mut ours, mut slow) = (
        Optimizer::new(&settings, &one, &Groups::default()).unwrap(),
        Optimizer::new(&settings, &many, &Groups::default()).unwrap(),
    );
    for _ in 0..3 {
        ours.step_with(
            &Gradients::backward(&(&whole * &gradient).sum(None), &ours.tensors()).unwrap(),
            0.5,
        )
        .unwrap();
        let joined = Tensor::stack(
            &many.iter().map(|row| row.tensor.shallow_clone()).collect::<Vec<_>>(),
            0,
        );
        slow.step_with(
            &Gradients::backward(&(joined * &gradient).sum(None), &slow.tensors()).unwrap(),
            0.5,
        )
        .unwrap();
    }
    let joined = Tensor::stack(&many.iter().map(|row| row.tensor.detach()).collect::<Vec<_>>(), 0);
    assert_eq!(flat(&whole), flat(&joined));
}

/// Adafactor's equations on whole tensors, in f64 and with every intermediate materialised, against the passes by rows.
#[test]
fn a_large_matrix_is_factored_as_a_whole() {
    let size = [700, 500];
    let settings = AdafactorSettings {
        beta1: Some(0.9),
        weight_decay: 0.1,
        ..AdafactorSettings::default()
    };
    let tensor = (values(&size, 1.0, Kind::Float) * 0.1).set_requires_grad(true);
    let mut reference_values = tensor.detach().to_kind(Kind::Double);
    let double = |shape: &[i64]| Tensor::zeros(shape, (Kind::Double, tch::Device::Cpu));
    let (mut rows, mut columns, mut momentum) = (double(&[700]), double(&[500]), double(&size));
    let parameter = [Parameter {
        name: "matrix".to_owned(),
        tensor: tensor.shallow_clone(),
        frozen: false,
    }];
    let mut ours = Optimizer::new(&adafactor(settings), &parameter, &Groups::default()).unwrap();
    for step in 1..=4 {
        let gradient = values(&size, 2.0 + f64::from(step), Kind::Double);
        let used = (&tensor * gradient.to_kind(Kind::Float)).sum(None);
        ours.step_with(&Gradients::backward(&used, &ours.tensors()).unwrap(), 1.0)
            .unwrap();

        let decay = 1.0 - f64::from(step).powf(-0.8);
        let squares = gradient.square();
        let mean = |dim: i64| squares.mean_dim(&[dim][..], false, None::<Kind>);
        rows = rows * decay + mean(1) * (1.0 - decay);
        columns = columns * decay + mean(0) * (1.0 - decay);
        let estimate = rows.outer(&columns) / rows.mean(None::<Kind>);
        let update = gradient / estimate.sqrt();
        let update = &update / update.square().mean(None::<Kind>).sqrt().clamp_min(1.0);
        let rate = 1e-3
            * reference_values
                .square()
                .mean(None::<Kind>)
                .sqrt()
                .double_value(&[])
                .max(1e-3);
        momentum = momentum * 0.9 + update * (0.1 * rate);
        reference_values = reference_values * (1.0 - 0.1 * rate) - &momentum;
    }
    let difference = apart(&flat(&tensor), &flat(&reference_values));
    assert!(difference < 1e-7, "{difference}");
    assert!(
        apart(&flat(&tensor), &flat(&(values(&size, 1.0, Kind::Float) * 0.1))) > 1e-5,
        "it moved"
    );
}

#[test]
fn narrow_tensors_are_updated_through_f32() {
    for (_, case, settings) in cases() {
        let (narrow, wide) = (parameters(Kind::BFloat16), parameters(Kind::Float));
        for parameters in [&narrow, &wide] {
            let mut optimizer = Optimizer::new(&settings, parameters, &Groups::default()).unwrap();
            optimizer
                .step_with(
                    &Gradients::backward(&loss(parameters, 1), &optimizer.tensors()).unwrap(),
                    1.0,
                )
                .unwrap();
            assert!(
                optimizer
                    .state()
                    .iter()
                    .all(|(_, tensor)| tensor.kind() != Kind::BFloat16)
            );
        }
        for (narrow, wide) in narrow.iter().zip(&wide) {
            assert_eq!(narrow.tensor.kind(), Kind::BFloat16);
            assert!(apart(&flat(&narrow.tensor), &flat(&wide.tensor)) < 2e-2, "{case}");
        }
    }
}

/// A step through both towers of a model: what is shared stays one tensor, what is frozen stays as it was.
#[test]
fn ties_and_frozen_tensors_survive_steps() {
    for (sharing, settings) in [
        (
            Sharing::ADE_FTE,
            adamw(AdamWSettings {
                learning_rate: 1e-2,
                ..AdamWSettings::default()
            }),
        ),
        (Sharing::ADE_STE, adafactor(AdafactorSettings::default())),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("model");
        create(
            &tiny("classic-mean"),
            &to,
            &Creation {
                sharing,
                dim: 6,
                seed: 1,
            },
        )
        .unwrap();
        let learned = Model::open_for_training(
            &to,
            &Compute {
                threads: Some(1),
                ..Compute::default()
            },
        )
        .unwrap();
        let before: Vec<Vec<f64>> = learned
            .parameters()
            .iter()
            .map(|parameter| flat(&parameter.tensor))
            .collect();
        let mut optimizer =
            Optimizer::new(&settings, learned.parameters(), &Groups(vec![Groups::without_decay()])).unwrap();
        let frozen = learned.parameters().iter().filter(|parameter| parameter.frozen).count();
        assert_eq!(optimizer.tensors().len(), learned.parameters().len() - frozen);
        let tokenizer = learned.tokenizer();
        let vectors = |tower| {
            let tokens =
                ["the king", "a river", "the light of the city"].map(|text| tokenizer.encode(tower, text).unwrap());
            learned.vectors(tower, &tokens.each_ref()).unwrap()
        };
        let loss = || {
            let scores = vectors(Tower::Question).matmul(&vectors(Tower::Answer).transpose(0, 1)) * 5.0;
            scores.cross_entropy_for_logits(&Tensor::from_slice(&[2i64, 0, 1]))
        };
        let first = loss().double_value(&[]);
        for _ in 0..5 {
            optimizer
                .step_with(&Gradients::backward(&loss(), &optimizer.tensors()).unwrap(), 1.0)
                .unwrap();
        }
        assert!(loss().double_value(&[]) < first, "{sharing}");
        for (parameter, before) in learned.parameters().iter().zip(&before) {
            let same = flat(&parameter.tensor) == *before;
            if parameter.frozen || parameter.name.ends_with("query.weight") {
                assert_eq!(same, parameter.frozen, "{sharing}: {}", parameter.name);
            }
        }
    }
}
