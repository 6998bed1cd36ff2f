//! Optimizers and schedules against PyTorch and transformers; state that is saved and taken back; tensors that stay as
//! they are.

use dyad_encoder::config::Sharing;
use dyad_encoder::model::{Model, Parameter, create};
use dyad_encoder::optim::{
    AdafactorSettings, AdamWSettings, Gradients, Group, Groups, Optimizer, OptimizerSettings, Schedule,
};
use dyad_encoder::transform::Creation;
use dyad_encoder::{Compute, Tower};
use tch::{Kind, Tensor};

use crate::fixture::tiny;
use crate::reference::{apart, flat, numbers, reference, values};

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
                        .step_with(&Gradients::of(&loss, &ours.tensors()).unwrap(), 1.0)
                        .unwrap(),
                    _ => {
                        let mut gradients = Gradients::of(&(loss * 8.0), &ours.tensors()).unwrap();
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
            &Gradients::of(&(&whole * &gradient).sum(None), &ours.tensors()).unwrap(),
            0.5,
        )
        .unwrap();
        let joined = Tensor::stack(
            &many.iter().map(|row| row.tensor.shallow_clone()).collect::<Vec<_>>(),
            0,
        );
        slow.step_with(
            &Gradients::of(&(joined * &gradient).sum(None), &slow.tensors()).unwrap(),
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
        ours.step_with(&Gradients::of(&used, &ours.tensors()).unwrap(), 1.0)
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
                .step_with(&Gradients::of(&loss(parameters, 1), &optimizer.tensors()).unwrap(), 1.0)
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

#[test]
fn a_state_taken_back_gives_the_same_steps_to_the_bit() {
    for (_, case, settings) in cases() {
        let ours = parameters(Kind::Float);
        let mut optimizer = Optimizer::new(&settings, &ours, &Groups::default()).unwrap();
        let step = |parameters: &[Parameter], optimizer: &mut Optimizer, step: i64| {
            let gradients = Gradients::of(&loss(parameters, step), &optimizer.tensors()).unwrap();
            optimizer.step_with(&gradients, 1.0).unwrap();
        };
        for number in 1..=3 {
            step(&ours, &mut optimizer, number);
        }
        let state: Vec<(String, Tensor)> = optimizer
            .state()
            .into_iter()
            .map(|(name, tensor)| (name, tensor.copy()))
            .collect();
        let theirs: Vec<Parameter> = ours
            .iter()
            .map(|parameter| Parameter {
                tensor: parameter.tensor.detach().copy().set_requires_grad(true),
                ..parameter.shallow_clone()
            })
            .collect();
        let mut again = Optimizer::new(&settings, &theirs, &Groups::default()).unwrap();
        again.restore(&state).unwrap();
        for number in 4..=5 {
            step(&ours, &mut optimizer, number);
            step(&theirs, &mut again, number);
        }
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(flat(&ours.tensor), flat(&theirs.tensor), "{case}");
        }
        let pairs = optimizer.state().into_iter().zip(again.state());
        for ((name, ours), (_, theirs)) in pairs {
            assert_eq!(flat(&ours), flat(&theirs), "{case} {name}");
        }
    }
}

#[test]
fn a_state_of_something_else_is_refused_by_name_and_changes_nothing() {
    let parameters = parameters(Kind::Float);
    let new = |settings| Optimizer::new(settings, &parameters, &Groups::default()).unwrap();
    let settings = adafactor(AdafactorSettings::default());
    let mut optimizer = new(&settings);
    optimizer
        .step_with(
            &Gradients::of(&loss(&parameters, 1), &optimizer.tensors()).unwrap(),
            1.0,
        )
        .unwrap();
    let whole = || -> Vec<(String, Tensor)> {
        optimizer
            .state()
            .into_iter()
            .map(|(name, tensor)| (name, tensor.copy()))
            .collect()
    };
    let names: Vec<String> = whole().into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "matrix:step",
            "matrix:rows",
            "matrix:columns",
            "vector:step",
            "vector:second",
            "cube:step",
            "cube:rows",
            "cube:columns"
        ]
    );
    let mut missing = whole();
    let _ = missing.remove(2);
    let mut extra = whole();
    extra.push(("sphere:rows".to_owned(), Tensor::from(1.0f32)));
    let mut misshapen = whole();
    misshapen[1].1 = Tensor::from_slice(&[1.0f32, 2.0]);
    let mut other_kind = whole();
    other_kind[4].1 = other_kind[4].1.to_kind(Kind::Double);
    let mut twice = whole();
    twice.push((names[0].clone(), twice[0].1.copy()));
    for (state, parts) in [
        (missing, ["`matrix:columns`", "got: nothing"]),
        (extra, ["`sphere:rows`", "no such entry"]),
        (misshapen, ["`matrix:rows`", "got: Float [2]"]),
        (other_kind, ["`vector:second`", "got: Double [5]"]),
        (twice, ["`matrix:step`", "got: twice"]),
    ] {
        let mut fresh = new(&settings);
        let message = fresh.restore(&state).unwrap_err().to_string();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        assert!(
            fresh
                .state()
                .iter()
                .all(|(_, tensor)| flat(tensor).iter().all(|value| *value == 0.0))
        );
    }
    let message = new(&adamw(AdamWSettings::default()))
        .restore(&whole())
        .unwrap_err()
        .to_string();
    assert!(message.contains("`matrix:first`"), "{message}");
}

