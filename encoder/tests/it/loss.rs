//! Losses and their gradients against PyTorch, against differences, and against one another.

use dyad_encoder::loss::{
    GeometryLoss, GeometryWeights, InBatch, Kernel, MatchedPairs, Similarity, Temperature, kl_divergence, margin_mse,
};
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use crate::reference::{apart, flat, learned, numbers, reference, values};

/// Compares a loss and its gradients with those of the script. In f64 it is the same to rounding; in f32 as near as f32
/// goes.
fn agrees(name: &str, expected: &Value, loss: &Tensor, inputs: &[(&str, &Tensor)]) {
    let close = if loss.kind() == Kind::Double { 1e-7 } else { 2e-4 };
    let value = expected["value"].as_f64().unwrap();
    assert!(
        (loss.double_value(&[]) - value).abs() < close * value.abs().max(1.0),
        "{name}: {loss:?} {value}"
    );
    loss.backward();
    for (input, tensor) in inputs {
        let gradient = &expected["gradients"][input];
        if gradient.is_null() {
            assert!(!tensor.grad().defined(), "{name}: {input} gets a gradient");
            continue;
        }
        let difference = apart(&flat(&tensor.grad()), &numbers(gradient));
        assert!(difference < close, "{name}: {input} {difference}");
    }
}

/// The gradient of `loss` at `inputs` by central differences, in f64, against the tape's.
fn follows_differences(name: &str, inputs: &[Tensor], loss: impl Fn(&[Tensor]) -> Tensor) {
    const STEP: f64 = 1e-5;
    loss(inputs).backward();
    for (number, input) in inputs.iter().enumerate() {
        let gradient = flat(&input.grad());
        for (place, expected) in gradient.iter().enumerate() {
            let at = |by: f64| {
                let moved: Vec<Tensor> = inputs.iter().map(|tensor| tensor.detach().copy()).collect();
                let mut cell = moved[number].view([-1]).get(place as i64);
                let _ = cell.f_add_scalar_(by).unwrap();
                loss(&moved).double_value(&[])
            };
            let difference = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            assert!(
                (difference - expected).abs() < 1e-5,
                "{name}: {number} {place}: {difference} {expected}"
            );
        }
    }
}

fn mask(rows: i64, columns: i64, marked: &[(i64, i64)]) -> Tensor {
    let values: Vec<bool> = (0..rows * columns)
        .map(|place| marked.contains(&(place / columns, place % columns)))
        .collect();
    Tensor::from_slice(&values).view([rows, columns])
}

#[test]
fn in_batch_softmax_is_that_of_pytorch() {
    let all = reference("loss.json");
    for kind in [Kind::Float, Kind::Double] {
        // The last two mark a question's own positive, which stays all the same.
        let marked = [(0, 1), (0, 4), (1, 6), (2, 0), (1, 1), (2, 2)];
        for (name, similarity, temperature, symmetric, left_out) in [
            ("cosine", Similarity::Cosine, Temperature::Fixed(0.05), false, None),
            (
                "inner_product_symmetric",
                Similarity::InnerProduct,
                Temperature::Fixed(1.0),
                true,
                None,
            ),
            (
                "learned_masked_symmetric",
                Similarity::Cosine,
                Temperature::Learned {
                    log: Tensor::full([], 0.2f64.ln(), (kind, Device::Cpu)).set_requires_grad(true),
                },
                true,
                Some(mask(3, 7, &marked)),
            ),
        ] {
            let (questions, documents) = (learned(&[3, 5], 1.0, kind), learned(&[7, 5], 2.0, kind));
            let in_batch = InBatch {
                similarity,
                temperature,
                symmetric,
            };
            let loss = in_batch.loss(&questions, &documents, left_out.as_ref()).unwrap();
            assert_eq!(loss.kind(), kind);
            let log = in_batch.temperature.parameter().map(|parameter| parameter.tensor);
            let mut inputs = vec![("questions", &questions), ("documents", &documents)];
            inputs.extend(log.as_ref().map(|log| ("log_temperature", log)));
            agrees(name, &all["in_batch"][name], &loss, &inputs);
        }
    }
}

#[test]
fn in_batch_gradients_are_differences() {
    let marked = mask(3, 5, &[(0, 2), (2, 4)]);
    let inputs = [learned(&[3, 4], 1.0, Kind::Double), learned(&[5, 4], 2.0, Kind::Double)];
    for similarity in [Similarity::Cosine, Similarity::InnerProduct] {
        let in_batch = InBatch {
            similarity,
            temperature: Temperature::Fixed(0.3),
            symmetric: true,
        };
        let inputs = inputs
            .each_ref()
            .map(|input| input.detach().copy().set_requires_grad(true));
        follows_differences("in-batch", &inputs, |inputs| {
            in_batch.loss(&inputs[0], &inputs[1], Some(&marked)).unwrap()
        });
    }
}

