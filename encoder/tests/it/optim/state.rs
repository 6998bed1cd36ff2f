//! The state of an optimizer: saved, restored, refused.

use dyad_encoder::model::Parameter;
use dyad_encoder::optim::{AdafactorSettings, AdamWSettings, Gradients, Groups, Optimizer};
use tch::{Kind, Tensor};

use super::{adafactor, adamw, cases, loss, parameters};
use crate::reference::flat;

#[test]
fn a_state_taken_back_gives_the_same_steps_to_the_bit() {
    for (_, case, settings) in cases() {
        let ours = parameters(Kind::Float);
        let mut optimizer = Optimizer::new(&settings, &ours, &Groups::default()).unwrap();
        let step = |parameters: &[Parameter], optimizer: &mut Optimizer, step: i64| {
            let gradients = Gradients::backward(&loss(parameters, step), &optimizer.tensors()).unwrap();
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
            &Gradients::backward(&loss(&parameters, 1), &optimizer.tensors()).unwrap(),
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
