//! `dyad-bench encode` as a command, with our own engine on a tiny model, and next to sentence-transformers where it is
//! installed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::tempdir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn bench(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-bench"));
    command
        .arg("encode")
        .args(arguments)
        .args(["--peers", &format!("{ROOT}/benches/peers/encode.py")]);
    command
        .current_dir(directory)
        .env_remove("DYAD_DATA")
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

fn tiny(name: &str) -> PathBuf {
    Path::new(ROOT).join("encoder/tests/golden/tiny").join(name)
}

/// A workload on a tiny model: short texts, and passages of 16 tokens.
fn write(directory: &Path, model: &Path) {
    let text = format!(
        "name = \"tiny\"\nmodel = \"{}\"\nrepeats = 2\nthreads = 1\nengines = [\"dyad\"]\n\
         [[shape]]\nname = \"mixed\"\ntexts = [{{ path = \"corpus.jsonl\", count = 12 }}]\n\
         [[shape]]\nname = \"passages-16\"\ntokens = 16\ntexts = [{{ path = \"corpus.jsonl\", count = 8 }}]\n",
        model.display()
    );
    fs_err::write(directory.join("tiny.toml"), text).unwrap();
    let words = [
        "the", "river", "city", "and", "mountain", "of", "king", "queen", "water", "light",
    ];
    let text = |at: usize| -> String {
        let words: Vec<&str> = (0..2 + at)
            .map(|word| words[(at * 7 + word * 3) % words.len()])
            .collect();
        format!("{}\n", json!({ "_id": at.to_string(), "text": words.join(" ") }))
    };
    fs_err::write(directory.join("corpus.jsonl"), (0..20).map(text).collect::<String>()).unwrap();
}

fn summary(directory: &Path) -> Value {
    serde_json::from_slice(&fs_err::read(directory.join("out/summary.json")).unwrap()).unwrap()
}

#[test]
fn encode_writes_everything_and_prints_the_table() {
    let dir = tempdir().unwrap();
    write(dir.path(), &tiny("classic-mean"));
    let arguments = [
        "--workload",
        "tiny.toml",
        "--engines",
        "dyad,dyad-bf16",
        "--out",
        "out",
        "--record",
        "records",
    ];
    let output = bench(&arguments, dir.path());
    assert!(output.status.success(), "{output:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("passages-16: 8 texts, 16.0 tokens each") && table.contains("dyad-bf16"),
        "{table}"
    );
    let summary = summary(dir.path());
    assert_eq!(summary["ratios"], json!({}), "no peers, no ratios");
    for shape in ["mixed", "passages-16"] {
        for engine in ["dyad", "dyad-bf16"] {
            let figures = &summary["engines"][engine][shape];
            assert_eq!(figures["seconds"].as_array().unwrap().len(), 2);
            assert!(figures["texts_per_s"].as_f64().unwrap() > 0.0 && figures["peak_bytes"].as_u64().unwrap() > 0);
            assert!(figures["smallest_cosine"].as_f64().unwrap() > 0.99, "{figures}");
        }
    }
    assert_eq!(summary["engines"]["dyad"]["passages-16"]["tokens"], 128);
    assert_eq!(
        fs_err::read_to_string(dir.path().join("out/points.csv"))
            .unwrap()
            .lines()
            .count(),
        5
    );
    let names: Vec<_> = fs_err::read_dir(dir.path().join("records"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        names.len() == 1 && names[0].to_string_lossy().starts_with("tiny-20"),
        "{names:?}"
    );
}

#[test]
fn an_engine_that_cannot_run_is_named_and_ends_with_1() {
    let dir = tempdir().unwrap();
    write(dir.path(), &tiny("classic-mean"));
    let arguments = [
        "--workload",
        "tiny.toml",
        "--shapes",
        "mixed",
        "--device",
        "cuda:63",
        "--out",
        "out",
    ];
    let output = bench(&arguments, dir.path());
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("error: one engine failed: dyad at mixed"), "{said}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("dyad failed: dyad: `open`: device `cuda:63` is not available"),
        "{table}"
    );
    assert!(
        summary(dir.path())["failures"]["dyad"]["mixed"]
            .as_str()
            .unwrap()
            .contains("cuda:63")
    );
}

