//! Randomly initialised models: as transformers initialises them, without pretrained weights, in every form.

use std::path::{Path, PathBuf};
use std::process::Command;

use dyad_encoder::config::RecurrentCell;
use dyad_encoder::model::{Model, create, create_from_scratch};
use dyad_encoder::transform::{Aggregation, Creation, NewEncoder};
use dyad_encoder::{Compute, Tower};
use serde_json::{Value, json};
use tch::{Kind, Tensor};
use tempfile::TempDir;

use crate::fixture::{copy, copy_folder, edit, embed, open, path_of, read_json, tiny};

fn creation(sharing: &str, seed: u64) -> Creation {
    Creation {
        sharing: sharing.parse().unwrap(),
        dim: 6,
        seed,
    }
}

/// A copy without weights.
fn bare(from: &Path) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(from, folder.path());
    for entry in fs_err::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        if entry.extension().is_some_and(|extension| extension == "safetensors") {
            fs_err::remove_file(entry).unwrap();
        }
    }
    folder
}

fn from_scratch(
    from: &Path,
    creation: &Creation,
    encoder: Option<NewEncoder>,
    pooling: Aggregation,
) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model");
    create_from_scratch(from, &to, creation, encoder, pooling).unwrap();
    assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1);
    (folder, to)
}

fn learned(model_dir: &Path) -> Model {
    Model::open_for_training(
        model_dir,
        &Compute {
            threads: Some(1),
            ..Compute::default()
        },
    )
    .unwrap()
}

/// Mean and standard deviation.
fn moments(values: &Tensor) -> (f64, f64) {
    let values = values.detach().to_kind(Kind::Double);
    let mean = values.mean(None::<Kind>).double_value(&[]);
    (
        mean,
        (values - mean).square().mean(None::<Kind>).sqrt().double_value(&[]),
    )
}

/// Every tensor has the mean and the deviation of the one that transformers initialises from the same `config.json`.
#[test]
fn tensors_are_drawn_as_transformers_draws_them() {
    let test = "tensors_are_drawn_as_transformers_draws_them";
    let (Some(python), Some(checkpoints)) = (path_of("DYAD_PYTHON", test), path_of("DYAD_ST_CHECKPOINTS", test)) else {
        return;
    };
    // Sizes that tell one fan-in from another.
    let t5 = json!({"d_model": 48, "d_kv": 20, "d_ff": 200, "num_heads": 3, "initializer_factor": 0.5});
    let bert = json!({"initializer_range": 0.07});
    let families: Vec<&str> = "bert roberta mpnet distilbert t5-relu t5-gated qwen3 gemma3"
        .split(' ')
        .collect();
    let make = |family: &&str| {
        let bare = bare(&checkpoints.join(family));
        edit(&bare.path().join("config.json"), |config| {
            let change = if family.starts_with("t5") { &t5 } else { &bert };
            config
                .as_object_mut()
                .unwrap()
                .extend(change.as_object().unwrap().clone());
        });
        from_scratch(bare.path(), &creation("sde", 7), None, Aggregation::Mean)
    };
    let made: Vec<(TempDir, PathBuf)> = families.iter().map(make).collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/peers/hf_initial.py");
    let model_dirs: Vec<&PathBuf> = made.iter().map(|(_, model_dir)| model_dir).collect();
    let output = Command::new(&python)
        .arg(&script)
        .args(&model_dirs)
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text} {said}");
    let theirs: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(theirs.len(), families.len(), "{text}");
    for ((family, model_dir), theirs) in families.iter().zip(model_dirs).zip(&theirs) {
        let mut compared = 0;
        for parameter in learned(model_dir)
            .parameters()
            .iter()
            .filter(|parameter| !parameter.name.contains("Dense"))
        {
            let name = format!("{family} {}", parameter.name);
            let theirs = &theirs["tensors"][parameter.name.trim_start_matches('/')];
            assert_eq!(json!(parameter.tensor.size()), theirs["shape"], "{name}");
            let ((mean, deviation), count) = (moments(&parameter.tensor), parameter.tensor.numel() as f64);
            let [their_mean, theirs] = ["mean", "deviation"].map(|key| theirs[key].as_f64().unwrap());
            // Five deviations of the difference of two sample means, and of two sample deviations.
            assert!(
                (mean - their_mean).abs() <= 1e-7 + 5.0 * theirs * (2.0 / count).sqrt(),
                "{name}: {mean} {their_mean}"
            );
            assert!(
                (deviation - theirs).abs() <= 1e-7 + 5.0 * theirs / count.sqrt(),
                "{name}: {deviation} {theirs}"
            );
            compared += 1;
        }
        assert!(compared > 15, "{family}: {compared}");
    }
}

