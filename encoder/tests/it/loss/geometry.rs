//! The geometry terms of ENDX.

use dyad_encoder::loss::{GeometryLoss, GeometryWeights, Kernel, MatchedPairs, Similarity};
use tch::{Kind, Tensor};

use super::{agrees, follows_differences};
use crate::reference::{learned, reference, values};

/// The paper takes inner products as they are.
const PAPER_TEMPERATURE: f64 = 1.0;

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
            let terms = geometry
                .terms(dual, cross, Similarity::InnerProduct, PAPER_TEMPERATURE)
                .unwrap();
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
                .terms(dual, cross, Similarity::Cosine, 0.5)
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
    let terms = GeometryLoss::default()
        .terms(same, same, Similarity::InnerProduct, PAPER_TEMPERATURE)
        .unwrap();
    assert!(terms.weighted(WEIGHTS).unwrap().double_value(&[]).abs() < 1e-6);
    let fewer = values(&[3, 5], 2.0, Kind::Float);
    let message = GeometryLoss::default()
        .terms(
            same,
            MatchedPairs {
                questions: &q,
                answers: &fewer,
            },
            Similarity::InnerProduct,
            PAPER_TEMPERATURE,
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
    let terms = |q: &Tensor, a: &Tensor, cross_q: &Tensor, cross_a: &Tensor, similarity, temperature| {
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
            .terms(dual, cross, similarity, temperature)
            .unwrap()
            .weighted(WEIGHTS)
            .unwrap()
            .double_value(&[])
    };
    // A quarter as temperature is twice the length of all vectors; cosine is unit length.
    let longer = [&q, &a, &cross_q, &cross_a].map(|vectors| vectors * 2.0);
    let inner_product = Similarity::InnerProduct;
    let expected = terms(
        &longer[0],
        &longer[1],
        &longer[2],
        &longer[3],
        inner_product,
        PAPER_TEMPERATURE,
    );
    let found = terms(&q, &a, &cross_q, &cross_a, inner_product, 0.25);
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
        inner_product,
        0.1,
    );
    let found = terms(&longer[0], &a, &longer[2], &cross_a, Similarity::Cosine, 0.1);
    assert!((found - expected).abs() < 1e-9 * expected, "{found} {expected}");
}
