//! Groups of tensors, schedules, and settings that are refused.

use dyad_encoder::model::Parameter;
use dyad_encoder::optim::{
    AdafactorSettings, AdamWSettings, Gradients, Group, Groups, Optimizer, OptimizerSettings, Schedule,
};
use tch::Kind;

use super::{adafactor, adamw, loss, parameters};
use crate::reference::{apart, flat, numbers, reference};

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
                &Gradients::backward(&loss(&parameters, 1), &optimizer.tensors()).unwrap(),
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
    let gradients = Gradients::from_tensors(&[]).unwrap();
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
