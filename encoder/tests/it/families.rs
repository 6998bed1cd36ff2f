//! Every family and layout against vectors of Python: small random checkpoints that `transformers` and
//! `sentence-transformers` wrote, in `DYAD_ST_CHECKPOINTS` (`.venv/bin/python benches/peers/st_checkpoints.py --out
//! DIR`).

use std::path::{Path, PathBuf};

use dyad_encoder::tokenize::Tokens;
use dyad_encoder::{Compute, Dtype, Model, Tower};
use serde_json::{Value, json};

use crate::fixture::{copy_folder, cosine, edit, embed, open, path_of, read_json, refusal, rows, tokens, worst};

const ONE_TOWER: [&str; 8] = [
    "bert",
    "distilbert",
    "roberta",
    "mpnet",
    "t5-relu",
    "t5-gated",
    "st5",
    "gtr",
];
/// Encoders with rotary positions.
const ROTARY: [&str; 8] = [
    "modernbert",
    "gte",
    "gte-own-code",
    "nomic-bert",
    "nomic-own-code",
    "qwen3",
    "gemma3",
    "gemma3-causal",
];
/// The same in the form in which they are published, with prompts of both towers.
const PUBLISHED: [&str; 2] = ["qwen3-embedding", "embeddinggemma"];
const TWO_TOWERS: [&str; 6] = [
    "dpr",
    "dpr-projected",
    "router-shared-dense",
    "router-shared-all",
    "router-dense-behind",
    "router-newer",
];

fn checkpoints(test: &str) -> Option<PathBuf> {
    path_of("DYAD_ST_CHECKPOINTS", test)
}

/// Texts, tower and vectors of one file of reference vectors.
fn reference(path: &Path) -> (Tower, Vec<String>, Vec<Vec<f32>>) {
    let value = read_json(path);
    let tower = value["tower"].as_str().unwrap().parse().unwrap();
    let read = |field: &str| value[field].clone();
    (
        tower,
        serde_json::from_value(read("texts")).unwrap(),
        serde_json::from_value(read("vectors")).unwrap(),
    )
}

/// All files of reference vectors below a model's folder.
fn references(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        if entry.is_dir() {
            found.extend(references(&entry));
        } else if name.starts_with("reference") {
            found.push(entry);
        }
    }
    found.sort();
    found
}

#[test]
fn vectors_are_those_of_python() {
    let Some(all) = checkpoints("vectors_are_those_of_python") else {
        return;
    };
    let names = ONE_TOWER.iter().chain(&TWO_TOWERS).chain(&ROTARY).chain(&PUBLISHED);
    for name in names {
        let encoder = open(&all.join(name));
        let references = references(&all.join(name));
        let one = ONE_TOWER[..7].contains(name) || ROTARY.contains(name);
        assert_eq!(references.len(), if one { 1 } else { 2 }, "{name}");
        for path in references {
            let (tower, texts, theirs) = reference(&path);
            let worst = worst(&embed(&encoder, tower, &texts), &theirs);
            assert!(worst >= 0.999_99, "{name}, {tower}: {worst}");
            assert!(
                cosine(&theirs[0], &theirs[1]) < 0.9999,
                "{name}: vectors that agree with anything"
            );
        }
    }
}

#[test]
fn towers_differ_where_their_modules_do() {
    let Some(all) = checkpoints("towers_differ_where_their_modules_do") else {
        return;
    };
    let texts = ["the king of the city".to_owned()];
    for (name, differ) in [
        ("router-shared-dense", true),
        ("dpr", true),
        ("router-newer", true),
        ("t5-relu", false),
    ] {
        let encoder = open(&all.join(name));
        let [question, answer] =
            [Tower::Question, Tower::Answer].map(|tower| embed(&encoder, tower, &texts)[0].clone());
        assert_eq!(cosine(&question, &answer) < 0.999, differ, "{name}");
    }
    let encoder = open(&all.join("router-newer"));
    assert_eq!(
        (encoder.info().max_question_tokens, encoder.info().max_tokens),
        (16, 40)
    );
    let long = ["the river ".repeat(60)];
    for (tower, length) in [(Tower::Question, 16), (Tower::Answer, 40)] {
        assert_eq!(tokens(&encoder, tower, &long)[0].ids.len(), length, "{tower}");
    }
}

