//! The cross-encoder branch of ENDX: against its equations, one pair at a time; its gradients; its names; what it
//! refuses.

use std::path::{Path, PathBuf};

use dyad_encoder::cross::{Aggregator, Cross, CrossBranchEncoder, CrossSettings};
use dyad_encoder::loss::{Endx, GeometryLoss, InBatch, MatchedPairs, Ramp, Similarity, Temperature};
use dyad_encoder::model::VectorLength;
use dyad_encoder::model::{Model, Output, Parameter, create_with};
use dyad_encoder::optim::{AdamWSettings, Gradients, Groups, Optimizer, OptimizerSettings};
use dyad_encoder::tokenize::Tokens;
use dyad_encoder::transform::{Aggregation, Creation};
use dyad_encoder::{Compute, Tower};
use tch::{Kind, Tensor};

use crate::fixture::tiny;
use crate::reference::{apart, flat};

/// Values of a token vector of the tiny model.
const H: i64 = 12;
const HEADS: i64 = 3;
const QUESTIONS: [&str; 4] = [
    "who was the king",
    "the river",
    "a",
    "what is the light of the city and the river",
];
const ANSWERS: [&str; 4] = [
    "the queen of light",
    "water in the mountain",
    "the king was in the city of the river",
    "a light",
];

fn settings(aggregator: Aggregator) -> CrossSettings {
    let (encoder, heads) = (CrossBranchEncoder::Shared, HEADS as usize);
    CrossSettings {
        encoder,
        heads,
        feed_forward: Some(20),
        aggregator,
        one_side: false,
        seed: Some(5),
    }
}

const MULTI_HOP: Aggregator = Aggregator::MultiHop { inner: 5, hops: 2 };

fn compute() -> Compute {
    Compute {
        threads: Some(1),
        ..Compute::default()
    }
}

fn model_dir(sharing: &str) -> (tempfile::TempDir, PathBuf, Model) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model");
    let creation = Creation {
        sharing: sharing.parse().unwrap(),
        dim: 6,
        seed: 1,
    };
    create_with(
        &tiny("classic-mean"),
        &to,
        &creation,
        Aggregation::MultiHop { inner: 5, hops: 2 },
    )
    .unwrap();
    let learned = Model::open_for_training(&to, &compute()).unwrap();
    (folder, to, learned)
}

fn states(learned: &Model, tower: Tower, texts: &[&str]) -> Output {
    let tokens: Vec<Tokens> = texts
        .iter()
        .map(|text| learned.tokenizer().encode(tower, text).unwrap())
        .collect();
    learned
        .forward(tower, &tokens.iter().collect::<Vec<_>>(), VectorLength::Raw)
        .unwrap()
}

/// Equations 2 to 4 and the aggregator, for one text and its match, with a loop over heads.
fn slow(cross: &Cross, side: &str, own: &Tensor, other: &Tensor, aggregator: Aggregator) -> Vec<f64> {
    let named = |name: &str| {
        let name = format!("cross/{side}/{name}");
        let found = cross.parameters().iter().find(|parameter| parameter.name == name);
        found
            .unwrap_or_else(|| panic!("{name}"))
            .tensor
            .detach()
            .to_kind(Kind::Double)
    };
    let (own, other) = (own.detach().to_kind(Kind::Double), other.detach().to_kind(Kind::Double));
    let size = H / HEADS;
    let heads: Vec<Tensor> = (0..HEADS)
        .map(|head| {
            let map = |name: &str| {
                named(&format!("attention.{name}.weight"))
                    .narrow(0, head * size, size)
                    .transpose(0, 1)
            };
            let scores = other
                .matmul(&map("query"))
                .matmul(&own.matmul(&map("key")).transpose(0, 1));
            (scores / (size as f64).sqrt())
                .softmax(1, Kind::Double)
                .matmul(&own.matmul(&map("value")))
        })
        .collect();
    let refined = Tensor::cat(&heads, 1).matmul(&named("attention.output.weight").transpose(0, 1));
    let wide = refined.matmul(&named("feed_forward.widen.weight").transpose(0, 1)) + named("feed_forward.widen.bias");
    let narrow = wide
        .gelu("none")
        .matmul(&named("feed_forward.narrow.weight").transpose(0, 1));
    let sum = &refined + narrow + named("feed_forward.narrow.bias");
    let centred = &sum - sum.mean_dim(&[1i64][..], true, Kind::Double);
    let deviation = (centred.square().mean_dim(&[1i64][..], true, Kind::Double) + 1e-12).sqrt();
    let refined = centred / deviation * named("norm.weight") + named("norm.bias");
    assert_eq!(refined.size(), [other.size()[0], H]);
    flat(&match aggregator {
        Aggregator::Mean => refined.mean_dim(&[0i64][..], false, Kind::Double),
        Aggregator::MultiHop { .. } => {
            let inner = refined.matmul(&named("w1.weight").transpose(0, 1)).tanh();
            let weights = inner
                .matmul(&named("w2.weight").transpose(0, 1))
                .softmax(0, Kind::Double);
            weights.transpose(0, 1).matmul(&refined)
        }
    })
}

