//! What models are made from: pairs of towers with their projections, and sources that are refused.

use std::path::{Path, PathBuf};
use std::process::Command;

use dyad_encoder::Tower;
use dyad_encoder::config::RecurrentCell;
use dyad_encoder::model::{create, create_over, create_with, own_projection};
use dyad_encoder::transform::{Aggregation, Creation, NewEncoder};
use safetensors::tensor::Dtype;
use serde_json::json;

use crate::broken::{Tensors, rewrite};
use crate::fixture::{copy, cosine, edit, embed, open, path_of, read_json, refusal, tiny, worst};

/// Values of a token vector of the tiny model, and of the projection that follows it.
const H: usize = 12;
const OWN: usize = 10;
const TABLE: &str = "embeddings.word_embeddings.weight";
const PAIR: [&str; 2] = ["question_encoder", "ctx_encoder"];

fn creation(sharing: &str, dim: usize) -> Creation {
    Creation {
        sharing: sharing.parse().unwrap(),
        dim,
        seed: 1,
    }
}

fn texts() -> Vec<String> {
    [
        "the river",
        "who was the king of the city",
        "a light",
        "water and light in the city",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Which tower (0 or 1) the answer tower of a pair has its parts from.
#[derive(Clone, Copy)]
struct Parts {
    table: usize,
    others: usize,
    projection: usize,
}

const SEPARATE: Parts = Parts {
    table: 1,
    others: 1,
    projection: 1,
};

fn numbers(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}

/// The tiny model as DPR names its tensors, a little different for each tower.
fn dress(tensors: &mut Tensors, prefix: &str, parts: Parts) {
    let shifted = |bytes: &[u8], tower: usize| {
        let values = bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value));
        numbers(
            values
                .enumerate()
                .map(|(at, value)| value + tower as f32 * 0.3 * ((at % 7) as f32 - 3.0) / 3.0),
        )
    };
    let old = std::mem::take(tensors);
    tensors.extend(old.into_iter().map(|(name, (dtype, shape, bytes))| {
        let bytes = shifted(&bytes, if name == TABLE { parts.table } else { parts.others });
        (format!("{prefix}.bert_model.{name}"), (dtype, shape, bytes))
    }));
    let wave = |count: usize| numbers((0..count).map(move |at| ((at * (7 + 4 * parts.projection)) as f32).sin()));
    for (name, shape, values) in [("weight", vec![OWN, H], OWN * H), ("bias", vec![OWN], OWN)] {
        tensors.insert(
            format!("{prefix}.encode_proj.{name}"),
            (Dtype::F32, shape, wave(values)),
        );
    }
}

/// A pair of DPR, whose answer tower is made of these parts.
fn pair(answer: Parts) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, parts) in PAIR.into_iter().zip([
        Parts {
            table: 0,
            others: 0,
            projection: 0,
        },
        answer,
    ]) {
        let to = folder.path().join(name);
        fs_err::create_dir(&to).unwrap();
        for file in [
            "config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "model.safetensors",
        ] {
            fs_err::copy(tiny("classic-mean").join(file), to.join(file)).unwrap();
        }
        edit(&to.join("config.json"), |config| {
            config["model_type"] = json!("dpr");
            config["projection_dim"] = json!(OWN);
        });
        rewrite(&to.join("model.safetensors"), |tensors| dress(tensors, name, parts));
    }
    folder
}