#[test]
fn documents_left_out_are_as_if_they_were_not_there() {
    let in_batch = InBatch {
        similarity: Similarity::Cosine,
        temperature: Temperature::Fixed(0.1),
        symmetric: false,
    };
    let (questions, documents) = (values(&[2, 4], 1.0, Kind::Float), values(&[5, 4], 2.0, Kind::Float));
    let marked = mask(2, 5, &[(0, 3), (1, 3)]);
    let masked = in_batch.loss(&questions, &documents, Some(&marked)).unwrap();
    let others = documents.index_select(0, &Tensor::from_slice(&[0i64, 1, 2, 4]));
    let without = in_batch.loss(&questions, &others, None).unwrap();
    assert!((masked.double_value(&[]) - without.double_value(&[])).abs() < 1e-6);
    assert!(
        (masked.double_value(&[]) - in_batch.loss(&questions, &documents, None).unwrap().double_value(&[])).abs()
            > 1e-3
    );
}

#[test]
fn extreme_scores_and_narrow_numbers_stay_finite() {
    let in_batch = InBatch {
        similarity: Similarity::InnerProduct,
        temperature: Temperature::Fixed(0.01),
        symmetric: true,
    };
    let (questions, documents) = (
        learned(&[3, 8], 1.0, Kind::BFloat16),
        learned(&[6, 8], 2.0, Kind::BFloat16),
    );
    let loss = in_batch
        .loss(&(&questions * 100.0), &(&documents * 100.0), None)
        .unwrap();
    assert_eq!(loss.kind(), Kind::Float);
    loss.backward();
    assert!(loss.double_value(&[]).is_finite() && loss.double_value(&[]) > 1e4);
    for tensor in [&questions, &documents] {
        assert_eq!(tensor.grad().kind(), Kind::BFloat16);
        assert!(flat(&tensor.grad()).iter().all(|value| value.is_finite()));
    }
    let zero = Tensor::zeros([2, 4], (Kind::Float, Device::Cpu)).set_requires_grad(true);
    let cosine = InBatch {
        similarity: Similarity::Cosine,
        temperature: Temperature::Fixed(0.01),
        symmetric: false,
    };
    let loss = cosine.loss(&zero, &zero, None).unwrap();
    assert!((loss.double_value(&[]) - 2f64.ln()).abs() < 1e-6);
    loss.backward();
    assert!(flat(&zero.grad()).iter().all(|value| value.is_finite()));
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let in_batch = InBatch {
        similarity: Similarity::Cosine,
        temperature: Temperature::Fixed(0.1),
        symmetric: false,
    };
    let of = |rows: i64| values(&[rows, 4], 1.0, Kind::Float);
    for (result, part) in [
        (in_batch.loss(&of(3), &of(2), None), "3 questions and 2 documents"),
        (in_batch.loss(&of(0), &of(2), None), "0 questions"),
        (
            in_batch.loss(&of(2), &of(3), Some(&mask(2, 2, &[]))),
            "[2, 3], got: [2, 2]",
        ),
        (
            in_batch.loss(&values(&[4], 1.0, Kind::Float), &of(2), None),
            "must be a matrix",
        ),
        (kl_divergence(&of(2), &of(3), 1.0, None), "teacher"),
        (
            margin_mse(
                &values(&[2, 1], 1.0, Kind::Float),
                &values(&[2, 1], 1.0, Kind::Float),
                None,
            ),
            "negatives",
        ),
    ] {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_temperature_is_positive_and_stays_in_its_bounds() {
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(
            Temperature::fixed(wrong)
                .unwrap_err()
                .to_string()
                .contains("`temperature`")
        );
        assert!(Temperature::learned(wrong, Device::Cpu).is_err());
    }
    let learned = Temperature::learned(0.05, Device::Cpu).unwrap();
    assert!((learned.value().unwrap() - 0.05).abs() < 1e-8);
    let parameter = learned.parameter().unwrap();
    assert_eq!((parameter.name.as_str(), parameter.frozen), (Temperature::NAME, false));
    let mut log = parameter.tensor.detach();
    let _ = log.fill_(-20.0);
    learned.keep_in_bounds().unwrap();
    assert!((learned.value().unwrap() - 0.001).abs() < 1e-8);
}

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

/// Inner products as they are.
const AS_THE_PAPER: (Similarity, f64) = (Similarity::InnerProduct, 1.0);
const WEIGHTS: GeometryWeights = GeometryWeights {
    a_q: 0.5,
    q_q: 3.0,
    q_a: 0.25,
    a_a: 2.0,
};

#[test]
fn geometry_is_that_of_the_equations() {
    let all = reference("loss.json");
    let gaussian = Kernel::Gaussian { width: 4.0 };
    for kind in [Kind::Float, Kind::Double] {
        for (name, geometry) in [
            ("inner_product", GeometryLoss::default()),
            (
                "gaussian",
                GeometryLoss {
                    dual: gaussian,
                    cross: gaussian,
                    ..GeometryLoss::default()
                },
            ),
            (
                "cross_learns",
                GeometryLoss {
                    cross_learns: true,
                    ..GeometryLoss::default()
                },
            ),
        ] {
            let [q, a, cross_q, cross_a] =
                [(5, 10.0), (5, 11.0), (6, 12.0), (6, 13.0)].map(|(dim, seed)| learned(&[4, dim], seed, kind));
            let (dual, cross) = (
                MatchedPairs {
                    questions: &q,
                    answers: &a,
                },
                MatchedPairs {
                    questions: &cross_q,
                    answers: &cross_a,
                },
            );
            let terms = geometry.terms(dual, cross, AS_THE_PAPER).unwrap();
            let expected = &all["geometry"][name];
            for (term, ours) in [
                ("a_q", &terms.a_q),
                ("q_q", &terms.q_q),
                ("q_a", &terms.q_a),
                ("a_a", &terms.a_a),
            ] {
                let theirs = expected["terms"][term].as_f64().unwrap();
                let difference = (ours.double_value(&[]) - theirs).abs();
                assert!(
                    difference < 1e-4 * theirs.max(1.0) && theirs > 1e-3,
                    "{name} {term}: {difference}"
                );
            }
            let inputs = [
                ("dual_questions", &q),
                ("dual_answers", &a),
                ("cross_questions", &cross_q),
                ("cross_answers", &cross_a),
            ];
            agrees(name, expected, &terms.weighted(WEIGHTS).unwrap(), &inputs);
        }
    }
}

#[test]
fn geometry_gradients_are_differences() {
    for kernel in [Kernel::InnerProduct, Kernel::Gaussian { width: 2.0 }] {
        let geometry = GeometryLoss {
            dual: kernel,
            cross: kernel,
            cross_learns: true,
        };
        let inputs =
            [1.0, 2.0, 3.0, 4.0].map(|seed| (values(&[3, 3], seed, Kind::Double) * 0.7).set_requires_grad(true));
        follows_differences("geometry", &inputs, |inputs| {
            let dual = MatchedPairs {
                questions: &inputs[0],
                answers: &inputs[1],
            };
            let cross = MatchedPairs {
                questions: &inputs[2],
                answers: &inputs[3],
            };
            geometry
                .terms(dual, cross, (Similarity::Cosine, 0.5))
                .unwrap()
                .weighted(WEIGHTS)
                .unwrap()
        });
    }
}

#[test]
fn equal_geometries_cost_nothing_and_unequal_batches_are_refused() {
    let (q, a) = (values(&[4, 5], 1.0, Kind::Float), values(&[4, 5], 2.0, Kind::Float));
    let same = MatchedPairs {
        questions: &q,
        answers: &a,
    };
    let terms = GeometryLoss::default().terms(same, same, AS_THE_PAPER).unwrap();
    assert!(terms.weighted(WEIGHTS).unwrap().double_value(&[]).abs() < 1e-6);
    let fewer = values(&[3, 5], 2.0, Kind::Float);
    let message = GeometryLoss::default()
        .terms(
            same,
            MatchedPairs {
                questions: &q,
                answers: &fewer,
            },
            AS_THE_PAPER,
        )
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("cross answers") && message.contains("[4, 5]"),
        "{message}"
    );
}

