//! The branch in training: its gradients, its names, and what it refuses.

use std::path::Path;

use dyad_encoder::Tower;
use dyad_encoder::cross::{Aggregator, Cross, CrossBranchEncoder, CrossSettings};
use dyad_encoder::loss::{Endx, GeometryLoss, InBatch, MatchedPairs, Ramp, Similarity, Temperature};
use dyad_encoder::model::Parameter;
use dyad_encoder::optim::{AdamWSettings, Gradients, Groups, Optimizer, OptimizerSettings};

use super::{ANSWERS, MULTI_HOP, QUESTIONS, compute, model_dir, settings, states};

#[test]
fn an_encoder_of_its_own_learns_and_the_dual_one_does_not_hear_of_it() {
    for (encoder, sharing) in [
        (CrossBranchEncoder::Separate, "sde"),
        (CrossBranchEncoder::Separate, "ade-spl"),
        (CrossBranchEncoder::Shared, "sde"),
    ] {
        let (_folder, to, learned) = model_dir(sharing);
        let cross = Cross::new(
            &CrossSettings {
                encoder,
                ..settings(MULTI_HOP)
            },
            &learned,
            &to,
            &compute(),
        )
        .unwrap();
        let names: std::collections::HashSet<&str> = cross
            .parameters()
            .iter()
            .chain(learned.parameters())
            .map(|parameter| parameter.name.as_str())
            .collect();
        assert_eq!(
            names.len(),
            cross.parameters().len() + learned.parameters().len(),
            "names are unique"
        );
        assert!(
            cross
                .parameters()
                .iter()
                .all(|parameter| parameter.name.starts_with("cross/"))
        );
        let reader = cross.encoder().unwrap_or(&learned);
        let vectors = cross
            .forward(
                &states(reader, Tower::Question, &QUESTIONS),
                &states(reader, Tower::Answer, &ANSWERS),
            )
            .unwrap();
        let in_batch = InBatch {
            similarity: Similarity::InnerProduct,
            temperature: Temperature::Fixed(1.0),
            symmetric: false,
        };
        in_batch
            .loss(&vectors.questions, &vectors.answers, None)
            .unwrap()
            .backward();
        for parameter in cross.parameters() {
            let gradient = parameter.tensor.grad();
            // Keys' biases cancel in a softmax; the tiny model's pooler is not part of it.
            assert!(gradient.defined(), "{encoder:?} {sharing}: {}", parameter.name);
        }
        let heard = learned
            .parameters()
            .iter()
            .any(|parameter| parameter.tensor.grad().defined());
        assert_eq!(heard, encoder == CrossBranchEncoder::Shared, "{sharing}");
    }
}

/// All of ENDX at once: losses of both sides and their geometry, one optimizer, and the loss falls.
#[test]
fn endx_learns() {
    let (_folder, to, learned) = model_dir("sde");
    let separate = CrossSettings {
        encoder: CrossBranchEncoder::Separate,
        ..settings(MULTI_HOP)
    };
    let cross = Cross::new(&separate, &learned, &to, &compute()).unwrap();
    let parameters: Vec<_> = learned
        .parameters()
        .iter()
        .chain(cross.parameters())
        .map(Parameter::shallow_clone)
        .collect();
    let settings = OptimizerSettings::AdamW(AdamWSettings {
        learning_rate: 2e-3,
        ..AdamWSettings::default()
    });
    let mut optimizer = Optimizer::new(&settings, &parameters, &Groups(vec![Groups::without_decay()])).unwrap();
    let in_batch = InBatch {
        similarity: Similarity::InnerProduct,
        temperature: Temperature::Fixed(1.0),
        symmetric: false,
    };
    // Weights as they are from the beginning on: while they grow, so does the loss.
    let weight = Ramp {
        to: 0.5,
        epochs: 0.0,
        after: 0.0,
    };
    let endx = Endx {
        a_q: weight,
        q_q: weight,
        q_a: weight,
        a_a: weight,
        ..Endx::default()
    };
    let losses = || {
        let (q, a) = (
            states(&learned, Tower::Question, &QUESTIONS),
            states(&learned, Tower::Answer, &ANSWERS),
        );
        let encoder = cross.encoder().unwrap();
        let vectors = cross
            .forward(
                &states(encoder, Tower::Question, &QUESTIONS),
                &states(encoder, Tower::Answer, &ANSWERS),
            )
            .unwrap();
        let dual = in_batch.loss(q.vectors(), a.vectors(), None).unwrap();
        let crossed = in_batch.loss(&vectors.questions, &vectors.answers, None).unwrap();
        let terms = GeometryLoss::default()
            .terms(
                MatchedPairs {
                    questions: q.vectors(),
                    answers: a.vectors(),
                },
                MatchedPairs {
                    questions: &vectors.questions,
                    answers: &vectors.answers,
                },
                Similarity::InnerProduct,
                1.0,
            )
            .unwrap();
        let geometry = terms.weighted(endx.geometry_weights(0.0)).unwrap();
        [endx.combined(&dual, &crossed, &geometry).unwrap(), dual, crossed]
    };
    let values = || losses().map(|loss| loss.double_value(&[]));
    let before = values();
    for _ in 0..100 {
        let [whole, ..] = losses();
        optimizer
            .step_with(&Gradients::backward(&whole, &optimizer.tensors()).unwrap(), 1.0)
            .unwrap();
    }
    let after = values();
    for (before, after) in before.iter().zip(&after) {
        assert!(*after < 0.3 * before, "{before} {after}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (_folder, to, learned) = model_dir("sde");
    let new = |settings: CrossSettings, from: &Path| Cross::new(&settings, &learned, from, &compute());
    for (wrong, part) in [
        (
            CrossSettings {
                heads: 5,
                ..settings(MULTI_HOP)
            },
            "`heads` must be a divisor of the 12 values",
        ),
        (
            CrossSettings {
                heads: 0,
                ..settings(MULTI_HOP)
            },
            "`heads`",
        ),
        (
            CrossSettings {
                feed_forward: Some(0),
                ..settings(MULTI_HOP)
            },
            "`feed-forward`",
        ),
        (settings(Aggregator::MultiHop { inner: 5, hops: 0 }), "`hops`"),
    ] {
        let message = new(wrong, &to).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    let separate = CrossSettings {
        encoder: CrossBranchEncoder::Separate,
        ..settings(MULTI_HOP)
    };
    assert!(
        new(separate, &to.join("nothing"))
            .unwrap_err()
            .to_string()
            .contains("no model directory")
    );
    let cross = new(settings(MULTI_HOP), &to).unwrap();
    let (questions, answers) = (
        states(&learned, Tower::Question, &QUESTIONS),
        states(&learned, Tower::Answer, &ANSWERS[..3]),
    );
    assert!(
        cross
            .forward(&questions, &answers)
            .unwrap_err()
            .to_string()
            .contains("4 texts and 3")
    );
}
