//! A cross encoder: learned, killed, read by Python, refused.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use dyad_encoder::model::create_cross_encoder;
use dyad_encoder::tokenize::{Budget, Tokens};
use dyad_encoder::train::Config;
use dyad_encoder::{Compute, CrossEncoder};
use serde_json::{Value, json};

use super::fixture::{PAIRS, Place, pair, weights};
use crate::fixture::{path_of, read_json, tiny};

/// Numbers of the answers that stand against that of a question.
fn others(number: usize) -> [usize; 3] {
    [1, 9, 30].map(|step| (number + step) % PAIRS)
}

/// A folder with the pairs and three negatives each, and settings of a cross encoder.
fn place(more: &str) -> Place {
    let place = Place::new("");
    let line = |number| {
        let (question, answer) = pair(number);
        let negatives = others(number).map(|other| json!({"docid": "", "title": "", "text": pair(other).1}));
        let positives = [json!({"docid": "", "title": "", "text": answer})];
        json!({"query_id": "", "query": question, "positive_passages": positives, "negative_passages": negatives})
    };
    let lines: Vec<String> = (0..PAIRS).map(|number| line(number).to_string()).collect();
    fs_err::write(place.path("negatives.jsonl"), lines.join("\n")).unwrap();
    settings(&place, more);
    place
}

fn settings(place: &Place, more: &str) {
    let model = tiny("classic-mean").display().to_string();
    let head = format!(
        "threads = 1\n[model]\npath = {model:?}\ntype = \"cross-encoder\"\n[data]\npaths = [\"negatives.jsonl\"]\n\
         [optimizer]\nlearning-rate = 0.004\n[log]\nevery = 1\n"
    );
    fs_err::write(place.path("settings.toml"), format!("{head}{more}")).unwrap();
}

const LEARN: &str = "[batch]\nsize = 16\nnegatives = 3\n[training]\nsteps = 400\n[checkpoints]\nevery = 20\n";

/// The share of the questions whose answer is scored above the three others.
fn right(model: &CrossEncoder) -> f64 {
    let tokenizer = model.tokenizer();
    let candidates = |number: usize| std::iter::once(number).chain(others(number));
    let pairs: Vec<Tokens> = (0..PAIRS)
        .flat_map(|number| candidates(number).map(move |answer| (pair(number).0, pair(answer).1)))
        .map(|(question, answer)| tokenizer.encode_pair(&question, &answer).unwrap())
        .collect();
    let logits = model.logits_while(&pairs, Budget::CPU, |_| true).unwrap().unwrap();
    let best = logits.chunks_exact(4).filter(|own| own[1..].iter().all(|other| own[0] > *other)).count();
    best as f64 / PAIRS as f64
}

fn open(folder: &Path) -> CrossEncoder {
    CrossEncoder::open(folder, &Compute { threads: Some(1), ..Compute::default() }).unwrap()
}

