//! Distillation.

use dyad_encoder::loss::{kl_divergence, margin_mse};
use tch::Kind;

use super::{agrees, mask};
use crate::reference::{flat, learned, reference, values};

#[test]
fn distillation_is_that_of_pytorch() {
    let all = reference("loss.json");
    for kind in [Kind::Float, Kind::Double] {
        for (name, temperature, missing) in [
            ("plain", 1.0, None),
            ("masked", 2.0, Some(mask(3, 4, &[(0, 3), (2, 1)]))),
        ] {
            let teacher = values(&[3, 4], 4.0, kind).set_requires_grad(true);
            let own = learned(&[3, 4], 3.0, kind);
            let loss = kl_divergence(&own, &teacher, temperature, missing.as_ref()).unwrap();
            agrees(name, &all["kl"][name], &loss, &[("own", &own)]);
            let own = learned(&[3, 4], 3.0, kind);
            let loss = margin_mse(&own, &teacher, missing.as_ref()).unwrap();
            agrees(name, &all["margin_mse"][name], &loss, &[("own", &own)]);
            assert!(!teacher.grad().defined(), "the teacher does not learn");
        }
    }
}

#[test]
fn what_a_teacher_agrees_with_costs_nothing() {
    let scores = values(&[3, 4], 3.0, Kind::Float);
    // Neither loss sees what is added to all scores of a question.
    let moved = &scores + 7.0;
    for loss in [
        kl_divergence(&scores, &moved, 0.5, None),
        margin_mse(&scores, &moved, None),
    ] {
        assert!(loss.unwrap().double_value(&[]).abs() < 1e-6);
    }
    // Missing candidates do not count, whatever stands there.
    let missing = mask(3, 4, &[(1, 2)]);
    let odd = scores.copy();
    let _ = odd.get(1).get(2).fill_(f64::INFINITY);
    for (ours, theirs) in [
        (
            kl_divergence(&odd, &scores, 1.0, Some(&missing)),
            kl_divergence(&scores, &scores, 1.0, Some(&missing)),
        ),
        (
            margin_mse(&odd, &scores, Some(&missing)),
            margin_mse(&scores, &scores, Some(&missing)),
        ),
    ] {
        assert_eq!(flat(&ours.unwrap()), flat(&theirs.unwrap()));
    }
}
