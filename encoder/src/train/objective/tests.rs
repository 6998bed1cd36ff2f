//! The loss of a batch against its parts, and against sentence-transformers.

use serde_json::Value;
use tch::Device;

use super::*;
use crate::data::Cursor;
use crate::tokenize::Tokens;

#[test]
fn precision_at_1_counts_the_questions_that_no_other_answer_beats() {
    let scores = Tensor::from_slice(&[2.0_f32, 1.0, 0.0, 3.0, 2.0, 0.0, 1.0, 1.0, 1.0]).view([3, 3]);
    let value = |left_out: Option<&Tensor>| precision_at_1(&scores, left_out).unwrap().double_value(&[]);
    assert!((value(None) - 2.0 / 3.0).abs() < 1e-6, "a tie is no loss");
    let left_out = Tensor::from_slice(&[false, false, false, true, false, false, false, false, false]).view([3, 3]);
    assert!((value(Some(&left_out)) - 1.0).abs() < 1e-6);
}

fn batch(owners: Vec<usize>, b: usize, teacher: Option<Vec<f32>>) -> TrainBatch {
    let n = b + owners.len();
    TrainBatch {
        questions: vec![Tokens::default(); b],
        answers: vec![Tokens::default(); n],
        contexts: Vec::new(),
        excluded: vec![false; b * n],
        teacher,
        examples: (0..b as u32).collect(),
        cursor: Cursor::default(),
        next: Cursor { epoch: 0, position: 1 },
        owners,
    }
}

#[test]
fn candidates_are_those_that_a_teacher_scored() {
    let none = f32::NAN;
    // Question 0 has two negatives, question 1 one, question 2 a negative without a score of its positive.
    let scores = [
        [5.0, none, none, 1.0, none, 2.0, none],
        [none, 4.0, none, none, 3.0, none, none],
        [none, none, none, none, none, none, 9.0],
    ];
    let batch = batch(vec![0, 1, 0, 2], 3, Some(scores.concat()));
    let found = TeacherCandidates::from_batch(&batch).unwrap();
    assert_eq!((found.rows.as_slice(), found.width), (&[0, 1][..], 3));
    assert_eq!(found.columns, [0, 3, 5, 1, 4, 0]);
    assert_eq!(found.teacher, [5.0, 1.0, 2.0, 4.0, 3.0, 0.0]);
    assert_eq!(found.missing, [false, false, false, false, false, true]);
}

fn config() -> LossConfig {
    LossConfig {
        similarity: Similarity::InnerProduct,
        temperature: 0.5,
        learned_temperature: false,
        symmetric: false,
        weight: 0.5,
        distillation: None,
        endx: None,
        matryoshka: None,
    }
}

fn random(rows: i64) -> Tensor {
    Tensor::arange(rows * 4, (Kind::Float, Device::Cpu))
        .sin()
        .view([rows, 4])
}

#[test]
fn distillation_is_weighed_beside_the_softmax() {
    let none = f32::NAN;
    // Halved by the scale.
    let teacher = [[10.0, none, 2.0], [none, 8.0, none]].concat();
    let vectors = EmbeddedBatch {
        questions: random(2),
        answers: random(3) * 0.7,
        cross: None,
    };
    let scores = vectors.questions.matmul(&vectors.answers.transpose(0, 1));
    let score = |row: i64, column: i64| scores.double_value(&[row, column]);
    for kind in [DistillationKind::MarginMse, DistillationKind::Kl] {
        let distillation = Some(DistillationConfig {
            kind,
            weight: 2.0,
            temperature: 1.0,
            scale: 0.5,
        });
        let objective = Objective::new(
            &LossConfig {
                distillation,
                ..config()
            },
            &Compute::default(),
        )
        .unwrap();
        let loss = objective
            .loss(&vectors, &batch(vec![0], 2, Some(teacher.clone())), 0.0)
            .unwrap();
        let value = |name: &str| {
            loss.parts
                .iter()
                .find(|(part, _)| *part == name)
                .unwrap()
                .1
                .double_value(&[])
        };
        let expected = match kind {
            DistillationKind::MarginMse => (score(0, 0) - score(0, 2) - 4.0).powi(2),
            DistillationKind::Kl => {
                let p = 1.0 / (1.0 + (-4.0_f64).exp());
                let own = 1.0 / (1.0 + (-(score(0, 0) - score(0, 2)) / 0.5).exp());
                p * (p / own).ln() + (1.0 - p) * ((1.0 - p) / (1.0 - own)).ln()
            }
        };
        assert!(
            (value("distillation") - expected).abs() < 1e-4,
            "{kind:?} {} {expected}",
            value("distillation")
        );
        let whole = loss.whole.double_value(&[]);
        assert!(
            (whole - 0.5 * value("in-batch") - 2.0 * expected).abs() < 1e-4,
            "{kind:?}"
        );
        // Where nothing was scored, the softmax is left.
        let loss = objective.loss(&vectors, &batch(vec![0], 2, None), 0.0).unwrap();
        assert_eq!(loss.parts.len(), 1);
    }
}