#[test]
fn it_learns_survives_a_kill_and_is_read_by_python() {
    let place = place(LEARN);
    let said = place.trained("whole");
    assert!(said.contains("400 steps"), "{said}");
    let (before, after) = (right(&open(&place.path("whole/start"))), right(&open(&place.path("whole/final"))));
    assert!(before < 0.6 && after > 0.95, "{before} {after}");
    let metrics = fs_err::read_to_string(place.path("whole/metrics.jsonl")).unwrap();
    let steps: Vec<Value> = metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |line: &Value, name: &str| line[name].as_f64().unwrap_or_else(|| panic!("no {name} in {line}"));
    let (first, last) = (steps.first().unwrap(), steps.last().unwrap());
    assert!(of(last, "loss") < 0.3 * of(first, "loss") && of(last, "p-at-1") > of(first, "p-at-1"), "{first} {last}");

    let mut child = place.train("killed").spawn().unwrap();
    let begun = Instant::now();
    while !place.path("killed/checkpoints/step-00000040").exists() {
        assert!(begun.elapsed() < Duration::from_mins(1) && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!place.path("killed/final").exists(), "killed too late");
    place.trained("killed");
    let (whole, resumed) = (weights(&place.path("whole/final")), weights(&place.path("killed/final")));
    assert!(!whole.is_empty() && whole == resumed, "other weights");

    // A trained one is trained on as it is.
    settings(&place, &format!("{LEARN}[schedule]\nkind = \"constant\"\n"));
    let text = fs_err::read_to_string(place.path("settings.toml")).unwrap();
    let from = text.replace(&tiny("classic-mean").display().to_string(), "whole/final").replace("400", "2");
    fs_err::write(place.path("settings.toml"), from).unwrap();
    place.trained("more");
    assert!(!place.path("more/start").exists());
    assert_ne!(weights(&place.path("more/final")), whole);

    let Some(python) = path_of("DYAD_PYTHON", "it_learns_survives_a_kill_and_is_read_by_python") else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/peers/st_load.py");
    let folders = ["whole/final", "whole/start"].map(|name| place.path(name));
    let output = Command::new(python).arg(script).args(folders).env("HF_HUB_OFFLINE", "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.matches("largest_difference").count(), 2, "{text}");
}

#[test]
fn every_family_becomes_one() {
    let Some(all) = path_of("DYAD_ST_CHECKPOINTS", "every_family_becomes_one") else { return };
    let folder = tempfile::tempdir().unwrap();
    let made = ["bert", "distilbert", "roberta", "mpnet"].map(|name| {
        let to = folder.path().join(name);
        create_cross_encoder(&all.join(name), &to, 5).unwrap();
        let again = folder.path().join(format!("{name}-again"));
        create_cross_encoder(&all.join(name), &again, 5).unwrap();
        assert_eq!(weights(&to), weights(&again), "{name}");
        assert!(
            read_json(&to.join("config.json"))["architectures"][0]
                .as_str()
                .unwrap()
                .ends_with("ForSequenceClassification")
        );
        to
    });
    let message = create_cross_encoder(&all.join("t5-relu"), &folder.path().join("t5"), 5).unwrap_err().to_string();
    assert!(message.contains("an encoder of BERT's family"), "{message}");
    let Some(python) = path_of("DYAD_PYTHON", "every_family_becomes_one") else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/peers/st_load.py");
    let output = Command::new(python).arg(script).args(&made).env("HF_HUB_OFFLINE", "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().count(), 4, "{text}");
}

/// Pairs of tokenized texts are those of the texts, and a batch of parts has the gradients of the whole.
#[test]
fn pairs_and_parts_are_those_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("cross");
    create_cross_encoder(&tiny("roberta-cls"), &directory, 2).unwrap();
    let model = open(&directory);
    let tokenizer = model.tokenizer();
    for (question, answer) in
        [("who was the king", "the queen"), ("a", "the river of the city"), ("what is light", "b")]
    {
        let whole = tokenizer.encode_pair(question, answer).unwrap();
        let [first, second] =
            [question, answer].map(|text| tokenizer.encode(dyad_encoder::Tower::Answer, text).unwrap());
        assert_eq!(tokenizer.pair_of(&first, &second).unwrap(), whole, "{question} {answer}");
    }
    let stepped = |chunk: usize| {
        let place = place(&format!("[batch]\nsize = 16\nnegatives = 3\nchunk = {chunk}\n[training]\nsteps = 1\n"));
        place.trained("run");
        let metrics = fs_err::read_to_string(place.path("run/metrics.jsonl")).unwrap();
        let line: Value = serde_json::from_str(metrics.lines().next().unwrap()).unwrap();
        (line["loss"].as_f64().unwrap(), line["norm"].as_f64().unwrap())
    };
    let (whole, parts) = (stepped(0), stepped(10));
    assert!((whole.0 - parts.0).abs() < 1e-5 && (whole.1 - parts.1).abs() < 1e-4 * whole.1, "{whole:?} {parts:?}");
}

#[test]
fn what_only_towers_have_is_refused_with_the_setting() {
    let refused = |more: &str| {
        let settings = format!("[model]\npath = \"m\"\ntype = \"cross-encoder\"\n{more}");
        Config::parse(&settings).unwrap_err()
    };
    for (more, part) in [
        ("", "`stages.train.batch.negatives` must be at least 1 with type"),
        ("sharing = \"sde\"\n[batch]\nnegatives = 1", "`model.sharing` must be absent"),
        ("[batch]\nnegatives = 1\n[evaluation]\ndata = \"beir\"", "`evaluation.data` must be absent"),
        ("[batch]\nnegatives = 1\n[mine]\n", "`stages.train.mine` must be absent"),
        (
            "[batch]\nnegatives = 1\n[loss.distillation]\nkind = \"kl\"\nweight = 1.0\ntemperature = 1.0",
            "loss.distillation",
        ),
        ("[batch]\nnegatives = 1\n[loss]\nlearned-temperature = true", "`stages.train.loss.learned-temperature`"),
    ] {
        let message = refused(more);
        assert!(message.contains(part), "{message}");
    }
    let place = place("[batch]\nsize = 16\nnegatives = 3\n");
    let text = fs_err::read_to_string(place.path("settings.toml")).unwrap();
    fs_err::write(place.path("settings.toml"), text.replace("negatives.jsonl", "pairs.jsonl")).unwrap();
    let message = place.refusal("none");
    assert!(message.contains("0 of 64 examples have negatives"), "{message}");
}
