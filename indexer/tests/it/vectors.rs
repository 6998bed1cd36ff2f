//! Vectors that come from elsewhere: arrays and Parquet files, their keys, and how they are compared.

use std::path::Path;

use dyad_index::format::RowType;
use dyad_index::snapshot::{DenseParams, SearchMode};
use dyad_index::{Metric, Never};

use crate::command_line::{dyad_indexer, text};
use crate::fixture::{DIM, Fixture, row_of};

#[test]
fn vectors_that_come_from_elsewhere_make_an_index_of_their_own() {
    let fixture = Fixture::empty();
    let rows: Vec<f32> = (0..40u8).flat_map(|row| [1.0, f32::from(row), 2.0, 0.5]).collect();
    dyad_files::npy::write(&fixture.path("v.npy"), &[40, 4], &rows).unwrap();
    let run = |command: &str, more: &[&str]| {
        let vectors = fixture.path("v.npy");
        let mut program = dyad_indexer();
        program
            .args([command, "--threads", "1", "--index"])
            .arg(fixture.index())
            .arg("--vectors")
            .arg(vectors);
        program.args(more).output().unwrap()
    };
    let refused = run("build", &[]);
    assert!(
        text(&refused.stderr).contains("needs `--model-name`"),
        "{}",
        text(&refused.stderr)
    );
    let built = run("build", &["--model-name", "elsewhere"]);
    assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
    let snapshot = dyad_index::Snapshot::open(&fixture.index()).unwrap();
    let model = &snapshot.manifest().model;
    assert_eq!(
        (model.name.as_str(), model.fingerprint.as_str(), model.dim),
        ("elsewhere", "declared:elsewhere", 4)
    );
    assert_eq!((snapshot.len(), snapshot.find("39").unwrap().is_some()), (40, true));
    assert_eq!(snapshot.shards()[0].dense.header().row_type, RowType::F16);
    drop(snapshot);
    // The same keys again are refused, others are appended; another model is not.
    let again = run("append", &[]);
    assert!(
        text(&again.stderr).contains("40 documents are in the index already"),
        "{}",
        text(&again.stderr)
    );
    let keys: Vec<String> = (20..60).map(|key| key.to_string()).collect();
    fs_err::write(fixture.path("keys"), keys.join("\n")).unwrap();
    let keys = fixture.path("keys");
    let keys = ["--keys", keys.to_str().unwrap()];
    let upserted = run("upsert", &keys);
    assert!(
        text(&upserted.stdout).contains("40 -> 60 documents"),
        "{}",
        text(&upserted.stderr)
    );
    let other = run("upsert", &["--model-name", "another"]);
    assert!(
        text(&other.stderr).contains("declared:another"),
        "{}",
        text(&other.stderr)
    );
    let verified = dyad_indexer()
        .arg("verify")
        .arg("--index")
        .arg(fixture.index())
        .output()
        .unwrap();
    assert_eq!(verified.status.code(), Some(0), "{}", text(&verified.stdout));
    fs_err::write(fixture.path("keys"), "a\nb\na\n").unwrap();
    let twice = run("upsert", &keys);
    assert!(
        text(&twice.stderr).contains("keys:3: key `a` was already used on line 1"),
        "{}",
        text(&twice.stderr)
    );
}

