//! `export`: vectors, ties, sizes and refusals of a model in another number type.

use std::path::{Path, PathBuf};
use std::process::Command;

use dyad_encoder::model::create;
use dyad_encoder::model::export;
use dyad_encoder::transform::Creation;
use dyad_encoder::{Compute, CrossEncoder, Dtype, Tower};

use crate::fixture::{copy, copy_folder, edit, embed, open, path_of, read_json, refusal, tiny, worst};

fn texts() -> Vec<String> {
    ["the river", "who was the king of the city", "a light"]
        .map(str::to_owned)
        .to_vec()
}

fn exported(from: &Path, dtype: Dtype) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("exported");
    export(from, &to, dtype).unwrap();
    assert!(!folder.path().join("exported.partial").exists());
    (folder, to)
}

/// All files below a folder, relative, and their sizes.
fn files(root: &Path) -> Vec<(PathBuf, u64)> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                let path = entry.path().strip_prefix(root).unwrap().to_owned();
                found.push((path, entry.metadata().unwrap().len()));
            }
        }
    }
    found.sort();
    found
}

/// Bytes of all tensors in the safetensors files below a folder.
fn tensor_bytes(root: &Path) -> u64 {
    let weights = files(root)
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|end| end == "safetensors"));
    let sizes = weights.map(|(path, size)| {
        let bytes = fs_err::read(root.join(path)).unwrap();
        size - 8 - u64::from_le_bytes(bytes[..8].try_into().unwrap())
    });
    sizes.sum()
}

fn near(from: &Path, to: &Path, least: f64) {
    let (before, after) = (open(from), open(to));
    for tower in [Tower::Question, Tower::Answer] {
        let worst = worst(&embed(&before, tower, &texts()), &embed(&after, tower, &texts()));
        assert!(worst >= least, "{}, {tower}: {worst}", from.display());
    }
}

#[test]
fn f32_stays_the_same_model() {
    for name in ["classic-mean", "newer-dense", "plain"] {
        let (_folder, to) = exported(&tiny(name), Dtype::F32);
        assert_eq!(
            open(&to).info().fingerprint,
            open(&tiny(name)).info().fingerprint,
            "{name}"
        );
        let names = |root: &Path| files(root).into_iter().map(|(path, _)| path).collect::<Vec<_>>();
        let mut expected = names(&tiny(name));
        expected.push("dyad.json".into());
        expected.sort();
        assert_eq!(names(&to), expected, "{name}");
        assert!(open(&to).reproduce_golden().unwrap().unwrap() > 0.999_999, "{name}");
    }
}

#[test]
fn half_the_bytes_and_nearly_the_vectors() {
    for (dtype, least) in [(Dtype::Bf16, 0.999), (Dtype::F16, 0.999_99)] {
        for name in ["classic-mean", "newer-dense"] {
            let (_folder, to) = exported(&tiny(name), dtype);
            near(&tiny(name), &to, least);
            assert_ne!(
                open(&to).info().fingerprint,
                open(&tiny(name)).info().fingerprint,
                "{name}"
            );
            assert_eq!(2 * tensor_bytes(&to), tensor_bytes(&tiny(name)), "{name} {dtype}");
            // Half precision is exact in f32: there and back changes only the name of the type.
            let (_folder, back) = exported(&to, Dtype::F32);
            near(&to, &back, 0.999_999_9);
            let (_folder, again) = exported(&back, dtype);
            assert_eq!(
                open(&again).info().fingerprint,
                open(&to).info().fingerprint,
                "{name} {dtype}"
            );
        }
    }
}

#[test]
fn ties_and_sharing_are_kept() {
    for sharing in [
        "ade-ste",
        "ade-fte",
        "ade-spl",
        "token=separate,transformer=shared,projection=separate",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let model_dir = folder.path().join("model");
        create(
            &tiny("classic-mean"),
            &model_dir,
            &Creation {
                sharing: sharing.parse().unwrap(),
                dim: 6,
                seed: 1,
            },
        )
        .unwrap();
        let (_folder, to) = exported(&model_dir, Dtype::Bf16);
        assert_eq!(open(&to).contents(), open(&model_dir).contents(), "{sharing}");
        let [before, after] = [&model_dir, &to].map(|root| read_json(&root.join("dyad.json")));
        for field in ["sharing", "shared_tensors", "dim"] {
            assert_eq!(before[field], after[field], "{sharing}");
        }
        near(&model_dir, &to, 0.999);
    }
}