#[test]
fn a_vector_does_not_depend_on_its_batch() {
    let Some(all) = checkpoints("a_vector_does_not_depend_on_its_batch") else {
        return;
    };
    for name in ONE_TOWER.into_iter().chain(ROTARY) {
        let encoder = open(&all.join(name));
        let (tower, texts, _) = reference(&references(&all.join(name))[0]);
        let tokens = tokens(&encoder, tower, &texts);
        let many: Vec<&Tokens> = tokens.iter().cycle().take(40).collect();
        let together = rows(&encoder.embed(tower, &many).unwrap(), encoder.info().dim);
        let alone: Vec<Vec<f32>> = many
            .iter()
            .map(|text| encoder.embed(tower, &[*text]).unwrap())
            .collect();
        assert!(worst(&together, &alone) > 0.999_999, "{name}");
    }
}

/// The forward pass that learns is torch's own, where inference has kernels of ours.
#[test]
fn encoders_with_rotary_positions_learn_from_the_same_vectors() {
    let Some(all) = checkpoints("encoders_with_rotary_positions_learn_from_the_same_vectors") else {
        return;
    };
    for name in ROTARY {
        let (tower, texts, theirs) = reference(&references(&all.join(name))[0]);
        let learning = Model::open_for_training(&all.join(name), &Compute::default()).unwrap();
        let worst_learning = worst(&embed(&learning, tower, &texts), &theirs);
        assert!(worst_learning >= 0.999_99, "{name}: {worst_learning}");
        let rounded = Compute {
            dtype: Dtype::Bf16,
            ..Compute::default()
        };
        let rounded = Model::open(&all.join(name), &rounded).unwrap();
        let worst_rounded = worst(&embed(&rounded, tower, &texts), &theirs);
        assert!(worst_rounded > 0.99, "{name} in bf16: {worst_rounded}");
    }
}

#[test]
fn t5_runs_in_bf16_and_refuses_f16() {
    let Some(all) = checkpoints("t5_runs_in_bf16_and_refuses_f16") else {
        return;
    };
    let (tower, texts, theirs) = reference(&all.join("gtr/reference.json"));
    let compute = |dtype| Compute {
        dtype,
        threads: Some(1),
        ..Compute::default()
    };
    let encoder = Model::open(&all.join("gtr"), &compute(Dtype::Bf16)).unwrap();
    let worst = worst(&embed(&encoder, tower, &texts), &theirs);
    assert!(worst > 0.98, "{worst}");
    let message = Model::open(&all.join("gtr"), &compute(Dtype::F16))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("T5") && message.contains("`bf16`") && message.ends_with(": f16"),
        "{message}"
    );
}

/// A copy of a checkpoint that a test may change.
fn copied(name: &str) -> Option<tempfile::TempDir> {
    let copy = tempfile::tempdir().unwrap();
    copy_folder(&checkpoints(name)?.join(name), copy.path());
    Some(copy)
}

#[test]
fn what_a_model_lacks_or_has_too_much_is_named() {
    let says = |folder: &Path, parts: &[&str]| {
        let message = refusal(folder);
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    let Some(sharded) = copied("gtr") else { return };
    let index = sharded.path().join("model.safetensors.index.json");
    let map = read_json(&index)["weight_map"].clone();
    let first = map["shared.weight"].as_str().unwrap().to_owned();
    edit(&index, |value| {
        value["weight_map"]["shared.weight"] = json!("../elsewhere.safetensors");
    });
    says(sharded.path(), &["weight_map", "of the same folder"]);
    edit(&index, |value| value["weight_map"] = map.clone());
    fs_err::remove_file(sharded.path().join(&first)).unwrap();
    says(sharded.path(), &[&first]);

    let Some(router) = copied("router-shared-dense") else {
        return;
    };
    let path = router.path().join("router_config.json");
    let whole = read_json(&path);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut value = whole.clone();
        change(&mut value);
        fs_err::write(&path, value.to_string()).unwrap();
        refusal(router.path())
    };
    let message = with(&|value| value["structure"] = json!({"query": value["structure"]["query"]}));
    assert!(
        message.contains("`structure`") && message.contains("`document`"),
        "{message}"
    );
    let message = with(&|value| value["types"]["shared_2_Dense"] = json!("sentence_transformers.models.LayerNorm"));
    assert!(message.contains("LayerNorm") && message.contains("module"), "{message}");
    let message = with(&|value| value["structure"]["query"] = json!(["query_0_Transformer", "nowhere"]));
    assert!(message.contains("`types`"), "{message}");

    let Some(gated) = copied("t5-gated") else { return };
    edit(&gated.path().join("config.json"), |value| {
        value["feed_forward_proj"] = json!("gated-silu");
    });
    says(gated.path(), &["gated-silu", "`gated-gelu`"]);
}
