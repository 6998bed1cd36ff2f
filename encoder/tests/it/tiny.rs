//! Tiny checkpoints against the vectors that sentence-transformers 6.2.0 gives for them.
//!
//! Made by `.venv/bin/python benches/peers/st_tiny.py --out encoder/tests/golden/tiny`.

use dyad_encoder::tokenize::{Budget, Tokens};
use dyad_encoder::{Compute, Dtype, Model, Tower};
use serde_json::{Value, json};

use crate::fixture::{copy, cosine, edit, embed, open, read_json, rows, tiny, tokens, worst};

const MODELS: [&str; 5] = [
    "classic-mean",
    "classic-prompt-left-out",
    "newer-dense",
    "plain",
    "roberta-cls",
];

fn texts(name: &str) -> Vec<String> {
    serde_json::from_value(read_json(&tiny(name).join("vectors.json"))["texts"].clone()).unwrap()
}

fn reference(name: &str, tower: Tower) -> Vec<Vec<f32>> {
    serde_json::from_value(read_json(&tiny(name).join("vectors.json"))[tower.name()].clone()).unwrap()
}

#[test]
fn vectors_are_those_of_sentence_transformers() {
    for name in MODELS {
        let encoder = open(&tiny(name));
        for tower in [Tower::Question, Tower::Answer] {
            let (ours, theirs) = (embed(&encoder, tower, &texts(name)), reference(name, tower));
            let worst = worst(&ours, &theirs);
            assert!(worst > 0.999_999, "{name}, {tower}: {worst}");
            // Different texts are told apart, so that the comparison means something.
            assert!(cosine(&theirs[0], &theirs[1]) < 0.999, "{name}");
        }
    }
}

#[test]
fn vectors_have_unit_length_whether_the_model_normalizes_or_not() {
    for (name, normalizes) in [("classic-mean", true), ("newer-dense", true), ("plain", false)] {
        let encoder = open(&tiny(name));
        assert_eq!(encoder.info().normalizes, normalizes, "{name}");
        for row in embed(&encoder, Tower::Answer, &texts(name)) {
            let length: f64 = row.iter().map(|value| f64::from(*value).powi(2)).sum();
            assert!((length - 1.0).abs() < 1e-6, "{name}: {length}");
        }
    }
}

#[test]
fn sizes_and_lengths_are_read_from_either_form() {
    for (name, dim, max_tokens) in [
        ("classic-mean", 12, 24),
        ("classic-prompt-left-out", 36, 24),
        ("newer-dense", 12, 24),
        ("plain", 12, 28),
    ] {
        let encoder = open(&tiny(name));
        assert_eq!(
            (encoder.info().dim, encoder.info().max_tokens),
            (dim, max_tokens),
            "{name}"
        );
        let long = tokens(&encoder, Tower::Answer, &["the river ".repeat(100), "the river".into()]);
        assert_eq!((long[0].ids.len(), long[0].truncated), (max_tokens, true), "{name}");
        assert!(!long[1].truncated, "{name}");
    }
    // RoBERTa's positions begin after the padding id: 28 rows leave 27 tokens.
    let folder = copy("roberta-cls");
    fs_err::remove_file(folder.path().join("sentence_bert_config.json")).unwrap();
    assert_eq!(open(folder.path()).info().max_tokens, 27);
}

#[test]
fn a_vector_does_not_depend_on_its_batch() {
    for name in MODELS {
        let encoder = open(&tiny(name));
        let tokens = tokens(&encoder, Tower::Answer, &texts(name));
        let dim = encoder.info().dim;
        let all: Vec<&Tokens> = tokens.iter().collect();
        let together = rows(&encoder.embed(Tower::Answer, &all).unwrap(), dim);
        let alone: Vec<Vec<f32>> = all
            .iter()
            .map(|text| encoder.embed(Tower::Answer, &[*text]).unwrap())
            .collect();
        assert!(worst(&together, &alone) > 0.999_999, "{name}");
        for budget in [
            Budget { tokens: 1, rows: 1 },
            Budget { tokens: 50, rows: 3 },
            Budget::GPU,
        ] {
            let cut = rows(&encoder.embed_all(Tower::Answer, &tokens, budget).unwrap(), dim);
            assert!(worst(&cut, &alone) > 0.999_999, "{name}, {budget:?}");
        }
    }
}