#[test]
fn what_cannot_be_exported_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let message = export(&tiny("plain"), folder.path(), Dtype::Bf16)
        .unwrap_err()
        .to_string();
    assert!(message.contains("already exists"), "{message}");

    let to = folder.path().join("to");
    let model_dir = folder.path().join("model");
    create(
        &tiny("plain"),
        &model_dir,
        &Creation {
            sharing: "sde".parse().unwrap(),
            dim: 6,
            seed: 1,
        },
    )
    .unwrap();
    edit(&model_dir.join("config_sentence_transformers.json"), |value| {
        value["prompts"]["query"] = "ask: ".into();
    });
    let message = export(&model_dir, &to, Dtype::Bf16).unwrap_err().to_string();
    assert_eq!(message, refusal(&model_dir));
    assert!(message.contains("fingerprint") && !to.exists(), "{message}");

    // A folder that leads back into the model.
    let model = copy("plain");
    std::os::unix::fs::symlink(model.path(), model.path().join("loop")).unwrap();
    let message = export(model.path(), &to, Dtype::Bf16).unwrap_err().to_string();
    assert!(
        message.contains("link") && message.contains("loop") && !to.exists(),
        "{message}"
    );
}

#[test]
fn the_command_says_what_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    // Inside of the model: not copied into itself.
    let model = folder.path().join("model");
    copy_folder(&tiny("plain"), &model);
    fs_err::create_dir(model.join(".git")).unwrap();
    let to = model.join("bf16");
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
        command
            .args(["export", "--dtype", "bf16", "--model"])
            .arg(&model)
            .arg("--out")
            .arg(&to)
            .output()
            .unwrap()
    };
    let output = run();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.starts_with("exported "), "{text}");
    assert!(
        text.trim_end()
            .ends_with(&format!("(bf16), fingerprint {}", open(&to).info().fingerprint)),
        "{text}"
    );
    assert!(!to.join("bf16").exists() && !to.join(".git").exists());
    let again = run();
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8(again.stderr).unwrap().contains("already exists"));
}

#[test]
fn checkpoints_of_python_are_exported() {
    let Some(all) = path_of("DYAD_ST_CHECKPOINTS", "checkpoints_of_python_are_exported") else {
        return;
    };
    for name in [
        "bert",
        "distilbert",
        "mpnet",
        "dpr-projected",
        "router-shared-dense",
        "router-newer",
        "t5-relu",
        "gtr",
        "modernbert",
        "gte-own-code",
        "nomic-bert",
        "qwen3-embedding",
        "embeddinggemma",
    ] {
        let from = all.join(name);
        let (_folder, to) = exported(&from, Dtype::Bf16);
        near(&from, &to, 0.995);
        assert_eq!(2 * tensor_bytes(&to), tensor_bytes(&from), "{name}");
        let (_folder, same) = exported(&from, Dtype::F32);
        assert_eq!(open(&same).info().fingerprint, open(&from).info().fingerprint, "{name}");
    }
    let (_folder, gtr) = exported(&all.join("gtr"), Dtype::Bf16);
    let index = read_json(&gtr.join("model.safetensors.index.json"));
    let shards: u64 = tensor_bytes(&gtr) - tensor_bytes(&gtr.join("2_Dense"));
    assert_eq!(index["metadata"]["total_size"].as_u64(), Some(shards));
    let refused = gtr.with_file_name("f16");
    let message = export(&all.join("gtr"), &refused, Dtype::F16).unwrap_err().to_string();
    assert!(
        message.contains("T5") && message.ends_with(": f16") && !refused.exists(),
        "{message}"
    );
}

#[test]
fn a_cross_encoder_stays_one() {
    let from = tiny("cross-classic");
    let score = |directory: &Path| {
        let model = CrossEncoder::open(directory, &Compute::default()).unwrap();
        let pair = model
            .tokenizer()
            .encode_pair("who was the king", "the queen of the city")
            .unwrap();
        f64::from(model.logits(&[&pair]).unwrap()[0])
    };
    let expected = score(&from);
    for (dtype, most) in [(Dtype::F32, 1e-6), (Dtype::F16, 1e-3), (Dtype::Bf16, 1e-2)] {
        let (_folder, to) = exported(&from, dtype);
        let found = score(&to);
        assert!(
            (found - expected).abs() <= most * (1.0 + expected.abs()),
            "{dtype}: {found} {expected}"
        );
        let bytes = if dtype == Dtype::F32 {
            tensor_bytes(&from)
        } else {
            tensor_bytes(&from) / 2
        };
        assert_eq!(tensor_bytes(&to), bytes, "{dtype}");
        let golden = &read_json(&to.join("dyad.json"))["golden"];
        assert!(golden.as_array().is_some_and(|golden| golden.len() > 3), "{golden}");
    }
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
    let output = command
        .args(["export", "--dtype", "bf16", "--model"])
        .arg(&from)
        .arg("--out")
        .arg(&to)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.contains("fingerprint"), "{said}");
}
