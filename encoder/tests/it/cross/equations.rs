//! Scores of the branch against its equations, one pair at a time.

use dyad_encoder::Tower;
use dyad_encoder::cross::{Aggregator, Cross, CrossSettings};
use dyad_encoder::tokenize::Tokens;
use tch::{Kind, Tensor};

use super::{ANSWERS, H, HEADS, MULTI_HOP, QUESTIONS, compute, model_dir, settings, states};
use crate::reference::{apart, flat};

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