/// The smallest cosine between vectors of two models, per tower.
fn near(a: &Path, b: &Path) -> [f64; 2] {
    let (a, b) = (open(a), open(b));
    [Tower::Question, Tower::Answer].map(|tower| worst(&embed(&a, tower, &texts()), &embed(&b, tower, &texts())))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs_err::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

/// Each sharing is the pair whose answer tower has what is shared from the question tower.
#[test]
fn a_pair_keeps_its_towers_and_projections_and_shares_what_is_asked() {
    let source = pair(SEPARATE);
    assert_eq!(own_projection(source.path()).unwrap(), Some(OWN));
    let of_source = open(source.path());
    let [question, answer] = [Tower::Question, Tower::Answer].map(|tower| embed(&of_source, tower, &texts()));
    assert!(cosine(&question[1], &answer[1]) < 0.99, "towers that differ");
    for (sharing, parts, dense) in [
        ("ade", SEPARATE, 2),
        ("ade-fte", SEPARATE, 2),
        ("ade-ste", Parts { table: 0, ..SEPARATE }, 2),
        (
            "ade-spl",
            Parts {
                projection: 0,
                ..SEPARATE
            },
            1,
        ),
        (
            "token=separate,transformer=shared,projection=separate",
            Parts { others: 0, ..SEPARATE },
            2,
        ),
        (
            "token=shared,transformer=shared,projection=separate",
            Parts {
                table: 0,
                others: 0,
                projection: 1,
            },
            2,
        ),
        (
            "sde",
            Parts {
                table: 0,
                others: 0,
                projection: 0,
            },
            1,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("model");
        create(source.path(), &to, &creation(sharing, OWN)).unwrap();
        let expected = pair(parts);
        assert!(
            near(&to, expected.path()).iter().all(|cosine| *cosine > 0.999_999),
            "{sharing}"
        );
        if sharing != "ade" && sharing != "ade-fte" {
            assert!(near(&to, source.path())[1] < 0.999, "{sharing}: shared without effect");
        }
        let opened = open(&to);
        let modules = opened
            .contents()
            .modules
            .iter()
            .filter(|module| module.class == "Dense");
        let sizes: Vec<u64> = modules.map(|module| module.parameters).collect();
        assert_eq!(sizes, vec![(OWN * H + OWN) as u64; dense], "{sharing}");
        // sentence-transformers runs BERT and not DPR.
        let transformer = if sharing == "sde" {
            to.clone()
        } else {
            opened_transformer(&to)
        };
        assert_eq!(
            read_json(&transformer.join("config.json"))["model_type"],
            "bert",
            "{sharing}"
        );
    }
}

/// The folder of the answer tower's transformer.
fn opened_transformer(model_dir: &Path) -> PathBuf {
    let router = read_json(&model_dir.join("router_config.json"));
    model_dir.join(router["structure"]["document"][0].as_str().unwrap())
}

#[test]
fn another_dimension_or_pooling_draws_a_projection() {
    let source = pair(SEPARATE);
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("random");
    create(source.path(), &to, &creation("ade", 6)).unwrap();
    let settings = read_json(&to.join("document_2_Dense/config.json"));
    assert_eq!(
        (&settings["out_features"], &settings["bias"]),
        (&json!(6), &json!(false))
    );
    let to = folder.path().join("mean");
    create_with(source.path(), &to, &creation("ade", OWN), Aggregation::Mean).unwrap();
    assert_eq!(read_json(&to.join("query_2_Dense/config.json"))["bias"], json!(false));
    assert_eq!(own_projection(&tiny("plain")).unwrap(), None);
}

#[test]
fn two_towers_stay_two_in_a_model_made_from_a_model() {
    let source = pair(SEPARATE);
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    create(source.path(), &first, &creation("ade", OWN)).unwrap();
    create(&first, &second, &creation("ade-spl", 6)).unwrap();
    let weights = |model_dir: &Path, id: &str| fs_err::read(model_dir.join(id).join("model.safetensors")).unwrap();
    let [query, document] = ["query_0_Transformer", "document_0_Transformer"];
    for id in [query, document] {
        assert_eq!(weights(&first, id), weights(&second, id), "{id}");
    }
    assert_ne!(weights(&second, query), weights(&second, document));
}

#[test]
fn the_command_keeps_the_projection_unless_told_otherwise() {
    let source = pair(SEPARATE);
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, more: &[&str]| {
        let to = folder.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
        command
            .args(["create", "--sharing", "ade", "--model"])
            .arg(source.path())
            .arg("--out")
            .arg(&to)
            .args(more);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        to
    };
    let kept = run("kept", &[]);
    assert!(near(&kept, source.path()).iter().all(|cosine| *cosine > 0.999_999));
    assert_eq!(open(&run("other", &["--dim", "7"])).info().dim, 7);
    assert_eq!(open(&run("pooled", &["--pooling", "mean"])).info().dim, 768);
    assert_eq!(
        open(&run("random", &["--encoder", "gru", "--hidden", "5"])).info().dim,
        768
    );
}

#[test]
fn towers_of_different_sizes_share_no_tensor() {
    let source = pair(SEPARATE);
    edit(&source.path().join("ctx_encoder/config.json"), |config| {
        config["layer_norm_eps"] = json!(1e-6);
    });
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model");
    let message = create(source.path(), &to, &creation("ade-ste", OWN))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("question_encoder/config.json") && message.contains("same sizes"),
        "{message}"
    );
    assert_eq!(entries(folder.path()).len(), 0);
    create(source.path(), &to, &creation("ade", OWN)).unwrap();
}

/// Vectors of Python for a pair with projection, through a model of ours.
#[test]
fn a_model_of_a_pair_gives_the_vectors_of_python() {
    let Some(all) = path_of("DYAD_ST_CHECKPOINTS", "a_model_of_a_pair_gives_the_vectors_of_python") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model");
    create(&all.join("dpr-projected"), &to, &creation("ade", OWN)).unwrap();
    let opened = open(&to);
    for name in ["question", "answer"] {
        let reference = read_json(&all.join("dpr-projected").join(name).join("reference.json"));
        let texts: Vec<String> = serde_json::from_value(reference["texts"].clone()).unwrap();
        let theirs: Vec<Vec<f32>> = serde_json::from_value(reference["vectors"].clone()).unwrap();
        let worst = worst(&embed(&opened, name.parse().unwrap(), &texts), &theirs);
        assert!(worst >= 0.999_99, "{name}: {worst}");
    }
}

/// An invalid source creates nothing, and nothing is left.
fn refused(source: &Path) -> String {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model");
    let message = create(source, &to, &creation("ade", 6)).unwrap_err().to_string();
    let rnn = NewEncoder::Recurrent {
        cell: RecurrentCell::Rnn,
        layers: 1,
        hidden: 5,
        bidirectional: false,
    };
    let over = create_over(source, &to, &creation("ade", 6), rnn, Aggregation::Kept)
        .unwrap_err()
        .to_string();
    assert_eq!(over, message);
    assert_eq!(entries(folder.path()).len(), 0, "{message}");
    message
}

#[test]
fn a_source_that_is_not_sound_is_refused_before_anything_is_written() {
    // In a row that no golden text reads.
    let model = copy("classic-mean");
    let weights = model.path().join("model.safetensors");
    rewrite(&weights, |tensors| {
        let table = &mut tensors.get_mut(TABLE).unwrap().2;
        let end = table.len();
        table[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    });
    open(model.path());
    let message = refused(model.path());
    assert!(
        message.contains(&format!("tensor `{TABLE}`")) && message.contains("not finite"),
        "{message}"
    );
    let dense = copy("newer-dense");
    rewrite(&dense.path().join("3_Dense/model.safetensors"), |tensors| {
        tensors.get_mut("linear.weight").unwrap().2[..4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    });
    let message = refused(dense.path());
    assert!(
        message.contains("3_Dense/model.safetensors") && message.contains("`linear.weight`"),
        "{message}"
    );
    // What no encoder reads may be anything.
    let pooler = copy("classic-mean");
    rewrite(&pooler.path().join("model.safetensors"), |tensors| {
        tensors.get_mut("pooler.dense.bias").unwrap().2[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    });
    let folder = tempfile::tempdir().unwrap();
    let model_dir = folder.path().join("model");
    create(pooler.path(), &model_dir, &creation("ade", 6)).unwrap();
    // A model that is not what it was.
    let path = model_dir.join("dyad.json");
    let whole = read_json(&path);
    for change in [
        |value: &mut serde_json::Value| value["golden"][3]["vector"][0] = json!(-3.0),
        |value: &mut serde_json::Value| value["fingerprint"] = json!("0".repeat(64)),
        |value: &mut serde_json::Value| value["sharing"]["token"] = json!("shared"),
    ] {
        edit(&path, change);
        assert_eq!(refused(&model_dir), refusal(&model_dir));
        edit(&path, |value| *value = whole.clone());
    }
    let short = copy("plain");
    let bytes = fs_err::read(short.path().join("model.safetensors")).unwrap();
    fs_err::write(short.path().join("model.safetensors"), &bytes[..bytes.len() - 1]).unwrap();
    assert!(refused(short.path()).contains("not a complete safetensors file"));
}
