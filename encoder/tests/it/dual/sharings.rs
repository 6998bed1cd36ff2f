//! Each sharing: which tensors are one, which learn, which stay equal.

use std::collections::HashMap;

use dyad_encoder::Tower;
use dyad_encoder::config::Sharing;
use dyad_encoder::model::{Model, create};
use dyad_encoder::tokenize::Tokens;
use dyad_encoder::transform::Creation;
use tch::Tensor;

use super::{DIM, FREE, TABLE, VARIANTS, learned, made, sizes};
use crate::fixture::{embed, open, tiny, worst};

/// By their modules, or by their prompts.
#[test]
fn models_say_whether_questions_are_embedded_otherwise() {
    for sharing in VARIANTS.iter().copied().chain([FREE]) {
        let (_folder, model_dir) = made(sharing);
        assert_eq!(open(&model_dir).info().has_two_towers, sharing != "sde", "{sharing}");
    }
    for (name, expected) in [
        ("classic-mean", false),
        ("classic-prompt-left-out", true),
        ("newer-dense", true),
    ] {
        assert_eq!(open(&tiny(name)).info().has_two_towers, expected, "{name}");
    }
}

#[test]
fn each_sharing_has_its_number_of_parameters() {
    let [table, others, projection] = sizes();
    for (sharing, tables, transformers, projections) in [
        ("sde", 1, 1, 1),
        ("ade", 2, 2, 2),
        ("ade-ste", 1, 2, 2),
        ("ade-fte", 2, 2, 2),
        ("ade-spl", 2, 2, 1),
        (FREE, 1, 1, 2),
    ] {
        let (_folder, model_dir) = made(sharing);
        let expected = tables * table + transformers * others + projections * projection;
        let learned = learned(&model_dir);
        let values: usize = learned
            .parameters()
            .iter()
            .map(|parameter| parameter.tensor.numel())
            .sum();
        assert_eq!(values, expected, "{sharing}");
        let encoder = open(&model_dir);
        assert_eq!(encoder.contents().parameters, expected as u64, "{sharing}");
        assert_eq!(
            (encoder.contents().sharing, learned.sharing()),
            (sharing.parse().ok(), sharing.parse().ok())
        );
        let frozen: Vec<&str> = learned
            .parameters()
            .iter()
            .filter(|p| p.frozen)
            .map(|p| p.name.split_once('/').unwrap().1)
            .collect();
        assert_eq!(
            frozen,
            if sharing == "ade-fte" { vec![TABLE; 2] } else { vec![] },
            "{sharing}"
        );
        assert!(
            learned
                .parameters()
                .iter()
                .all(|parameter| parameter.tensor.requires_grad() != parameter.frozen)
        );
        let places: std::collections::HashSet<_> = learned.parameters().iter().map(|p| p.tensor.data_ptr()).collect();
        assert_eq!(
            places.len(),
            learned.parameters().len(),
            "{sharing}: a tensor is named twice"
        );
    }
}

/// Ten steps down a loss in which both towers take part.
fn ten_steps(learned: &Model) {
    let tokenizer = learned.tokenizer();
    let tokens = |tower, texts: [&str; 3]| texts.map(|text| tokenizer.encode(tower, text).unwrap());
    let questions = tokens(
        Tower::Question,
        ["who was the king", "the river", "a light in the city"],
    );
    let answers = tokens(
        Tower::Answer,
        ["the queen of light", "water", "the king was in the city of the river"],
    );
    for _ in 0..10 {
        let vectors = |tower, texts: &[Tokens; 3]| learned.vectors(tower, &texts.each_ref()).unwrap();
        let scores = vectors(Tower::Question, &questions).matmul(&vectors(Tower::Answer, &answers).transpose(0, 1));
        let labels = Tensor::from_slice(&[0i64, 1, 2]);
        (scores * 5.0).cross_entropy_for_logits(&labels).backward();
        for parameter in learned
            .parameters()
            .iter()
            .filter(|parameter| parameter.tensor.requires_grad())
        {
            let mut tensor = parameter.tensor.shallow_clone();
            let mut gradient = tensor.grad();
            assert!(gradient.defined(), "{} learns nothing", parameter.name);
            tch::no_grad(|| {
                let _ = tensor.f_sub_(&(&gradient * 0.5)).unwrap();
            });
            let _ = gradient.zero_();
        }
        assert!(
            learned
                .parameters()
                .iter()
                .filter(|p| p.frozen)
                .all(|p| !p.tensor.grad().defined())
        );
    }
}