#[test]
fn half_precision_stays_close() {
    for (dtype, floor) in [(Dtype::Bf16, 0.99), (Dtype::F16, 0.999)] {
        let compute = Compute {
            dtype,
            threads: Some(1),
            ..Compute::default()
        };
        let encoder = Model::open(&tiny("newer-dense"), &compute).unwrap();
        let ours = embed(&encoder, Tower::Question, &texts("newer-dense"));
        let worst = worst(&ours, &reference("newer-dense", Tower::Question));
        assert!(worst > floor, "{dtype}: {worst}");
    }
}

#[test]
fn a_word_list_alone_makes_the_same_tokens() {
    let folder = copy("plain");
    let path = folder.path().join("tokenizer.json");
    let vocabulary = read_json(&path)["model"]["vocab"].clone();
    let Value::Object(vocabulary) = vocabulary else {
        panic!("no vocabulary")
    };
    let mut words: Vec<_> = vocabulary
        .into_iter()
        .map(|(word, id)| (id.as_u64().unwrap(), word))
        .collect();
    words.sort();
    let lines: Vec<String> = words.into_iter().map(|(_, word)| word).collect();
    fs_err::write(folder.path().join("vocab.txt"), lines.join("\n")).unwrap();
    fs_err::remove_file(path).unwrap();

    let mut texts = texts("plain");
    texts.push("the [MASK] river [SEP]".into());
    let tower = Tower::Answer;
    assert_eq!(
        tokens(&open(folder.path()), tower, &texts),
        tokens(&open(&tiny("plain")), tower, &texts)
    );
}

#[test]
fn prompts_belong_to_their_tower() {
    let folder = copy("classic-mean");
    let path = folder.path().join("config_sentence_transformers.json");
    let ids = |prompts: Value, default: Value, tower| {
        edit(&path, |settings| {
            settings["prompts"] = prompts;
            settings["default_prompt_name"] = default;
        });
        tokens(&open(folder.path()), tower, &["the king".into()])
    };
    let (question, answer) = (Tower::Question, Tower::Answer);
    let plain = ids(json!({}), json!(null), question);
    let queen = ids(json!({"query": "queen "}), json!(null), question);
    assert_eq!(queen[0].ids.len(), plain[0].ids.len() + 1);
    assert_eq!(ids(json!({"query": "queen "}), json!(null), answer), plain);
    // `document` before `passage` before `corpus` before the default.
    assert_eq!(ids(json!({"corpus": "queen "}), json!(null), answer), queen);
    assert_eq!(
        ids(json!({"corpus": "light ", "passage": "queen "}), json!(null), answer),
        queen
    );
    assert_eq!(
        ids(
            json!({"passage": "light ", "document": "queen "}),
            json!("passage"),
            answer
        ),
        queen
    );
    assert_eq!(ids(json!({"mine": "queen "}), json!("mine"), answer), queen);
    assert_eq!(
        ids(json!({"mine": "queen ", "query": ""}), json!("mine"), question),
        plain
    );
}

#[test]
fn case_is_folded_where_the_settings_say_so() {
    let folder = copy("classic-mean");
    let ids = || {
        tokens(
            &open(folder.path()),
            Tower::Answer,
            &["THE RIVER".into(), "the river".into()],
        )
    };
    let folded = ids();
    assert_eq!(folded[0], folded[1]);
    // transformers lets `tokenizer_config.json` win over `tokenizer.json`.
    edit(&folder.path().join("tokenizer_config.json"), |settings| {
        settings["do_lower_case"] = json!(false);
    });
    let kept = ids();
    assert_ne!(kept[0], kept[1]);
    edit(&folder.path().join("sentence_bert_config.json"), |settings| {
        settings["do_lower_case"] = json!(true);
    });
    assert_eq!(ids(), folded);
}

#[test]
fn leading_dimensions_can_be_kept_alone() {
    let folder = copy("classic-mean");
    let whole = embed(&open(folder.path()), Tower::Answer, &texts("classic-mean"));
    edit(&folder.path().join("config_sentence_transformers.json"), |settings| {
        settings["truncate_dim"] = json!(5);
    });
    let cut = open(folder.path());
    assert_eq!(cut.info().dim, 5);
    let expected: Vec<Vec<f32>> = whole.iter().map(|row| row[..5].to_vec()).collect();
    assert!(worst(&embed(&cut, Tower::Answer, &texts("classic-mean")), &expected) > 0.999_999);
}
