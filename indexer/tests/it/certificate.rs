//! Questions and recall targets of `build`, and the certificates that `inspect` prints.

use dyad_corpus::embeddings::{EmbeddingsHeader, EmbeddingsModel, EmbeddingsWriter};

use crate::command_line::{build, dyad_indexer, text};
use crate::fixture::{DIM, Fixture, document, header, row_of};

fn inspect(fixture: &Fixture, more: &[&str]) -> String {
    let output = dyad_indexer()
        .arg("inspect")
        .arg("--index")
        .arg(fixture.index())
        .args(more)
        .output()
        .unwrap();
    text(&output.stdout)
}

/// Questions as NumPy saves them.
pub(crate) fn write_npy(fixture: &Fixture, name: &str, questions: usize, dim: usize) -> String {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({questions}, {dim}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    for question in 0..questions {
        bytes.extend(
            row_of(&format!("question {question}"))
                .iter()
                .cycle()
                .take(dim)
                .flat_map(|value| value.to_le_bytes()),
        );
    }
    let path = fixture.path(name);
    fs_err::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn write_questions(fixture: &Fixture, name: &str, tower: &str, fingerprint: &str) -> String {
    let EmbeddingsHeader {
        model,
        vectors,
        part_rows,
        dtype,
        two_towers,
        logit_scale,
        context,
        ..
    } = header();
    let model = EmbeddingsModel {
        fingerprint: fingerprint.to_owned(),
        ..model
    };
    let path = fixture.path(name);
    let header = EmbeddingsHeader {
        model,
        tower: tower.to_owned(),
        vectors,
        part_rows,
        dtype,
        two_towers,
        logit_scale,
        context,
    };
    let mut writer = EmbeddingsWriter::open(&path, header).unwrap();
    for number in 0..30 {
        let question = document(5_000 + number);
        writer.push(&question, &row_of(&question.passage()), false).unwrap();
    }
    writer.finish().unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn every_builder_and_type_of_vectors_is_recorded_and_shown() {
    for (builder, vectors) in [("native", "f16"), ("hnsw_rs", "f32"), ("hnsw_rs-int8", "f16")] {
        let fixture = Fixture::new(80);
        let built = build(
            &fixture,
            &["--builder", builder, "--vector-type", vectors, "--threads", "1"],
        );
        assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
        let shown = inspect(&fixture, &[]);
        assert!(shown.contains(&format!("build       {builder} m=16")), "{shown}");
        assert!(shown.contains(&format!("vectors     {vectors}")), "{shown}");
        assert!(shown.contains("  expansions  of half of the searches"), "{shown}");
        let json: serde_json::Value = serde_json::from_str(&inspect(&fixture, &["--json"])).unwrap();
        assert_eq!(
            (&json["shards"][0]["build"]["builder"], &json["shards"][0]["vectors"]),
            (&builder.into(), &vectors.into())
        );
        let verified = dyad_indexer()
            .arg("verify")
            .arg("--index")
            .arg(fixture.index())
            .output()
            .unwrap();
        assert_eq!(verified.status.code(), Some(0));
    }
}

#[test]
fn questions_come_from_numpy_or_from_the_question_tower() {
    let fixture = Fixture::new(150);
    let questions = [
        (write_npy(&fixture, "q.npy", 40, DIM), 40),
        (write_questions(&fixture, "questions", "question", "f00d"), 30),
    ];
    for (questions, count) in questions {
        let built = build(
            &fixture,
            &[
                "--queries",
                &questions,
                "--min-recall",
                "0.9",
                "--at-ef",
                "100",
                "--threads",
                "1",
            ],
        );
        assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
        let shown = inspect(&fixture, &[]);
        assert!(
            shown.contains(&format!("certificate {count} held-out questions")),
            "{shown}"
        );
        let json: serde_json::Value = serde_json::from_str(&inspect(&fixture, &["--json"])).unwrap();
        let certificate = &json["shards"][0]["certificate"];
        assert_eq!(certificate["source"], "held_out");
        let widths = certificate["recall"]
            .as_array()
            .unwrap()
            .iter()
            .map(|point| point["ef"].as_u64().unwrap());
        assert_eq!(
            widths.collect::<Vec<_>>(),
            [16, 24, 32, 48, 64, 96, 100, 128, 192, 256, 384, 512]
        );
    }
}

#[test]
fn questions_of_another_tower_or_model_are_refused() {
    let fixture = Fixture::new(20);
    let refused = |questions: &str, parts: &[&str]| {
        let built = build(&fixture, &["--queries", questions]);
        assert_eq!(built.status.code(), Some(1));
        let message = text(&built.stderr);
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    refused(
        &write_questions(&fixture, "answers", "answer", "f00d"),
        &["--tower question", "got answer"],
    );
    refused(
        &write_questions(&fixture, "other", "question", "beef"),
        &["fingerprint", "f00d", "beef"],
    );
    refused(
        &write_npy(&fixture, "wide.npy", 3, DIM + 1),
        &["wide.npy", "expected 24, got 25"],
    );
    refused("/nonexistent.npy", &["/nonexistent.npy"]);
    assert!(fixture.files().is_empty());
}

#[test]
fn a_build_below_the_target_fails_and_changes_nothing() {
    let fixture = Fixture::new(2_000);
    fixture.build().unwrap();
    let before = fixture.files();
    let poor = [
        "--m",
        "2",
        "--ef-construction",
        "1",
        "--threads",
        "1",
        "--min-recall",
        "0.999",
        "--at-ef",
        "17",
    ];
    let built = build(&fixture, &poor);
    assert_eq!(built.status.code(), Some(1));
    let message = text(&built.stderr);
    for part in [
        "shard 1/1: recall@10 is 0.",
        "ef 17",
        "target of 0.999",
        "the index is unchanged",
        "--ef-construction",
        "--m",
        "--min-recall",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
    let alone = build(&fixture, &["--at-ef", "17"]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(text(&alone.stderr).contains("--min-recall"), "{}", text(&alone.stderr));
    assert!(fixture.files() == before);
    assert_eq!(fixture.building(), 0);
}

#[test]
fn recall_through_filters_is_shown_or_why_there_is_none() {
    let small = Fixture::new(80);
    assert_eq!(build(&small, &[]).status.code(), Some(0));
    let shown = inspect(&small, &[]);
    assert!(
        shown.contains("filters     of half of the documents or fewer: all that they allow are scanned"),
        "{shown}"
    );
    let large = Fixture::new(25_000);
    assert_eq!(
        build(&large, &["--m", "8", "--ef-construction", "40"]).status.code(),
        Some(0)
    );
    let shown = inspect(&large, &[]);
    let (_, table) = shown
        .split_once("filters     that allow 50.0 % of the documents, by chance")
        .unwrap();
    let widths = table
        .lines()
        .skip(2)
        .map_while(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    assert_eq!(widths.collect::<Vec<_>>(), [16, 32], "{shown}");
}
