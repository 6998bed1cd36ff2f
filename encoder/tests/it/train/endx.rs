//! ENDX on a small real task: the cross-encoder branch learns, and the dual encoder ends no worse than alone.

use std::path::Path;
use std::process::Command;

use dyad_corpus::examples::{ExampleOptions, ExampleReader, TrainingExample};
use serde_json::{Value, json};

use crate::fixture::path_of;

/// Pairs that are learned from, and others that are measured by.
const LEARNED: usize = 1_400;
const MEASURED: usize = 300;

const SETTINGS: &str = "threads = 1\n[data]\npaths = [\"pairs.jsonl\"]\nquestion-tokens = 32\nanswer-tokens = 64\n[batch]\nsize = 32\n\
    [optimizer]\nlearning-rate = 5e-4\n[schedule]\nwarm-up = 10\n[training]\nepochs = 2.0\n\
    groups = [{ names = [\"*embeddings*\"], rate = 0.1 }]\n[evaluation]\ndata = \"beir\"\nsplit = \"dev\"\nevery = 0\n[log]\nevery = 10\ntensorboard = false\n";
const ENDX: &str = "[loss.endx.cross]\nheads = 12\nfeed-forward = 384\naggregator = { kind = \"multi-hop\", inner = 64, hops = 2 }\n\
    [loss.endx.weights]\na-q = { to = 0.5, epochs = 0.5, after = 0.5 }\nq-a = { to = 0.5, epochs = 0.5, after = 0.5 }\n\
    q-q = { to = 0.5, epochs = 0.5, after = 0.5 }\na-a = { to = 0.5, epochs = 0.5, after = 0.5 }\n";

fn write(path: &Path, lines: impl Iterator<Item = Value>) {
    fs_err::write(path, lines.map(|line| line.to_string()).collect::<Vec<_>>().join("\n")).unwrap();
}

/// The pairs as a file to learn from, and as a folder to be measured by.
fn data(root: &Path, examples: &[TrainingExample]) {
    let answer = |example: &TrainingExample| example.positives[0].text.clone();
    let (learned, measured) = examples.split_at(LEARNED);
    let pair = |example: &TrainingExample| json!({ "question": example.question, "answer": answer(example) });
    write(&root.join("pairs.jsonl"), learned.iter().map(pair));
    let beir = root.join("beir");
    fs_err::create_dir_all(beir.join("qrels")).unwrap();
    let numbered = || measured.iter().enumerate();
    write(
        &beir.join("corpus.jsonl"),
        numbered().map(|(at, example)| json!({ "_id": format!("a{at}"), "text": answer(example) })),
    );
    write(
        &beir.join("queries.jsonl"),
        numbered().map(|(at, example)| json!({ "_id": format!("q{at}"), "text": example.question })),
    );
    let judged: Vec<String> = (0..measured.len()).map(|at| format!("q{at}\ta{at}\t1\n")).collect();
    fs_err::write(
        beir.join("qrels/dev.tsv"),
        format!("query-id\tcorpus-id\tscore\n{}", judged.concat()),
    )
    .unwrap();
}

/// MRR after training, and the lines of the log.
fn trained(root: &Path, name: &str, settings: &str) -> (f64, Vec<Value>) {
    fs_err::write(root.join(name).with_extension("toml"), settings).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
    command.args(["train", "--config", &format!("{name}.toml"), "--out", name]);
    let output = command.current_dir(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs_err::read_to_string(root.join(name).join("metrics.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let measured = lines.iter().rev().find(|line| line["what"] == "evaluation").unwrap();
    (measured["recip_rank"].as_f64().unwrap(), lines)
}

#[test]
fn endx_does_no_harm_on_real_questions() {
    let test = "endx_does_no_harm_on_real_questions";
    let (Some(data_dir), Some(model)) = (path_of("DYAD_DATA", test), path_of("DYAD_MODEL", test)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let pairs = data_dir.join("squad-train/pairs.jsonl.gz");
    let reader = ExampleReader::open(&pairs, &ExampleOptions::default()).unwrap();
    let examples: Vec<TrainingExample> = reader.take(LEARNED + MEASURED).map(Result::unwrap).collect();
    data(dir.path(), &examples);
    let model = format!(
        "[model]\npath = {:?}\nsharing = \"sde\"\ndim = 128\nencoder = \"transformer\"\nlayers = 1\npooling = \"multi-hop\"\ninner = 64\nhops = 2\n",
        model.display().to_string()
    );
    let (alone, _) = trained(dir.path(), "alone", &format!("{SETTINGS}{model}"));
    let (with, lines) = trained(dir.path(), "endx", &format!("{SETTINGS}{model}{ENDX}"));
    // Three hundred questions tell no difference below .03.
    assert!(alone > 0.3 && with > alone - 0.03, "{alone} alone, {with} with ENDX");
    let log: Vec<&Value> = lines.iter().filter(|line| line["what"] == "train").collect();
    let of = |line: &Value, name: &str| line[name].as_f64().unwrap_or_else(|| panic!("no {name} in {line}"));
    // Chance is ln 32 = 3.5 nats: the branch begins near it, and not confidently wrong; then it learns.
    let (first, last) = (log[0], log[log.len() - 1]);
    assert!(
        of(first, "loss-cross") < 7.0 && of(last, "loss-cross") < 1.0,
        "{first} {last}"
    );
    assert!(of(last, "cross-p-at-1") > 0.7, "{last}");
}