#[test]
fn groups_have_their_rate_and_decay() {
    let settings = adamw(AdamWSettings {
        learning_rate: 1e-2,
        weight_decay: 0.5,
        ..AdamWSettings::default()
    });
    let group = |name: &str, rate, weight_decay| Group {
        names: vec![name.to_owned()],
        rate,
        weight_decay,
    };
    let after = |groups: Vec<Group>, factor: f64| {
        let parameters = parameters(Kind::Float);
        let mut optimizer = Optimizer::new(&settings, &parameters, &Groups(groups)).unwrap();
        optimizer
            .step_with(
                &Gradients::of(&loss(&parameters, 1), &optimizer.tensors()).unwrap(),
                factor,
            )
            .unwrap();
        parameters
            .iter()
            .map(|parameter| flat(&parameter.tensor))
            .collect::<Vec<_>>()
    };
    let (plain, half) = (after(vec![], 1.0), after(vec![], 0.5));
    let grouped = after(vec![group("mat*", 0.5, None), group("vector", 0.0, None)], 1.0);
    assert_eq!(grouped[0], half[0], "a rate is a factor");
    assert_eq!(
        grouped[1],
        flat(&parameters(Kind::Float)[1].tensor),
        "a rate of 0 leaves a tensor as it is"
    );
    assert_eq!(grouped[2], plain[2]);
    let undecayed = after(vec![group("*", 1.0, Some(0.0))], 1.0);
    let start = flat(&parameters(Kind::Float)[0].tensor);
    for ((plain, undecayed), start) in plain[0].iter().zip(&undecayed[0]).zip(&start) {
        assert!((undecayed - plain - start * 1e-2 * 0.5).abs() < 1e-6);
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let parameters = parameters(Kind::Float);
    let (w, f) = (AdamWSettings::default(), AdafactorSettings::default());
    for (settings, part) in [
        (
            adamw(AdamWSettings {
                learning_rate: 0.0,
                ..w
            }),
            "`learning-rate` must be a positive number, got: 0",
        ),
        (
            adamw(AdamWSettings {
                learning_rate: -1e-3,
                ..w
            }),
            "got: -0.001",
        ),
        (adamw(AdamWSettings { beta2: 1.0, ..w }), "`beta2`"),
        (
            adamw(AdamWSettings {
                weight_decay: f64::NAN,
                ..w
            }),
            "`weight-decay`",
        ),
        (
            adafactor(AdafactorSettings {
                learning_rate: f64::INFINITY,
                ..f
            }),
            "`learning-rate`",
        ),
        (adafactor(AdafactorSettings { beta1: Some(-0.1), ..f }), "`beta1`"),
        (
            adafactor(AdafactorSettings {
                warm_up_init: true,
                ..f
            }),
            "`warm-up-init`",
        ),
    ] {
        let message = Optimizer::new(&settings, &parameters, &Groups::default())
            .unwrap_err()
            .to_string();
        assert!(message.contains(part), "{message}");
    }
    let frozen: Vec<Parameter> = parameters
        .iter()
        .map(|parameter| Parameter {
            frozen: true,
            ..parameter.shallow_clone()
        })
        .collect();
    let message = Optimizer::new(&adamw(w), &frozen, &Groups::default())
        .unwrap_err()
        .to_string();
    assert!(message.contains("not frozen"), "{message}");
    let twice = [parameters[0].shallow_clone(), parameters[0].shallow_clone()];
    assert!(
        Optimizer::new(&adamw(w), &twice, &Groups::default())
            .unwrap_err()
            .to_string()
            .contains("matrix")
    );
    let mut one = Optimizer::new(&adamw(w), &parameters[..1], &Groups::default()).unwrap();
    let gradients = Gradients::kept(&[]).unwrap();
    assert!(
        one.step_with(&gradients, 1.0)
            .unwrap_err()
            .to_string()
            .contains("1 gradients are needed")
    );
}

#[test]
fn schedules_are_those_of_transformers() {
    let all = reference("optim.json");
    for (name, schedule) in [
        ("constant", Schedule::Constant { warm_up: 0 }),
        ("constant_warm_up", Schedule::Constant { warm_up: 4 }),
        ("linear", Schedule::Linear { warm_up: 0 }),
        ("linear_warm_up", Schedule::Linear { warm_up: 4 }),
        ("inverse_square_root", Schedule::InverseSquareRoot { warm_up: 4 }),
    ] {
        let theirs = numbers(&all["schedules"][name]);
        let ours: Vec<f64> = (0..theirs.len() as u64).map(|step| schedule.factor(step, 12)).collect();
        assert!(apart(&ours, &theirs) < 1e-9, "{name}: {ours:?}");
    }
    assert!(
        Schedule::Linear { warm_up: 9 }.factor(9, 4).abs() < 1e-12,
        "a warm-up longer than the run"
    );
    assert!((Schedule::InverseSquareRoot { warm_up: 0 }.factor(10_000, 4) - 0.5f64.sqrt()).abs() < 1e-12);
}

#[test]
fn settings_are_read_from_tables() {
    let read = |value: serde_json::Value| serde_json::from_value::<OptimizerSettings>(value);
    let settings = read(serde_json::json!({"kind": "adafactor", "relative-step": true})).unwrap();
    assert_eq!(
        settings,
        adafactor(AdafactorSettings {
            relative_step: true,
            ..AdafactorSettings::default()
        })
    );
    assert_eq!(
        read(serde_json::json!({"kind": "adamw"})).unwrap(),
        adamw(AdamWSettings::default())
    );
    assert!(
        read(serde_json::json!({"kind": "adamw", "beta3": 1}))
            .unwrap_err()
            .to_string()
            .contains("beta3")
    );
    let schedule: Schedule = serde_json::from_value(serde_json::json!({"kind": "linear", "warm-up": 7})).unwrap();
    assert_eq!(schedule, Schedule::Linear { warm_up: 7 });
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
                .step_with(&Gradients::of(&loss(), &optimizer.tensors()).unwrap(), 1.0)
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