#[test]
fn nothing_of_the_weights_is_read() {
    let bare = bare(&tiny("classic-mean"));
    let make = |seed| from_scratch(bare.path(), &creation("sde", seed), None, Aggregation::Kept);
    let ((_one, one), (_same, same), (_other, other)) = (make(1), make(1), make(2));
    let fingerprint = |model_dir: &Path| open(model_dir).info().fingerprint.clone();
    assert_eq!(fingerprint(&one), fingerprint(&same));
    assert_ne!(fingerprint(&one), fingerprint(&other));
    // Weights that stand there change nothing, even such as no network can read.
    let whole = copy("classic-mean");
    let (_beside, beside) = from_scratch(whole.path(), &creation("sde", 1), None, Aggregation::Kept);
    assert_eq!(fingerprint(&beside), fingerprint(&one));
    fs_err::write(whole.path().join("model.safetensors"), b"none").unwrap();
    let (_broken, broken) = from_scratch(whole.path(), &creation("sde", 1), None, Aggregation::Kept);
    assert_eq!(fingerprint(&broken), fingerprint(&one));
    // All of it comes from the seed.
    let tensor = |model_dir: &Path, name: &str| {
        let learned = learned(model_dir);
        learned
            .parameters()
            .iter()
            .find(|parameter| parameter.name == name)
            .unwrap()
            .tensor
            .detach()
            .copy()
    };
    for parameter in learned(&one).parameters() {
        let theirs = tensor(&other, &parameter.name);
        let constant = parameter.tensor.size().len() == 1;
        assert_eq!(parameter.tensor.equal(&theirs), constant, "{}", parameter.name);
    }
}

#[test]
fn the_pooling_is_kept_or_replaced() {
    let texts = ["the river", "who was the king of the city"].map(str::to_owned);
    let pooling = |model_dir: &Path| read_json(&model_dir.join("1_Pooling/config.json"));
    let (_kept, kept) = from_scratch(&tiny("roberta-cls"), &creation("sde", 1), None, Aggregation::Kept);
    assert_eq!(pooling(&kept)["pooling_mode_cls_token"], json!(true));
    let (_mean, mean) = from_scratch(&tiny("roberta-cls"), &creation("sde", 1), None, Aggregation::Mean);
    assert_eq!(pooling(&mean)["pooling_mode_mean_tokens"], json!(true));
    let multihop = Aggregation::MultiHop { inner: 5, hops: 3 };
    let (_hops, hops) = from_scratch(&tiny("roberta-cls"), &creation("ade-spl", 1), None, multihop);
    // From a model of two towers and multi-hop attention: that too is initialised again, for token vectors of another
    // size.
    let gru = NewEncoder::Recurrent {
        cell: RecurrentCell::Gru,
        layers: 1,
        hidden: 5,
        bidirectional: true,
    };
    for encoder in [None, Some(gru), Some(NewEncoder::Transformer { layers: 1 })] {
        for aggregation in [Aggregation::Kept, multihop] {
            let (_again, again) = from_scratch(&hops, &creation("ade", 2), encoder, aggregation);
            let opened = open(&again);
            for tower in [Tower::Question, Tower::Answer] {
                let vectors = embed(&opened, tower, &texts);
                assert!(vectors.iter().flatten().all(|value| value.is_finite()) && vectors[0] != vectors[1]);
            }
            let names: Vec<String> = learned(&again)
                .parameters()
                .iter()
                .map(|one| one.name.clone())
                .collect();
            let has = names.iter().any(|name| name.ends_with("w1.weight"));
            assert_eq!(
                has,
                encoder.is_none() || aggregation == multihop,
                "{encoder:?} {aggregation:?} {names:?}"
            );
        }
    }
}