/// `vectors.parquet` holds ten keys `k0` to `k9`, and two values for each.
#[test]
fn a_parquet_file_brings_its_keys() {
    let fixture = Fixture::empty();
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/vectors.parquet");
    let run = |command: &str, more: &[&str]| {
        let mut program = dyad_indexer();
        program
            .args([command, "--threads", "1", "--index"])
            .arg(fixture.index())
            .arg("--vectors")
            .arg(&vectors);
        program.args(more).output().unwrap()
    };
    let built = run("build", &["--model-name", "elsewhere"]);
    assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
    let snapshot = dyad_index::Snapshot::open(&fixture.index()).unwrap();
    assert_eq!((snapshot.len(), snapshot.find("k9").unwrap().is_some()), (10, true));
    drop(snapshot);
    let again = run("append", &[]);
    assert!(text(&again.stderr).contains("`k0`, `k1`"), "{}", text(&again.stderr));
    fs_err::write(
        fixture.path("keys"),
        (0..10).map(|key| format!("own-{key}")).collect::<Vec<_>>().join("\n"),
    )
    .unwrap();
    let own = run("append", &["--keys", fixture.path("keys").to_str().unwrap()]);
    assert!(
        text(&own.stdout).contains("10 -> 20 documents"),
        "{}",
        text(&own.stderr)
    );
    let corpus = |last: &str| {
        let lines: Vec<String> = (0..9)
            .map(|number| format!(r#"{{"_id": "k{number}", "text": "text"}}"#))
            .collect();
        let path = fixture.path("corpus.jsonl");
        fs_err::write(
            &path,
            format!("{}\n{{\"_id\": \"{last}\", \"text\": \"text\"}}\n", lines.join("\n")),
        )
        .unwrap();
        path
    };
    let other = run("upsert", &["--corpus", corpus("k10").to_str().unwrap()]);
    assert!(
        text(&other.stderr).contains("row 10: expected key `k10`, of line 10, got `k9`"),
        "{}",
        text(&other.stderr)
    );
    let upserted = run("upsert", &["--corpus", corpus("k9").to_str().unwrap()]);
    assert!(
        text(&upserted.stdout).contains("20 -> 20 documents"),
        "{}",
        text(&upserted.stderr)
    );
}

/// Rows of lengths 1 to 3, and their keys.
fn of_any_length(rows: std::ops::Range<usize>) -> Vec<f32> {
    let row = |number: usize| {
        let length = 1.0 + (number % 5) as f32 / 2.0;
        row_of(&format!("row {number}"))
            .into_iter()
            .map(move |value| value * length)
    };
    rows.flat_map(row).collect()
}

/// The numbers of the ten best rows by a metric, by a full scan; keys are the rows' numbers.
fn best(rows: &[f32], question: &[f32], metric: Metric) -> Vec<String> {
    let mut scored: Vec<(f64, usize)> = rows
        .chunks(DIM)
        .map(|row| {
            let pairs = || row.iter().zip(question).map(|(x, q)| (f64::from(*x), f64::from(*q)));
            match metric {
                Metric::L2 => -pairs().map(|(x, q)| (x - q).powi(2)).sum::<f64>() / 2.0,
                _ => pairs().map(|(x, q)| x * q).sum(),
            }
        })
        .zip(0..)
        .collect();
    scored.sort_by(|one, other| other.0.total_cmp(&one.0));
    scored
        .into_iter()
        .take(10)
        .map(|(_, number)| number.to_string())
        .collect()
}

/// Questions of any length find the rows that are nearest by the metric.
fn assert_nearest(fixture: &Fixture, rows: &[f32], metric: Metric, what: &str) {
    let snapshot = dyad_index::Snapshot::open(&fixture.index()).unwrap();
    assert_eq!((snapshot.manifest().model.metric, snapshot.len()), (metric, 650));
    assert_eq!(snapshot.shards()[0].dense.header().row_type, RowType::F32);
    for number in 0..40 {
        let question = row_of(&format!("question {number}"));
        let question: Vec<f32> = question.iter().map(|value| value * 3.0).collect();
        let params = DenseParams {
            k: 10,
            mode: SearchMode::Beam { ef: 600 },
        };
        let hits = snapshot
            .search_dense(&[&question[..]], &params, None, &Never)
            .unwrap()
            .remove(0)
            .hits;
        let keys: Vec<&str> = hits
            .iter()
            .map(|hit| snapshot.key(hit.shard, hit.node).unwrap())
            .collect();
        assert_eq!(keys, best(rows, &question, metric), "{what}, question {number}");
    }
}

#[test]
fn vectors_are_compared_as_they_were_said_to_be() {
    for (name, metric) in [("dot", Metric::Dot), ("l2", Metric::L2)] {
        let fixture = Fixture::empty();
        let write = |rows: &[f32]| {
            let path = fixture.path("v.npy");
            dyad_files::npy::write(&path, &[rows.len() / DIM, DIM], rows).unwrap();
            path
        };
        let run = |command: &str, more: &[&str]| {
            let mut program = dyad_indexer();
            program
                .args([command, "--threads", "1", "--index"])
                .arg(fixture.index());
            program.args(more).output().unwrap()
        };
        let with = |command: &str, vectors: &Path, more: &[&str]| {
            run(command, &[&["--vectors", vectors.to_str().unwrap()], more].concat())
        };
        let mut rows = of_any_length(0..600);
        // The full scan is of float32.
        let vector_type: &[&str] = if metric == Metric::L2 {
            &[]
        } else {
            &["--vector-type", "f32"]
        };
        let questions = fixture.path("q.npy");
        dyad_files::npy::write(&questions, &[20, DIM], &of_any_length(1_000..1_020)).unwrap();
        let declared = [
            "--model-name",
            "m",
            "--metric",
            name,
            "--queries",
            questions.to_str().unwrap(),
        ];
        let declared = [&declared, vector_type].concat();
        let built = with("build", &write(&rows), &declared);
        assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
        // Longer than any row of the graph that is there: 50 rows, twice the length.
        let longer: Vec<f32> = of_any_length(600..650).iter().map(|value| value * 2.0).collect();
        rows.extend(&longer);
        let keys: Vec<String> = (600..650).map(|key| key.to_string()).collect();
        fs_err::write(fixture.path("keys"), keys.join("\n")).unwrap();
        let appended = with(
            "append",
            &write(&longer),
            &["--keys", fixture.path("keys").to_str().unwrap()],
        );
        assert_eq!(appended.status.code(), Some(0), "{}", text(&appended.stderr));
        let found = |what: &str| assert_nearest(&fixture, &rows, metric, &format!("{name}, {what}"));
        found("two shards");
        let merged = run("merge", &["--all"]);
        assert_eq!(merged.status.code(), Some(0), "{}", text(&merged.stderr));
        found("merged");
        let verified = dyad_indexer()
            .arg("verify")
            .arg("--index")
            .arg(fixture.index())
            .output()
            .unwrap();
        assert_eq!(verified.status.code(), Some(0), "{}", text(&verified.stdout));
        // By another metric these are other vectors.
        let other = with("upsert", &write(&longer), &["--model-name", "m", "--metric", "cosine"]);
        let named = format!(
            "{DIM} values, {name}), and these vectors are of `m` (fingerprint declared:m, {DIM} values, cosine)"
        );
        assert!(text(&other.stderr).contains(&named), "{}", text(&other.stderr));
        let long: Vec<f32> = rows.iter().map(|value| value * 1e5).collect();
        let half = ["--model-name", "m", "--metric", name, "--vector-type", "f16"];
        let refused = with("build", &write(&long), &half);
        assert!(
            text(&refused.stderr).contains("expected less than 65504"),
            "{}",
            text(&refused.stderr)
        );
        let whole = ["--model-name", "m", "--metric", name, "--vector-type", "f32"];
        let built = with("build", &write(&long), &whole);
        assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
    }
}
