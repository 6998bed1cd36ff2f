//! `dyad-bench train-step` as a command, with our own engine on a tiny model, and next to sentence-transformers where
//! it is installed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::fake;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn bench(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-bench"));
    command.arg("train-step").args(arguments);
    command
        .current_dir(directory)
        .env_remove("DYAD_DATA")
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

/// A workload on a tiny model: two batches of four pairs.
fn write(directory: &Path) {
    let text = format!(
        "name = \"tiny\"\nmodel = \"{ROOT}/encoder/tests/golden/tiny/classic-mean\"\nrepeats = 2\nthreads = 1\nengines = [\"dyad\"]\n\
         [[shape]]\nname = \"small\"\npairs = \"pairs.jsonl\"\nbatch = 4\nbatches = 2\nlearning_rate = 1e-3\n"
    );
    fs_err::write(directory.join("tiny.toml"), text).unwrap();
    let words = [
        "the", "river", "city", "and", "mountain", "of", "king", "queen", "water", "light",
    ];
    let text = |at: usize, more: usize| -> String {
        let words: Vec<&str> = (0..more + at % 4)
            .map(|word| words[(at * 7 + word * (at % 3 + 1)) % words.len()])
            .collect();
        words.join(" ")
    };
    let pair = |at: usize| format!("{}\n", json!({ "question": text(at, 2), "answer": text(at + 3, 6) }));
    fs_err::write(directory.join("pairs.jsonl"), (0..40).map(pair).collect::<String>()).unwrap();
}

fn summary(directory: &Path) -> Value {
    serde_json::from_slice(&fs_err::read(directory.join("out/summary.json")).unwrap()).unwrap()
}

#[test]
fn a_run_writes_everything_and_prints_the_table() {
    let dir = tempdir().unwrap();
    write(dir.path());
    let output = bench(
        &["--workload", "tiny.toml", "--out", "out", "--record", "records"],
        dir.path(),
    );
    assert!(output.status.success(), "{output:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("small: steps with 4 pairs"), "{table}");
    let summary = summary(dir.path());
    assert_eq!(summary["ratios"], json!({}), "no peers, no ratios");
    let figures = &summary["engines"]["dyad"]["small"];
    assert_eq!(figures["seconds"].as_array().unwrap().len(), 2);
    let losses: Vec<f64> = serde_json::from_value(figures["losses"].clone()).unwrap();
    // Four answers, so far from decided.
    assert!(
        losses.len() == 2 && losses.iter().all(|loss| (0.1..5.0).contains(loss)),
        "{losses:?}"
    );
    assert!(figures["step_ms"].as_f64().unwrap() > 0.0 && figures["peak_bytes"].as_u64().is_some());
    assert_eq!(
        fs_err::read_to_string(dir.path().join("out/points.csv"))
            .unwrap()
            .lines()
            .count(),
        2
    );
    assert_eq!(fs_err::read_dir(dir.path().join("records")).unwrap().count(), 1);
}

/// A peer whose pace and losses are known, next to one that cuts its texts and one that gives up.
#[test]
fn peers_are_compared_with_the_first_engine() {
    let dir = tempdir().unwrap();
    write(dir.path());
    let Some(script) = fake::worker(dir.path(), "peers.py", include_str!("fake_trainer.py")) else {
        return;
    };
    let script = script.to_str().unwrap();
    let arguments = [
        "--workload",
        "tiny.toml",
        "--out",
        "out",
        "--python",
        "python3",
        "--peers",
        script,
    ];
    let output = bench(
        &[&arguments[..], &["--engines", "fake-40,fake-10,short,dies"]].concat(),
        dir.path(),
    );
    assert_eq!(output.status.code(), Some(1));
    let summary = summary(dir.path());
    let of = |engine: &str| &summary["engines"][engine]["small"];
    let near = |value: &Value, expected: f64| (value.as_f64().unwrap() - expected).abs() < 1e-9;
    assert!(near(&of("fake-40")["step_ms"], 40.0) && near(&of("fake-10")["step_ms"], 10.0));
    assert!(near(&of("fake-10")["padding_share"], 0.5));
    assert!(near(&of("fake-40")["loss_difference"], 0.0));
    assert!(near(&of("fake-10")["loss_difference"], 0.75), "{summary:#}");
    assert!(
        summary["failures"]["short"]["small"]
            .as_str()
            .unwrap()
            .contains("reply to `steps`: expected "),
        "{summary:#}"
    );
    assert!(
        summary["failures"]["dies"]["small"]
            .as_str()
            .unwrap()
            .contains("out of luck"),
        "{summary:#}"
    );
}

#[test]
fn what_cannot_be_measured_names_the_place() {
    let dir = tempdir().unwrap();
    write(dir.path());
    let path = dir.path().join("tiny.toml");
    let whole = fs_err::read_to_string(&path).unwrap();
    for (from, to, expected) in [
        ("repeats = 2", "speed = 2", "unknown field `speed`"),
        ("repeats = 2", "repeats = 0", "`repeats`: expected at least 1, got 0"),
        ("batch = 4", "batch = 1", "expected batches of 2 pairs at least"),
        (
            "batches = 2",
            "batches = 99",
            "different pairs of the file give, got 396 pairs",
        ),
        (
            "1e-3",
            "0.0",
            "`shape.small.learning_rate`: expected a number above 0, got 0",
        ),
        (
            "pairs.jsonl",
            "none.jsonl",
            "no such file: `none.jsonl`. DYAD_DATA (or --data)",
        ),
    ] {
        fs_err::write(&path, whole.replace(from, to)).unwrap();
        let output = bench(&["--workload", "tiny.toml", "--out", "out"], dir.path());
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(1) && message.contains(expected),
            "{expected}: {message}"
        );
    }
}

