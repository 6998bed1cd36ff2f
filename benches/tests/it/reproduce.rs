//! `dyad-bench reproduce` as a command: every table of `benches/reproduce` with a tiny model, two steps and synthetic
//! data.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::tempdir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Enough for a few in each part of a table.
const PAIRS: usize = 100;
const WORDS: [&str; 9] = [
    "the", "river", "city", "and", "mountain", "of", "king", "queen", "water",
];

fn sentence(at: usize, length: usize) -> String {
    let words: Vec<&str> = (0..length)
        .map(|word| WORDS[(at * 7 + word * (at % 5 + 1)) % WORDS.len()])
        .collect();
    format!("{} {at}", words.join(" "))
}

fn write(path: &Path, lines: impl Iterator<Item = Value>) {
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, lines.map(|line| line.to_string()).collect::<Vec<_>>().join("\n")).unwrap();
}

/// The folders that the tables name, with a few lines each.
fn data(root: &Path) {
    for name in ["squad-train", "medquad"] {
        let pair = |at: usize| json!({ "question": sentence(at, 3), "answer": sentence(at, 6) });
        write(&root.join(name).join("pairs.jsonl.gz"), (0..PAIRS).map(pair));
    }
    // Every answer is the begin of a paragraph of its own.
    let paragraph = |at: usize| json!({ "_id": format!("p{at}"), "text": format!("{}. the queen", sentence(at, 6)) });
    let end = |at: usize| sentence(at, 6).len();
    let squad = root.join("squad-train");
    write(&squad.join("paragraphs.jsonl.gz"), (0..PAIRS).map(paragraph));
    write(
        &squad.join("pairs-context.jsonl.gz"),
        (0..PAIRS).map(|at| {
            let (question, answer) = (sentence(at, 3), sentence(at, 6));
            json!({ "question": question, "answer": answer, "paragraph": format!("p{at}"), "start": 0, "end": end(at) })
        }),
    );
    for name in ["reqa-squad", "reqa-squad-context", "nq-oracle", "scifact"] {
        let folder = root.join(name);
        write(&folder.join("paragraphs.jsonl.gz"), (0..20).map(paragraph));
        write(
            &folder.join("corpus.jsonl.gz"),
            (0..20).map(|at| {
                let place = json!({ "document": format!("p{at}"), "start": 0, "end": end(at) });
                json!({ "_id": at.to_string(), "text": sentence(at, 6), "metadata": place })
            }),
        );
        write(
            &folder.join("queries.jsonl"),
            (0..20).map(|at| json!({ "_id": format!("q{at}"), "text": sentence(at, 3) })),
        );
        let judged = (0..20)
            .map(|at| format!("q{at}\t{at}\t1"))
            .collect::<Vec<_>>()
            .join("\n");
        fs_err::create_dir_all(folder.join("qrels")).unwrap();
        for split in ["train", "dev", "test"] {
            let path = folder.join(format!("qrels/{split}.tsv"));
            fs_err::write(path, format!("query-id\tcorpus-id\tscore\n{judged}\n")).unwrap();
        }
    }
}

fn bench(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-bench"));
    command.arg("reproduce").args(arguments);
    let tables = format!("{ROOT}/benches/reproduce");
    let model = format!("{ROOT}/encoder/tests/golden/tiny/classic-mean");
    command.args(["--tables", &tables, "--data", "data", "--model", &model]);
    command.args(["--set", "batch.size=4", "--set", "threads=1", "--set", "model.hidden=6"]);
    if arguments.first() == Some(&"stages") {
        command.args(["--set", "mine.rank-end=50", "--set", "batch.negatives=1"]);
    }
    if arguments
        .first()
        .is_some_and(|table| ["best", "rerank", "rerank-dev"].contains(table))
    {
        command.args(["--set", "batch.negatives=1"]);
    }
    command.current_dir(directory).env("NO_COLOR", "1").output().unwrap()
}

fn rows(path: &Path) -> Vec<Vec<String>> {
    let text = fs_err::read_to_string(path).unwrap();
    text.lines()
        .map(|line| line.split(',').map(str::to_owned).collect())
        .collect()
}

