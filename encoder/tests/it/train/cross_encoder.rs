//! A cross encoder: learned, killed, read by Python, refused.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use dyad_corpus::run::{self, TrecRun};
use dyad_encoder::model::create_cross_encoder;
use dyad_encoder::tokenize::{Budget, Tokens};
use dyad_encoder::train::Config;
use dyad_encoder::{Compute, CrossEncoder};
use dyad_files::Never;
use serde_json::{Value, json};

use super::fixture::{PAIRS, Place, beir, pair, weights};
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
    let logits = model.logits_until(&pairs, Budget::CPU, &Never).unwrap().unwrap();
    let best = logits
        .chunks_exact(4)
        .filter(|own| own[1..].iter().all(|other| own[0] > *other))
        .count();
    best as f64 / PAIRS as f64
}

fn open(folder: &Path) -> CrossEncoder {
    CrossEncoder::open(
        folder,
        &Compute {
            threads: Some(1),
            ..Compute::default()
        },
    )
    .unwrap()
}

#[test]
fn it_learns_survives_a_kill_and_is_read_by_python() {
    let place = place(LEARN);
    let said = place.trained("whole");
    assert!(said.contains("400 steps"), "{said}");
    let (before, after) = (
        right(&open(&place.path("whole/start"))),
        right(&open(&place.path("whole/final"))),
    );
    assert!(before < 0.6 && after > 0.95, "{before} {after}");
    let metrics = fs_err::read_to_string(place.path("whole/metrics.jsonl")).unwrap();
    let steps: Vec<Value> = metrics
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |line: &Value, name: &str| line[name].as_f64().unwrap_or_else(|| panic!("no {name} in {line}"));
    let (first, last) = (steps.first().unwrap(), steps.last().unwrap());
    assert!(
        of(last, "loss") < 0.3 * of(first, "loss") && of(last, "p-at-1") > of(first, "p-at-1"),
        "{first} {last}"
    );

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
    let (whole, resumed) = (
        weights(&place.path("whole/final")),
        weights(&place.path("killed/final")),
    );
    assert!(!whole.is_empty() && whole == resumed, "other weights");

    // A trained one is trained on as it is.
    settings(&place, &format!("{LEARN}[schedule]\nkind = \"constant\"\n"));
    let text = fs_err::read_to_string(place.path("settings.toml")).unwrap();
    let from = text
        .replace(&tiny("classic-mean").display().to_string(), "whole/final")
        .replace("400", "2");
    fs_err::write(place.path("settings.toml"), from).unwrap();
    place.trained("more");
    assert!(!place.path("more/start").exists());
    assert_ne!(weights(&place.path("more/final")), whole);

    let Some(python) = path_of("DYAD_PYTHON", "it_learns_survives_a_kill_and_is_read_by_python") else {
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/peers/st_load.py");
    let folders = ["whole/final", "whole/start"].map(|name| place.path(name));
    let output = Command::new(python)
        .arg(script)
        .args(folders)
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(text.matches("largest_difference").count(), 2, "{text}");
}

#[test]
fn every_family_becomes_one() {
    let Some(all) = path_of("DYAD_ST_CHECKPOINTS", "every_family_becomes_one") else {
        return;
    };
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
    let message = create_cross_encoder(&all.join("t5-relu"), &folder.path().join("t5"), 5)
        .unwrap_err()
        .to_string();
    assert!(message.contains("an encoder of BERT's family"), "{message}");
    let Some(python) = path_of("DYAD_PYTHON", "every_family_becomes_one") else {
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/peers/st_load.py");
    let output = Command::new(python)
        .arg(script)
        .args(&made)
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
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
    for (question, answer) in [
        ("who was the king", "the queen"),
        ("a", "the river of the city"),
        ("what is light", "b"),
    ] {
        let whole = tokenizer.encode_pair(question, answer).unwrap();
        let [first, second] =
            [question, answer].map(|text| tokenizer.encode(dyad_encoder::Tower::Answer, text).unwrap());
        assert_eq!(
            tokenizer.pair_of(&first, &second).unwrap(),
            whole,
            "{question} {answer}"
        );
    }
    let stepped = |chunk: usize| {
        let place = place(&format!(
            "[batch]\nsize = 16\nnegatives = 3\nchunk = {chunk}\n[training]\nsteps = 1\n"
        ));
        place.trained("run");
        let metrics = fs_err::read_to_string(place.path("run/metrics.jsonl")).unwrap();
        let line: Value = serde_json::from_str(metrics.lines().next().unwrap()).unwrap();
        (line["loss"].as_f64().unwrap(), line["norm"].as_f64().unwrap())
    };
    let (whole, parts) = (stepped(0), stepped(10));
    assert!(
        (whole.0 - parts.0).abs() < 1e-5 && (whole.1 - parts.1).abs() < 1e-4 * whole.1,
        "{whole:?} {parts:?}"
    );
}

#[test]
fn what_only_towers_have_is_refused_with_the_setting() {
    let refused = |more: &str| {
        let settings = format!("[model]\npath = \"m\"\ntype = \"cross-encoder\"\n{more}");
        Config::parse(&settings).unwrap_err()
    };
    for (more, part) in [
        ("", "`stages.train.batch.negatives` must be at least 1 with type"),
        (
            "sharing = \"sde\"\n[batch]\nnegatives = 1",
            "`model.sharing` must be absent",
        ),
        (
            "[batch]\nnegatives = 1\n[evaluation]\ndata = \"beir\"",
            "`evaluation.run` must be given with evaluation.data",
        ),
        ("[batch]\nnegatives = 1\n[mine]\n", "`stages.train.mine` must be absent"),
        (
            "[batch]\nnegatives = 1\n[loss.distillation]\nkind = \"kl\"\nweight = 1.0\ntemperature = 1.0",
            "loss.distillation",
        ),
        (
            "[batch]\nnegatives = 1\n[loss]\nlearned-temperature = true",
            "`stages.train.loss.learned-temperature`",
        ),
    ] {
        let message = refused(more);
        assert!(message.contains(part), "{message}");
    }
    let place = place("[batch]\nsize = 16\nnegatives = 3\n");
    let text = fs_err::read_to_string(place.path("settings.toml")).unwrap();
    fs_err::write(
        place.path("settings.toml"),
        text.replace("negatives.jsonl", "pairs.jsonl"),
    )
    .unwrap();
    let message = place.refusal("none");
    assert!(message.contains("0 of 64 examples have negatives"), "{message}");
}

/// The logit of each answer for a question, one pair at a time.
fn logits(model: &CrossEncoder, question: usize, answers: &[usize]) -> Vec<f32> {
    let tokenizer = model.tokenizer();
    let one = |answer: &usize| {
        let pair = tokenizer.encode_pair(&pair(question).0, &pair(*answer).1).unwrap();
        model.logits(&[&pair]).unwrap()[0]
    };
    answers.iter().map(one).collect()
}

#[test]
fn evaluation_reranks_the_hits_of_another_model() {
    let evaluation = "[evaluation]\ndata = \"beir\"\nrun = \"hits.run\"\ndepth = 3\nevery = 40\n";
    let place = place(&format!("{}{evaluation}", LEARN.replace("steps = 400", "steps = 120")));
    beir(&place.path("beir"));
    // The answer is second; what is fourth stays there.
    let hits = |number: usize| [others(number)[0], number, others(number)[1], others(number)[2]];
    let of = |number: usize| {
        hits(number)
            .iter()
            .zip([4.0, 3.0, 2.0, 1.0])
            .map(|(at, score)| (format!("a{at}"), score))
            .collect()
    };
    let run: TrecRun = (0..PAIRS).map(|number| (format!("q{number}"), of(number))).collect();
    run::write(&place.path("hits.run"), &run, "made-up").unwrap();
    let said = place.trained("out");
    let text = fs_err::read_to_string(place.path("out/metrics.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |what: &str| -> Vec<f64> {
        lines
            .iter()
            .filter(|line| line["what"] == what)
            .map(|line| line["recip_rank"].as_f64().unwrap())
            .collect()
    };
    let (before, measured) = (of("before"), of("evaluation"));
    assert_eq!((before.len(), measured.len()), (1, 3));
    let expected = |model: &str| {
        let model = open(&place.path(model));
        let rank = |number: usize| {
            let [first, own, third] = logits(&model, number, &hits(number)[..3]).try_into().unwrap();
            1 + usize::from(first >= own) + usize::from(third > own)
        };
        (0..PAIRS).map(|number| 1.0 / rank(number) as f64).sum::<f64>() / PAIRS as f64
    };
    let best = measured.iter().copied().fold(0.0, f64::max);
    assert!(
        (expected("out/start") - before[0]).abs() < 1e-6 && (expected("out/best") - best).abs() < 1e-6,
        "{said}"
    );
    assert!(best > before[0] + 0.1, "{before:?} {measured:?}");

    // The same by the command, over the hits of a dual encoder.
    let evaluate = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
        let model = tiny("classic-mean").display().to_string();
        command.args([
            "evaluate",
            "--model",
            &model,
            "--data",
            "beir",
            "--split",
            "dev",
            "--threads",
            "1",
        ]);
        let output = command.args(more).current_dir(place.path("")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    evaluate(&["--run", "dense.run"]);
    let table = evaluate(&["--reranker", "out/best", "--rerank", "10", "--run", "reranked.run"]);
    assert!(
        table.contains("its best 10 in the order of out/best") && table.contains("95 % interval"),
        "{table}"
    );
    let [dense, reranked] = ["dense.run", "reranked.run"].map(|file| run::read(&place.path(file)).unwrap());
    let best = open(&place.path("out/best"));
    for number in 0..PAIRS {
        let keys = |run: &TrecRun| {
            run[&format!("q{number}")]
                .iter()
                .map(|(key, _)| key[1..].parse().unwrap())
                .collect::<Vec<usize>>()
        };
        let (before, after) = (keys(&dense), keys(&reranked));
        let logits = logits(&best, number, &after[..10]);
        // Equal up to the rounding of batches.
        assert!(
            logits.windows(2).all(|two| two[0] > two[1] - 1e-4),
            "{number}: {logits:?}"
        );
        let sorted = |keys: &[usize]| keys.iter().copied().collect::<BTreeSet<usize>>();
        assert_eq!(
            (sorted(&before[..10]), &before[10..]),
            (sorted(&after[..10]), &after[10..]),
            "{number}"
        );
    }
    // Hits of other documents are refused.
    run::write(
        &place.path("hits.run"),
        &TrecRun::from([("q0".to_owned(), vec![("b7".to_owned(), 1.0)])]),
        "made-up",
    )
    .unwrap();
    let message = place.refusal("other");
    assert!(message.contains("document `b7`, which the folder lacks"), "{message}");
}