#[test]
fn ten_steps_move_what_learns_and_part_what_is_separate() {
    for (sharing, table_parts, transformer_parts, projection_parts) in [
        ("sde", false, false, false),
        ("ade", true, true, true),
        ("ade-ste", false, true, true),
        ("ade-fte", false, true, true),
        ("ade-spl", true, true, false),
    ] {
        let (_folder, model_dir) = made(sharing);
        let learned = learned(&model_dir);
        let before: HashMap<&str, Tensor> = learned
            .parameters()
            .iter()
            .map(|p| (p.name.as_str(), p.tensor.detach().copy()))
            .collect();
        ten_steps(&learned);
        let after: HashMap<&str, &Tensor> = learned
            .parameters()
            .iter()
            .map(|p| (p.name.as_str(), &p.tensor))
            .collect();
        for parameter in learned.parameters() {
            let moved = parameter.tensor.detach() != before[parameter.name.as_str()];
            // Keys' biases cancel in the softmax, and some rows of tables are in no text: others must move.
            if parameter.frozen || parameter.name.ends_with("query.weight") {
                assert_eq!(moved, !parameter.frozen, "{sharing}: {}", parameter.name);
            }
        }
        // A tensor of the question tower and that of the answer tower; one tensor has no other name.
        let parted = |suffix: &str| {
            let pairs = after
                .iter()
                .filter(|(name, _)| name.starts_with("query") && name.ends_with(suffix));
            let mut twins = pairs.filter_map(|(name, tensor)| {
                Some((tensor, after.get(name.replacen("query", "document", 1).as_str())?))
            });
            twins.any(|(question, answer)| question.detach() != answer.detach())
        };
        assert_eq!(parted(TABLE), table_parts, "{sharing}");
        assert_eq!(parted("query.weight"), transformer_parts, "{sharing}");
        assert_eq!(parted("Dense/linear.weight"), projection_parts, "{sharing}");
    }
}

#[test]
fn learning_and_serving_give_the_same_vectors() {
    let texts: Vec<String> = ["the river", "who was the king of the city", "a"]
        .map(str::to_owned)
        .to_vec();
    for sharing in VARIANTS.into_iter().chain([FREE]) {
        let (_folder, model_dir) = made(sharing);
        let (encoder, learned) = (open(&model_dir), learned(&model_dir));
        for tower in [Tower::Question, Tower::Answer] {
            let tokens: Vec<Tokens> = texts
                .iter()
                .map(|text| encoder.tokenizer().encode(tower, text).unwrap())
                .collect();
            let vectors = learned
                .vectors(tower, &tokens.iter().collect::<Vec<_>>())
                .unwrap()
                .detach();
            let rows = Vec::<Vec<f32>>::try_from(vectors).unwrap();
            assert!(
                worst(&rows, &embed(&encoder, tower, &texts)) > 0.999_999,
                "{sharing}, {tower}"
            );
        }
        // Both towers start from the same encoder: only their projections may differ.
        let [question, answer] = [Tower::Question, Tower::Answer].map(|tower| embed(&encoder, tower, &texts));
        let sharing: Sharing = sharing.parse().unwrap();
        let one = sharing.projection == dyad_encoder::config::Tie::Shared;
        assert_eq!(worst(&question, &answer) > 0.999_999, one, "{sharing}");
    }
}

#[test]
fn a_model_is_the_same_each_time_and_another_with_another_seed() {
    let fingerprint = |seed| {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("model");
        create(
            &tiny("classic-mean"),
            &to,
            &Creation {
                sharing: Sharing::ADE_SPL,
                dim: DIM,
                seed,
            },
        )
        .unwrap();
        open(&to).info().fingerprint.clone()
    };
    assert_eq!(fingerprint(1), fingerprint(1));
    assert_ne!(fingerprint(1), fingerprint(2));
    let (_folder, model_dir) = made("sde");
    let again = create(
        &tiny("classic-mean"),
        &model_dir,
        &Creation {
            sharing: Sharing::SDE,
            dim: 3,
            seed: 0,
        },
    );
    assert!(again.unwrap_err().to_string().contains("already exists"));
}