/// `matryoshka` of the file that `benches/peers/loss_reference.py` writes: sentence-transformers' `MatryoshkaLoss` over
/// its `MultipleNegativesRankingLoss`, in f64.
#[test]
fn a_loss_of_several_sizes_is_that_of_sentence_transformers() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/loss.json");
    let all: Value = serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap();
    let numbers = |value: &Value| -> Vec<f64> { serde_json::from_value(value.clone()).unwrap() };
    // Sines of a place and a seed, as the script has them.
    let sines = |rows: usize, seed: f64| {
        let value = |place: usize| ((place as f64 + 1.0) * 12.9898 + seed * 78.233).sin() * 1.5;
        let values: Vec<f64> = (0..rows * 6).map(|place| f64::from(value(place) as f32)).collect();
        let rows = Tensor::from_slice(&values).view([rows as i64, 6]);
        rows.set_requires_grad(true)
    };
    for (name, weights, negatives) in [
        ("plain", Vec::new(), 0),
        ("weighted_negatives", vec![0.5, 2.0, 0.25], 4),
    ] {
        let (questions, answers) = (sines(3, 1.0), sines(3 + negatives, 2.0));
        let unit = |rows: &Tensor| rows / rows.norm_scalaropt_dim(2, [-1], true);
        let loss = LossConfig {
            similarity: Similarity::Cosine,
            temperature: 0.05,
            weight: 1.0,
            matryoshka: Some(MatryoshkaConfig {
                dims: vec![6, 2, 3],
                weights,
                dims_per_step: None,
            }),
            ..config()
        };
        let vectors = EmbeddedBatch {
            questions: unit(&questions),
            answers: unit(&answers),
            cross: None,
        };
        let objective = Objective::new(&loss, &Compute::default()).unwrap();
        let owners = (0..negatives).map(|at| at % 3).collect();
        let found = objective.loss(&vectors, &batch(owners, 3, None), 0.0).unwrap();
        let expected = &all["matryoshka"][name];
        assert!(
            (found.whole.double_value(&[]) - expected["value"].as_f64().unwrap()).abs() < 1e-7,
            "{name}"
        );
        assert!(
            (found.parts[0].1.double_value(&[]) - found.whole.double_value(&[])).abs() < 1e-12,
            "{name}"
        );
        found.whole.backward();
        for (input, tensor) in [("questions", &questions), ("answers", &answers)] {
            let ours = Vec::<f64>::try_from(tensor.grad().flatten(0, -1)).unwrap();
            for (ours, theirs) in ours.iter().zip(numbers(&expected["gradients"][input])) {
                assert!((ours - theirs).abs() < 1e-7, "{name}, {input}: {ours} {theirs}");
            }
        }
    }
}

#[test]
fn every_part_of_a_loss_has_every_size() {
    let none = f32::NAN;
    let teacher = [[10.0, none, 2.0], [none, 8.0, none]].concat();
    let vectors = EmbeddedBatch {
        questions: random(2),
        answers: random(3) * 0.7,
        cross: None,
    };
    let loss = |config: &LossConfig, vectors: &EmbeddedBatch| {
        let objective = Objective::new(config, &Compute::default()).unwrap();
        objective
            .loss(vectors, &batch(vec![0], 2, Some(teacher.clone())), 0.0)
            .unwrap()
    };
    let distilled = LossConfig {
        symmetric: true,
        distillation: Some(DistillationConfig {
            kind: DistillationKind::Kl,
            weight: 2.0,
            temperature: 1.0,
            scale: 0.5,
        }),
        ..config()
    };
    let several = LossConfig {
        matryoshka: Some(MatryoshkaConfig {
            dims: vec![4, 2],
            weights: vec![1.0, 3.0],
            dims_per_step: None,
        }),
        ..distilled.clone()
    };
    let cut = EmbeddedBatch {
        questions: vectors.questions.narrow(1, 0, 2),
        answers: vectors.answers.narrow(1, 0, 2),
        cross: None,
    };
    let [whole, half, found] = [
        loss(&distilled, &vectors),
        loss(&distilled, &cut),
        loss(&several, &vectors),
    ];
    let value = |tensor: &Tensor| tensor.double_value(&[]);
    assert!((value(&found.whole) - value(&whole.whole) - 3.0 * value(&half.whole)).abs() < 1e-5);
    for ((name, part), (whole, half)) in found.parts.iter().zip(whole.parts.iter().zip(&half.parts)) {
        assert!(
            (value(part) - value(&whole.1) - 3.0 * value(&half.1)).abs() < 1e-5,
            "{name}"
        );
    }
}
