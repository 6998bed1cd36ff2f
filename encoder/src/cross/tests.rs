//! The whole loss of ENDX, from token vectors to equation 13, against PyTorch: values, vectors, and the gradient of
//! every input.
//!
//!     .venv/bin/python benches/peers/loss_reference.py --out encoder/tests/golden

use std::collections::BTreeMap;

use serde_json::Value;
use tch::{Device, Kind, Tensor};

use super::side::CrossSide;
use super::{Aggregator, Cross, CrossBranchEncoder, CrossSettings};
use crate::error::Error;
use crate::loss::{Endx, GeometryLoss, InBatch, MatchedPairs, Ramp, Similarity, Temperature};
use crate::nn::{Exec, Output, Packed, Padding, Parameters, RunCosts, WeightForm};
use crate::tokenize::{TokenBatch, Tokens};

// As in the script.
const SIZE: usize = 6;
const SIDE: [&str; 12] = [
    "attention.query.weight",
    "attention.key.weight",
    "attention.value.weight",
    "attention.output.weight",
    "feed_forward.widen.weight",
    "feed_forward.widen.bias",
    "feed_forward.narrow.weight",
    "feed_forward.narrow.bias",
    "norm.weight",
    "norm.bias",
    "w1.weight",
    "w2.weight",
];
const QUESTION_TOKENS: [usize; 3] = [3, 1, 2];
const ANSWER_TOKENS: [usize; 3] = [2, 4, 1];

/// The numbers of `scattered` in the script, to be learned.
fn scattered(shape: &[usize], seed: f64) -> Tensor {
    let value = |place: usize| {
        let large = ((place + 1) as f64 * 12.9898 + seed * 78.233).sin() * 43_758.545_3;
        (3.0 * (large - large.floor()) - 1.5) as f32
    };
    let values: Vec<f32> = (0..shape.iter().product()).map(value).collect();
    let size: Vec<i64> = shape.iter().map(|&length| length as i64).collect();
    Tensor::from_slice(&values)
        .view(size.as_slice())
        .set_requires_grad(true)
}

/// Gives one side its tensors, and keeps them by name.
struct Given<'a> {
    side: &'a str,
    seed: usize,
    inputs: &'a mut BTreeMap<String, Tensor>,
}

impl Parameters for Given<'_> {
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, Error> {
        let at = SIDE.iter().position(|known| *known == name).unwrap();
        let tensor = scattered(shape, (self.seed + at) as f64);
        self.inputs
            .insert(format!("{}/{name}", self.side), tensor.shallow_clone());
        Ok(tensor)
    }

    fn form(&self) -> WeightForm {
        WeightForm::Learned
    }
}

/// Texts of these numbers of tokens, whose token vectors are the rows of `tokens` one text after another.
fn states(tokens: &Tensor, lengths: &[usize], vectors: &Tensor, padding: Padding) -> Output {
    let texts: Vec<Tokens> = lengths
        .iter()
        .map(|&length| Tokens {
            ids: vec![1; length],
            ..Tokens::default()
        })
        .collect();
    let batch = TokenBatch::new(&texts.iter().collect::<Vec<_>>(), 0);
    // The batch has them in another order, longest first.
    let places = batch.places();
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&text| places[text]);
    assert_ne!(order, [0, 1, 2]);
    let first = |text: usize| lengths[..text].iter().sum::<usize>();
    let order: Vec<i64> = order.iter().map(|&text| text as i64).collect();
    let packed = Packed::new(&batch, Device::Cpu, padding, Exec::ONE_THREAD, None).unwrap();
    assert_eq!(packed.is_padded(), padding != Padding::No);
    let mut rows = vec![0_i64; packed.ids.size()[0] as usize];
    for ((start, length), &text) in packed.rows().zip(&order) {
        for at in 0..length {
            rows[(start + at) as usize] = first(text as usize) as i64 + at;
        }
    }
    let tokens = tokens.index_select(0, &Tensor::from_slice(&rows));
    Output::new(
        tokens,
        packed,
        &vectors.index_select(0, &Tensor::from_slice(&order)),
        &batch,
    )
    .unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap())
        .collect()
}

fn flat(tensor: &Tensor) -> Vec<f64> {
    Vec::try_from(tensor.detach().to_kind(Kind::Double).reshape([-1])).unwrap()
}

/// Equal but for f32's rounding, relative to the largest number of the tensor.
fn assert_near(what: &str, ours: &[f64], theirs: &[f64]) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let largest = theirs.iter().fold(1e-3, |largest: f64, value| largest.max(value.abs()));
    for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert!((ours - theirs).abs() <= 1e-4 * largest, "{what}, {at}: {ours} {theirs}");
    }
}

fn compare(case: &str, aggregator: Aggregator, one_side: bool, cross_learns: bool) {
    for padding in [Padding::No, Padding::Rows(RunCosts::of(SIZE, None))] {
        compare_with(padding, case, aggregator, one_side, cross_learns);
    }
}