#[test]
fn pairs_are_those_of_the_equations() {
    let (_folder, to, learned) = model_dir("sde");
    let (questions, answers) = (
        states(&learned, Tower::Question, &QUESTIONS),
        states(&learned, Tower::Answer, &ANSWERS),
    );
    for (aggregator, one_side) in [(MULTI_HOP, false), (Aggregator::Mean, false), (MULTI_HOP, true)] {
        let cross = Cross::new(
            &CrossSettings {
                one_side,
                ..settings(aggregator)
            },
            &learned,
            &to,
            &compute(),
        )
        .unwrap();
        // Norms and biases that do something, and attention that is not nearly uniform, as it is after initialisation.
        for parameter in cross.parameters() {
            let mut tensor = parameter.tensor.detach();
            if tensor.dim() == 1 {
                let more = Tensor::arange(tensor.size()[0], (Kind::Float, tensor.device())).sin() * 0.3;
                let _ = tensor.f_add_(&more).unwrap();
            } else if parameter.name.contains("query") || parameter.name.contains("key") {
                let _ = tensor.f_mul_scalar_(5.0).unwrap();
            }
        }
        let vectors = cross.forward(&questions, &answers).unwrap();
        let sides = if one_side { ["both"; 2] } else { ["question", "answer"] };
        for pair in 0..QUESTIONS.len() {
            let (q, a) = (
                questions.tokens_of(pair).unwrap().unwrap(),
                answers.tokens_of(pair).unwrap().unwrap(),
            );
            let question = apart(
                &flat(&vectors.questions.get(pair as i64)),
                &slow(&cross, sides[0], &q, &a, aggregator),
            );
            let answer = apart(
                &flat(&vectors.answers.get(pair as i64)),
                &slow(&cross, sides[1], &a, &q, aggregator),
            );
            assert!(
                question < 5e-5 && answer < 5e-5,
                "{aggregator:?} {pair}: {question} {answer}"
            );
        }
        // Another answer changes the question's vector.
        let others = states(
            &learned,
            Tower::Answer,
            &[ANSWERS[1], ANSWERS[0], ANSWERS[2], ANSWERS[3]],
        );
        let changed = cross.forward(&questions, &others).unwrap();
        let moved = |pair: i64| apart(&flat(&vectors.questions.get(pair)), &flat(&changed.questions.get(pair)));
        assert!(moved(0) > 1e-3 && moved(2) < 1e-6, "{} {}", moved(0), moved(2));
    }
}

#[test]
fn states_are_the_token_vectors_of_each_text() {
    let (_folder, _, learned) = model_dir("ade");
    let together = states(&learned, Tower::Question, &QUESTIONS);
    assert_eq!(together.texts(), QUESTIONS.len());
    assert!(together.tokens_of(QUESTIONS.len()).is_none());
    for (at, text) in QUESTIONS.iter().enumerate() {
        let alone = states(&learned, Tower::Question, &[text]);
        let (ours, theirs) = (
            together.tokens_of(at).unwrap().unwrap(),
            alone.tokens_of(0).unwrap().unwrap(),
        );
        assert_eq!(
            ours.size(),
            [
                learned.tokenizer().encode(Tower::Question, text).unwrap().ids.len() as i64,
                H
            ]
        );
        assert!(apart(&flat(&ours), &flat(&theirs)) < 1e-5, "{text}");
        assert!(
            apart(
                &flat(&together.vectors().get(at as i64)),
                &flat(&alone.vectors().get(0))
            ) < 1e-5,
            "{text}"
        );
    }
    // Raw vectors point where unit vectors do, and are not of unit length.
    let tokens: Vec<Tokens> = QUESTIONS
        .iter()
        .map(|text| learned.tokenizer().encode(Tower::Question, text).unwrap())
        .collect();
    let unit = learned
        .vectors(Tower::Question, &tokens.iter().collect::<Vec<_>>())
        .unwrap();
    let lengths = together.vectors().norm_scalaropt_dim(2.0, [1], true);
    assert!(apart(&flat(&(together.vectors() / &lengths)), &flat(&unit)) < 1e-6);
    assert!(
        flat(&lengths).iter().all(|length| (length - 1.0).abs() > 1e-3),
        "{lengths:?}"
    );
}

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
                (Similarity::InnerProduct, 1.0),
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
            .step_with(&Gradients::of(&whole, &optimizer.tensors()).unwrap(), 1.0)
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