#[test]
fn the_temperature_divides_inner_products_of_both_spaces() {
    let of = |dim: i64, seed: f64| values(&[4, dim], seed, Kind::Double);
    let (q, a, cross_q, cross_a) = (of(5, 1.0), of(5, 2.0), of(6, 3.0), of(6, 4.0));
    let terms = |q: &Tensor, a: &Tensor, cross_q: &Tensor, cross_a: &Tensor, by| {
        let (dual, cross) = (
            MatchedPairs {
                questions: q,
                answers: a,
            },
            MatchedPairs {
                questions: cross_q,
                answers: cross_a,
            },
        );
        GeometryLoss::default()
            .terms(dual, cross, by)
            .unwrap()
            .weighted(WEIGHTS)
            .unwrap()
            .double_value(&[])
    };
    // A quarter as temperature is twice the length of all vectors; cosine is unit length.
    let longer = [&q, &a, &cross_q, &cross_a].map(|vectors| vectors * 2.0);
    let expected = terms(&longer[0], &longer[1], &longer[2], &longer[3], AS_THE_PAPER);
    let found = terms(&q, &a, &cross_q, &cross_a, (Similarity::InnerProduct, 0.25));
    assert!(
        (found - expected).abs() < 1e-9 * expected && expected > 0.1,
        "{found} {expected}"
    );
    let unit = |vectors: &Tensor| vectors / vectors.norm_scalaropt_dim(2.0, [1_i64], true);
    let expected = terms(
        &unit(&q),
        &unit(&a),
        &unit(&cross_q),
        &unit(&cross_a),
        (Similarity::InnerProduct, 0.1),
    );
    let found = terms(&longer[0], &a, &longer[2], &cross_a, (Similarity::Cosine, 0.1));
    assert!((found - expected).abs() < 1e-9 * expected, "{found} {expected}");
}