/// Token vectors of cells have size one, and those of a Transformer BERT's.
#[test]
fn token_vectors_of_new_encoders_are_drawn() {
    let bare = bare(&tiny("classic-mean"));
    let size = |encoder: NewEncoder| {
        let (_folder, model_dir) = from_scratch(bare.path(), &creation("sde", 3), Some(encoder), Aggregation::Mean);
        let learned = learned(&model_dir);
        let table =
            |name: &str| name.ends_with("embeddings.weight") && !name.contains("position") && !name.contains("type");
        let table = learned
            .parameters()
            .iter()
            .find(|parameter| table(&parameter.name))
            .unwrap();
        moments(&table.tensor).1
    };
    let cells = size(NewEncoder::Recurrent {
        cell: RecurrentCell::Lstm,
        layers: 1,
        hidden: 5,
        bidirectional: false,
    });
    assert!((cells - 1.0).abs() < 0.01, "{cells}");
    let transformer = size(NewEncoder::Transformer { layers: 1 });
    assert!((transformer - 0.02).abs() < 0.002, "{transformer}");
}

/// Without an encoder named, that of a recurrent source is initialised as it was the first time.
#[test]
fn cells_are_drawn_from_their_configuration() {
    let gru = NewEncoder::Recurrent {
        cell: RecurrentCell::Gru,
        layers: 2,
        hidden: 40,
        bidirectional: true,
    };
    let (_folder, source) = from_scratch(&tiny("plain"), &creation("sde", 3), Some(gru), Aggregation::Mean);
    let (_again, again) = from_scratch(&source, &creation("sde", 4), None, Aggregation::Kept);
    let (source, again) = (learned(&source), learned(&again));
    assert_eq!(source.parameters().len(), again.parameters().len());
    for (one, other) in source.parameters().iter().zip(again.parameters()) {
        assert_eq!((&one.name, one.tensor.size()), (&other.name, other.tensor.size()));
        assert!(!one.tensor.equal(&other.tensor), "{}", one.name);
        if one.name.contains("rnn.") {
            let bound = (1.0f64 / 40.0).sqrt();
            let (largest, (_, deviation)) = (other.tensor.abs().max().double_value(&[]), moments(&other.tensor));
            assert!(largest <= bound && largest > 0.9 * bound, "{}: {largest}", other.name);
            assert!(
                (deviation / (bound / 3f64.sqrt()) - 1.0).abs() < 0.2,
                "{}: {deviation}",
                other.name
            );
        }
    }
}

/// Values are initialised in f32, and that is what transformers is told to read.
#[test]
fn a_configuration_of_halves_becomes_one_of_f32() {
    let bare = bare(&tiny("plain"));
    edit(&bare.path().join("config.json"), |config| {
        config["dtype"] = json!("float16");
        config["torch_dtype"] = json!("bfloat16");
    });
    let (_folder, model_dir) = from_scratch(bare.path(), &creation("sde", 1), None, Aggregation::Kept);
    let config = read_json(&model_dir.join("config.json"));
    assert_eq!(
        (&config["dtype"], &config["torch_dtype"]),
        (&json!("float32"), &json!("float32"))
    );
}

fn refusal(from: &Path, encoder: Option<NewEncoder>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model");
    let message = create_from_scratch(from, &to, &creation("sde", 1), encoder, Aggregation::Kept)
        .unwrap_err()
        .to_string();
    assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 0, "{message}");
    // The file that can be mended, and not the one that was being made.
    assert!(message.contains(&from.display().to_string()), "{message}");
    message
}