/// A cross-encoder branch whose values are added to `inputs`.
fn branch(aggregator: Aggregator, one_side: bool, inputs: &mut BTreeMap<String, Tensor>) -> Cross {
    let settings = CrossSettings {
        encoder: CrossBranchEncoder::Shared,
        heads: 2,
        feed_forward: Some(8),
        aggregator,
        one_side,
        seed: None,
    };
    let mut side = |side: &str, seed: usize| {
        let mut given = Given {
            side,
            seed,
            inputs: &mut *inputs,
        };
        CrossSide::load(&mut given, &settings, SIZE).unwrap()
    };
    let (question, answer) = if one_side {
        (side("both", 50), None)
    } else {
        (side("question", 50), Some(side("answer", 70)))
    };
    Cross {
        settings,
        encoder: None,
        question,
        answer,
        parameters: Vec::new(),
    }
}

/// The weights of the terms, as in the script.
fn weights() -> Endx {
    let ramp = |to: f64| Ramp {
        to,
        epochs: 5.0,
        after: 0.0,
    };
    Endx {
        dual: 0.3,
        cross: 0.2,
        geometry: 0.5,
        a_q: ramp(0.5),
        q_q: ramp(3.0),
        q_a: ramp(0.25),
        a_a: ramp(2.0),
    }
}

fn compare_with(padding: Padding, case: &str, aggregator: Aggregator, one_side: bool, cross_learns: bool) {
    let reference: Value = serde_json::from_str(include_str!("../../tests/golden/loss.json")).unwrap();
    let expected = &reference["endx"][case];
    let mut inputs = BTreeMap::new();
    let mut input = |name: &str, shape: [usize; 2], seed: f64| {
        let tensor = scattered(&shape, seed);
        inputs.insert(name.to_owned(), tensor.shallow_clone());
        tensor
    };
    let tokens = [input("questions", [6, SIZE], 40.0), input("answers", [7, SIZE], 41.0)];
    let dual = [
        input("dual_questions", [3, 5], 42.0),
        input("dual_answers", [3, 5], 43.0),
    ];
    let questions = states(&tokens[0], &QUESTION_TOKENS, &dual[0], padding);
    let answers = states(&tokens[1], &ANSWER_TOKENS, &dual[1], padding);
    let cross = branch(aggregator, one_side, &mut inputs);
    let vectors = cross.forward(&questions, &answers).unwrap();
    for (name, ours) in [("questions", &vectors.questions), ("answers", &vectors.answers)] {
        assert_near(
            &format!("{case} {name}"),
            &flat(ours),
            &numbers(&expected["vectors"][name]),
        );
    }

    let in_batch = InBatch {
        similarity: Similarity::InnerProduct,
        temperature: Temperature::Fixed(1.0),
        symmetric: false,
    };
    let endx = weights();
    let dual_loss = in_batch.loss(questions.vectors(), answers.vectors(), None).unwrap();
    let cross_loss = in_batch.loss(&vectors.questions, &vectors.answers, None).unwrap();
    let terms = GeometryLoss {
        cross_learns,
        ..GeometryLoss::default()
    }
    .terms(
        MatchedPairs {
            questions: questions.vectors(),
            answers: answers.vectors(),
        },
        MatchedPairs {
            questions: &vectors.questions,
            answers: &vectors.answers,
        },
        Similarity::InnerProduct,
        1.0,
    )
    .unwrap();
    let geometry = terms.weighted(endx.geometry_weights(5.0)).unwrap();
    let whole = endx.combined(&dual_loss, &cross_loss, &geometry).unwrap();
    for (name, loss) in [
        ("dual", &dual_loss),
        ("cross", &cross_loss),
        ("geometry", &geometry),
        ("value", &whole),
    ] {
        assert_near(
            &format!("{case} {name}"),
            &flat(loss),
            &[expected[name].as_f64().unwrap()],
        );
    }

    let gradients = expected["gradients"].as_object().unwrap();
    assert!(
        gradients.keys().all(|name| inputs.contains_key(name)) && gradients.len() == inputs.len(),
        "{case}"
    );
    whole.backward();
    for (name, tensor) in &inputs {
        assert_near(
            &format!("{case}, gradient of {name}"),
            &flat(&tensor.grad()),
            &numbers(&gradients[name]),
        );
    }
}

const MULTI_HOP: Aggregator = Aggregator::MultiHop { inner: 4, hops: 2 };

#[test]
fn two_sides_are_those_of_pytorch() {
    compare("two_sides", MULTI_HOP, false, false);
}

#[test]
fn one_side_that_learns_from_the_geometry_is_that_of_pytorch() {
    compare("one_side_learns", MULTI_HOP, true, true);
}

#[test]
fn means_are_those_of_pytorch() {
    compare("mean", Aggregator::Mean, false, false);
}