/// Needs `DYAD_PYTHON` (deploy/venv.sh): the figures mean something only if both engines take the same steps.
#[test]
fn our_steps_are_those_of_sentence_transformers() {
    let Some(python) = std::env::var_os("DYAD_PYTHON").map(PathBuf::from) else {
        let _ = writeln!(std::io::stderr(), "skipped: DYAD_PYTHON is not set");
        return;
    };
    let python = std::path::absolute(Path::new(ROOT).join(python)).unwrap();
    let dir = tempdir().unwrap();
    write(dir.path());
    let peers = format!("{ROOT}/benches/peers/train_step.py");
    let arguments = [
        "--workload",
        "tiny.toml",
        "--out",
        "out",
        "--python",
        python.to_str().unwrap(),
        "--peers",
        &peers,
    ];
    let names = "dyad,dyad-bf16,dyad-cached,sentence-transformers,sentence-transformers-no-dropout,\
                 sentence-transformers-bf16-no-dropout";
    let engines = ["--engines", names];
    let output = bench(&[&arguments[..], &engines].concat(), dir.path());
    assert!(output.status.success(), "{output:?}");
    let engines = &summary(dir.path())["engines"];
    let off = |name: &str| engines[name]["small"]["loss_difference"].as_f64().unwrap();
    // The second loss comes after a step at a rate that moves it.
    assert!(off("sentence-transformers-no-dropout") < 1e-4, "{engines:#}");
    // Products in bf16 have 8 bits.
    for name in ["dyad-bf16", "sentence-transformers-bf16-no-dropout"] {
        assert!((1e-6..0.2).contains(&off(name)), "{name}: {engines:#}");
    }
    assert!(off("dyad-cached") < 1e-4, "{engines:#}");
    assert!(off("sentence-transformers") > 1e-3, "dropout is on: {engines:#}");
    assert!(
        engines["sentence-transformers"]["small"]["padding_share"]
            .as_f64()
            .unwrap()
            > 0.0
    );
}