#[test]
fn a_configuration_that_cannot_be_drawn_from_is_refused() {
    let bare = bare(&tiny("plain"));
    let config = bare.path().join("config.json");
    let whole = read_json(&config);
    for range in [json!(0.0), json!(-0.02), json!(1e9), json!("wide")] {
        edit(&config, |config| config["initializer_range"] = range.clone());
        let message = refusal(bare.path(), None);
        assert!(
            message.contains("config.json") && message.contains("initializer_range"),
            "{message}"
        );
    }
    edit(&config, |config| *config = whole.clone());
    edit(&config, |config| config["sinusoidal_pos_embds"] = json!(true));
    assert!(refusal(bare.path(), None).contains("sinusoidal_pos_embds"));
    edit(&config, |config| *config = whole.clone());
    fs_err::remove_file(bare.path().join("tokenizer.json")).unwrap();
    assert!(
        refusal(bare.path(), None).contains("vocab.txt"),
        "{}",
        refusal(bare.path(), None)
    );
    let full = tempfile::tempdir().unwrap();
    let message = create_from_scratch(
        &tiny("plain"),
        full.path(),
        &creation("sde", 1),
        None,
        Aggregation::Kept,
    )
    .unwrap_err()
    .to_string();
    assert!(message.contains("already exists"), "{message}");
}

/// Nothing of the size is made before it is known to be one that can be.
#[test]
fn a_model_larger_than_any_is_refused() {
    let bare = bare(&tiny("plain"));
    let config = bare.path().join("config.json");
    let whole = read_json(&config);
    for (field, value) in [
        ("vocab_size", 1_u64 << 30),
        ("num_hidden_layers", 1 << 30),
        ("intermediate_size", 1 << 30),
        ("type_vocab_size", u64::MAX),
        ("max_position_embeddings", 1 << 30),
        ("hidden_size", 1 << 30),
    ] {
        edit(&config, |config| config[field] = json!(value));
        for encoder in [None, Some(NewEncoder::Transformer { layers: 1 })] {
            // What a new encoder has of its own is not read.
            if encoder.is_none() || ["vocab_size", "hidden_size"].contains(&field) {
                let message = refusal(bare.path(), encoder);
                let wide = encoder.is_some() && field == "hidden_size";
                let expected = if wide {
                    "up to 65,536 values"
                } else {
                    "values in 10,000 tensors"
                };
                assert!(message.contains(expected), "{field} {value}: {message}");
            }
        }
        edit(&config, |config| *config = whole.clone());
    }
}

#[test]
fn the_command_draws_too() {
    let (bare, folder) = (bare(&tiny("plain")), tempfile::tempdir().unwrap());
    let to = folder.path().join("model");
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
    let run = |command: &mut Command| command.output().unwrap();
    let output = run(command
        .args(["create", "--model"])
        .arg(bare.path())
        .arg("--out")
        .arg(&to)
        .args(["--dim", "6"]));
    assert_eq!(
        output.status.code(),
        Some(1),
        "without weights there is nothing to begin from"
    );
    let output = run(command.args(["--from-scratch", "--seed", "5"]));
    assert!(output.status.success(), "{output:?}");
    let by_command: Model = open(&to);
    let (_folder, by_call) = from_scratch(bare.path(), &creation("sde", 5), None, Aggregation::Kept);
    assert_eq!(by_command.info().fingerprint, open(&by_call).info().fingerprint);
    // Two towers of one start are equal until they learn.
    let (_pair, pair) = from_scratch(bare.path(), &creation("ade-spl", 5), None, Aggregation::Kept);
    let pair = open(&pair);
    let texts = ["the river".to_owned()];
    assert_eq!(
        embed(&pair, Tower::Question, &texts),
        embed(&pair, Tower::Answer, &texts)
    );
    let again = tempfile::tempdir().unwrap();
    create(&to, &again.path().join("model"), &creation("ade", 1)).unwrap();
}