/// A table that has got another evaluation since: only that is made.
fn another_evaluation_trains_nothing(directory: &Path) {
    let out = directory.join("context");
    let values = out.join("in-context-seed0/reqa-squad-late.json");
    let made = (
        fs_err::read(&values).unwrap(),
        fs_err::read(out.join("in-context-seed0/run/final/model.safetensors")).ok(),
    );
    let before = rows(&out.join("rows.csv"));
    fs_err::remove_file(&values).unwrap();
    let output = bench(directory, &["context", "--out", "context", "--steps", "2"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !said.contains("training"), "{said}");
    assert!(
        said.contains("in-context, seed 0: evaluating on reqa-squad-late"),
        "{said}"
    );
    let again = (
        fs_err::read(&values).unwrap(),
        fs_err::read(out.join("in-context-seed0/run/final/model.safetensors")).ok(),
    );
    assert!(again == made);
    let after = rows(&out.join("rows.csv"));
    let at = |name: &str| before[0].iter().position(|field| field == name).unwrap();
    for column in ["variant", "evaluation", "recip_rank", "steps", "train_s"] {
        let of = |rows: &[Vec<String>]| rows.iter().map(|row| row[at(column)].clone()).collect::<Vec<_>>();
        assert_eq!(of(&before), of(&after), "{column}");
    }
    // Of other settings its values are not those of the table.
    let trial = out.join("in-context-seed0/trial.json");
    let text = fs_err::read_to_string(&trial).unwrap();
    let [now, then] = ["0.5", "0.7"].map(|weight| format!("title+late:{weight}\",\n      \"documents\": \"$DATA"));
    fs_err::write(&trial, text.replace(&now, &then)).unwrap();
    assert_ne!(fs_err::read_to_string(&trial).unwrap(), text);
    let output = bench(directory, &["context", "--out", "context", "--steps", "2"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("evaluation `reqa-squad-late` was made under other settings"),
        "{said}"
    );
}

#[test]
fn every_table_runs_and_fills_its_rows() {
    let dir = tempdir().unwrap();
    data(&dir.path().join("data"));
    for (table, variants, evaluations) in [
        ("sharing", 6, 1),
        ("endx", 9, 2),
        ("sharing-epochs", 5, 1),
        ("sharing-small-batches", 5, 1),
        ("endx-tempered", 9, 1),
        ("endx-causes", 14, 1),
        ("best", 6, 5),
        ("context", 4, 5),
        ("rerank", 6, 2),
        ("rerank-dev", 28, 1),
        ("stages", 4, 2),
        ("bottleneck", 6, 2),
    ] {
        let output = bench(
            dir.path(),
            &[table, "--out", table, "--steps", "2", "--record", "records"],
        );
        assert!(output.status.success(), "{table}: {output:?}");
        let rows = rows(&dir.path().join(table).join("rows.csv"));
        assert_eq!(rows.len(), 1 + variants * evaluations, "{table}");
        let settings = fs_err::read_to_string(format!("{ROOT}/benches/reproduce/{table}.toml")).unwrap();
        let settings: toml::Table = settings.parse().unwrap();
        let at = |name: &str| rows[0].iter().position(|field| field == name).unwrap();
        for row in &rows[1..] {
            let mrr: f64 = row[at("recip_rank")].parse().unwrap();
            let questions: usize = row[at("questions")].parse().unwrap();
            let held_out = table == "rerank-dev" && (3..30).contains(&questions);
            assert!(mrr > 0.0 && mrr <= 1.0 && (questions == 20 || held_out), "{row:?}");
            let variant = row[at("variant")].as_str();
            let variants = settings["variant"].as_array().unwrap();
            let of = variants.iter().find(|it| it["name"].as_str() == Some(variant)).unwrap();
            let stages = of
                .get("train")
                .and_then(|train| train.get("stages"))
                .and_then(|stages| stages.as_array());
            let stages = stages.map_or(1, Vec::len);
            let untrained = variant == "zero-shot" || variant.starts_with("reranked");
            assert_eq!(
                row[at("steps")],
                if untrained {
                    "0".to_owned()
                } else {
                    (2 * stages).to_string()
                },
                "{row:?}"
            );
            let is_baseline = row[at("baseline")].is_empty();
            assert_eq!(row[at("p_mrr")].is_empty(), is_baseline, "{row:?}");
            assert_eq!(
                row[at("separable")].is_empty(),
                !table.starts_with("sharing"),
                "{row:?}"
            );
            // What decides the row, and no folder of this machine.
            let command =
                format!("dyad-bench reproduce {table} --out OUT --steps 2 --set batch.size=4 --set threads=1");
            assert!(row[at("command")].starts_with(&command), "{row:?}");
            assert!(
                row[at("command")].ends_with(" --model classic-mean") && !row[at("command")].contains('/'),
                "{row:?}"
            );
        }
        let markdown = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            markdown,
            fs_err::read_to_string(dir.path().join(table).join("table.md")).unwrap()
        );
        let lines = markdown
            .lines()
            .filter(|line| line.starts_with("| ") && !line.starts_with("| model"))
            .count();
        assert_eq!(lines, variants * evaluations, "{markdown}");
    }
    assert_eq!(fs_err::read_dir(dir.path().join("records")).unwrap().count(), 24);
    another_evaluation_trains_nothing(dir.path());
    // The cross encoder has no rows, and what it and its student have learned from is kept.
    let rerank = dir.path().join("rerank");
    let lines = |name: &str| {
        fs_err::read_to_string(rerank.join("examples-seed0").join(name))
            .unwrap()
            .lines()
            .count()
    };
    assert_eq!((lines("mined.jsonl"), lines("scored.jsonl")), (PAIRS, PAIRS));
    let scored = fs_err::read_to_string(rerank.join("examples-seed0/scored.jsonl")).unwrap();
    let first: Value = serde_json::from_str(scored.lines().next().unwrap()).unwrap();
    assert!(first["positive_passages"][0]["score"].is_f64(), "{first}");
    let picture = dir.path().join("sharing/ade-spl-seed0/tsne.svg");
    assert!(fs_err::read_to_string(picture).unwrap().contains("<svg"));
}

#[test]
fn what_is_finished_is_kept_and_seeds_are_averaged() {
    let dir = tempdir().unwrap();
    data(&dir.path().join("data"));
    let run = |more: &[&str]| {
        let output = bench(
            dir.path(),
            &[&["bottleneck", "--out", "out", "--steps", "1"], more].concat(),
        );
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let alone = run(&["--only", "d64"]);
    assert!(alone.contains("| d64 |") && !alone.contains("| d768 |"), "{alone}");
    let trial = dir.path().join("out/d64-seed0/trial.json");
    let before = (
        fs_err::read(&trial).unwrap(),
        fs_err::metadata(&trial).unwrap().modified().unwrap(),
    );
    let both = run(&["--only", "d768,d64", "--seeds", "2"]);
    assert_eq!(
        (
            fs_err::read(&trial).unwrap(),
            fs_err::metadata(&trial).unwrap().modified().unwrap()
        ),
        before
    );
    assert!(both.contains("| range |") && both.contains("| d768 |"), "{both}");
    let output = bench(
        dir.path(),
        &["bottleneck", "--out", "out", "--steps", "2", "--only", "d64"],
    );
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && message.contains("under other settings"),
        "{message}"
    );
}

#[test]
fn mistakes_are_told_before_anything_is_trained() {
    let dir = tempdir().unwrap();
    data(&dir.path().join("data"));
    for (arguments, expected) in [
        (
            &["sharing", "--out", "out", "--only", "sdee"][..],
            "expected variants of the table (zero-shot, sde, ade",
        ),
        (&["sharing", "--out", "out", "--set", "batch.sise=3"], "`batch.sise`"),
        (&["none", "--out", "out"], "none.toml"),
    ] {
        let output = bench(dir.path(), arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(1) && message.contains(expected),
            "{expected}: {message}"
        );
    }
    fs_err::remove_dir_all(dir.path().join("data/scifact")).unwrap();
    let output = bench(dir.path(), &["stages", "--out", "out"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("evaluation `scifact`: no such folder"), "{message}");
    assert!(!dir.path().join("out/zero-shot-seed0").exists());
}