#[test]
fn what_cannot_be_measured_names_the_place() {
    let dir = tempdir().unwrap();
    write(dir.path(), &tiny("classic-mean"));
    let path = dir.path().join("tiny.toml");
    let whole = fs_err::read_to_string(&path).unwrap();
    let refused = |text: &str, more: &[&str], expected: &str| {
        fs_err::write(&path, text).unwrap();
        let output = bench(
            &[&["--workload", "tiny.toml", "--out", "out"], more].concat(),
            dir.path(),
        );
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(1) && message.contains(expected),
            "{expected}: {message}"
        );
    };
    refused(&whole.replace("repeats = 2", "speed = 2"), &[], "unknown field `speed`");
    refused(
        &whole.replace("repeats = 2", "repeats = 0"),
        &[],
        "`repeats`: expected at least 1, got 0",
    );
    refused(
        &whole.replace("passages-16", "mixed"),
        &[],
        "`shape.name`: expected each name once, got `mixed` twice",
    );
    refused(
        &whole.replace("tokens = 16", "tokens = 7"),
        &[],
        "`shape.passages-16.tokens`: expected at least 8, got 7",
    );
    refused(
        &whole.replace("count = 12", "count = 0"),
        &[],
        "`shape.mixed.texts`: expected files with a `count`",
    );
    refused(
        &whole.replace("count = 12", "count = 50"),
        &[],
        "expected at most the 20 that the file gives, got 50",
    );
    refused(
        &whole.replace("corpus.jsonl", "none.jsonl"),
        &[],
        "no such file: `none.jsonl`. DYAD_DATA (or --data)",
    );
    refused(
        &whole.replace("tokens = 16", "tokens = 40"),
        &[],
        "`max_position_embeddings`: expected at least 40 for this shape, got 28",
    );
    refused(&whole, &["--model", "nowhere"], "`model`: no such directory: `nowhere`");
    refused(
        &whole,
        &["--shapes", "long"],
        "--shapes: expected shapes of the workload (mixed, passages-16), got `long`",
    );
    refused(
        &whole,
        &["--engines", "a/b"],
        "--engines: expected names between commas, got `a/b`",
    );
}

/// Needs `DYAD_PYTHON` (deploy/venv.sh): the figures mean something only if both engines give the same vectors.
#[test]
fn our_vectors_are_those_of_sentence_transformers() {
    let Some(python) = std::env::var_os("DYAD_PYTHON").map(PathBuf::from) else {
        let _ = writeln!(std::io::stderr(), "skipped: DYAD_PYTHON is not set");
        return;
    };
    let python = std::path::absolute(Path::new(ROOT).join(python)).unwrap();
    // Three poolings, and a prompt that counts as tokens but not in the mean.
    let dir = tempdir().unwrap();
    write(dir.path(), &tiny("classic-prompt-left-out"));
    let arguments = [
        "--workload",
        "tiny.toml",
        "--engines",
        "dyad,sentence-transformers",
        "--out",
        "out",
        "--shapes",
        "mixed",
    ];
    let python = ["--python", python.to_str().unwrap()];
    let output = bench(&[&arguments[..], &python].concat(), dir.path());
    assert!(output.status.success(), "{output:?}");
    let summary = summary(dir.path());
    let peer = &summary["engines"]["sentence-transformers"]["mixed"];
    assert!(peer["smallest_cosine"].as_f64().unwrap() > 0.99999, "{peer}");
    assert!(
        peer["padding_share"].as_f64().unwrap() > 0.0 && peer["tuned"].as_str().unwrap().starts_with("batch "),
        "{peer}"
    );
    assert!(peer["matmul_gflops"].as_f64().unwrap() > 0.0);
    assert!(
        summary["ratios"]["dyad"]["sentence-transformers"]["mixed"]
            .as_f64()
            .unwrap()
            > 0.0
    );
}
