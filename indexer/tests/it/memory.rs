//! Memory is predicted before a build starts, and the build stays within the prediction.

use std::process::{Command, Output};

use dyad_corpus::Document;
use dyad_corpus::embeddings::{EmbeddingsHeader, EmbeddingsModel, EmbeddingsWriter, VectorType};
use dyad_index::Snapshot;
use dyad_index::verify::verify_current;

use crate::command_line::{build, dyad_indexer, text};
use crate::encoder_service::encoder_service;
use crate::fixture::{Fixture, document, header};

const DIM: usize = 384;
const DOCUMENTS: usize = 20_000;

/// A unit vector near one of 200 centres.
fn row(number: usize) -> Vec<f32> {
    let value = |key: usize, at: usize| {
        let hash = xxhash_rust::xxh3::xxh3_64_with_seed(&key.to_le_bytes(), at as u64);
        (hash >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    let centre = 1_000_000 + number * 7_919 % 200;
    let row: Vec<f32> = (0..DIM).map(|at| value(centre, at) + 0.7 * value(number, at)).collect();
    let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
    row.into_iter().map(|value| value / length).collect()
}

/// Bytes after `label`, as printed.
fn bytes_behind(text: &str, label: &str) -> f64 {
    let rest = text.split_once(label).unwrap().1;
    let mut words = rest.split([' ', ',', '\n']);
    let size: f64 = words.next().unwrap().parse().unwrap();
    let unit = words.next().unwrap();
    let thousands = ["B", "KiB", "MiB", "GiB"]
        .iter()
        .position(|known| *known == unit)
        .unwrap();
    size * 1024f64.powi(thousands as i32)
}

/// A corpus and its vectors.
fn corpus(documents: &[Document]) -> Fixture {
    let fixture = Fixture::empty();
    fixture.write_corpus(documents);
    let model = EmbeddingsModel {
        dim: DIM,
        fingerprint: "before".to_owned(),
        ..header().model
    };
    let header = EmbeddingsHeader {
        model,
        vectors: VectorType::F16,
        part_rows: 4_096,
        ..header()
    };
    let mut writer = EmbeddingsWriter::open(&fixture.path("embeddings"), header).unwrap();
    for (number, document) in documents.iter().enumerate() {
        writer.push(document, &row(number), false).unwrap();
    }
    writer.finish().unwrap();
    fixture
}

/// Address space that is reserved and not used: tables, and stacks of threads.
const RESERVED: u64 = 64 << 20;

/// A process that cannot have more anonymous memory than that.
fn limited(bytes: u64, arguments: &[&str]) -> Output {
    let mut command = Command::new("prlimit");
    command
        .arg(format!("--data={}", bytes + RESERVED))
        .arg(env!("CARGO_BIN_EXE_dyad-indexer"))
        .args(arguments);
    // Arenas of other threads would be reserved whole.
    command.env("MALLOC_ARENA_MAX", "1").output().unwrap()
}

/// Words that hardly ever come again.
fn rare_words(number: usize) -> String {
    let word = |at: usize| {
        let hash = xxhash_rust::xxh3::xxh3_64(&(number * 2_000 + at).to_le_bytes());
        format!("w{} ", hash % 50_000_000)
    };
    (0..500).map(word).collect()
}

/// Documents whose words hardly ever come again: with all terms in memory, their build takes more.
#[test]
fn a_limit_of_memory_is_held() {
    let documents: Vec<_> = (0..8_000)
        .map(|number| Document {
            text: rare_words(number),
            ..document(number)
        })
        .collect();
    let fixture = corpus(&documents);
    let path = |name: &str| fixture.path(name).display().to_string();
    let (index, corpus, embeddings) = (path("index"), path("corpus.jsonl"), path("embeddings"));
    let memory = 112 << 20;
    let run = |more: &[&str]| {
        let arguments = [
            "build",
            "--corpus",
            &corpus,
            "--index",
            &index,
            "--embeddings",
            &embeddings,
            "--threads",
            "2",
        ];
        let output = limited(memory, &[&arguments, more].concat());
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, _, error) = run(&[]);
    assert!(
        code.is_none() && error.contains("memory allocation of"),
        "without, it takes more than it gets: {error}"
    );
    let (code, _, error) = run(&["--memory", "64MiB"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(
        error.contains("`--memory`: 8000 documents need at least ") && error.contains("got 64.0 MiB"),
        "{error}"
    );
    let (code, out, error) = run(&["--memory", "112MiB"]);
    assert_eq!(code, Some(0), "{error}");
    let (peak, predicted) = (
        bytes_behind(&out, "peak memory "),
        bytes_behind(&out, "predicted at most "),
    );
    println!(
        "peak {:.1} MiB, predicted {:.1} MiB",
        peak / 1_048_576.0,
        predicted / 1_048_576.0
    );
    assert!(predicted <= memory as f64 && peak <= memory as f64, "{out}");
    let bounded = Snapshot::open(&fixture.index()).unwrap();
    assert_eq!(bounded.manifest().documents(), 8_000);

    // Merged to shards as large as the limit allows, or refused.
    let merge = |more: &[&str]| {
        let output = limited(
            3 * memory,
            &[&["merge", "--all", "--index", &index, "--threads", "2"], more].concat(),
        );
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, error) = merge(&["--memory", "336MiB"]);
    assert_eq!(code, Some(0), "{out} {error}");
    let merged = Snapshot::open(&fixture.index()).unwrap();
    let (code, _, error) = merge(&["--memory", "64MiB"]);
    assert!(code == Some(1) && error.contains("need at least"), "{error}");
    assert_eq!(merged.manifest().documents(), 8_000);
    assert!(merged.shards().len() <= bounded.shards().len());
    assert_eq!(verify_current(&fixture.index()).unwrap().problems, [""; 0]);
    let (shard, node) = merged.find("doc-5777").unwrap().unwrap();
    assert_eq!(merged.document(shard, node).unwrap().text, documents[5777].text);
    let shards = embed_again(&fixture, memory, &documents[5777].text);
    println!("{shards} shards");
    // A stream cannot be counted.
    let (code, _, error) = run(&["--memory", "1GiB", "--corpus", "-"]);
    assert!(code != Some(0) && error.contains("--corpus"), "{error}");
}

/// Embedded again: within a limit, where it takes more without, or refused. Returns the number of shards.
fn embed_again(fixture: &Fixture, memory: u64, text_of_one: &str) -> usize {
    let index = fixture.index().display().to_string();
    let service = encoder_service();
    let again = |memory: u64, more: &[&str]| {
        let arguments = [
            "reembed",
            "--index",
            &index,
            "--encoder",
            &service.url,
            "--threads",
            "2",
        ];
        let output = limited(memory, &[&arguments, more].concat());
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let more = 208 << 20;
    let (code, _, error) = again(more, &[]);
    assert!(
        code.is_none() && error.contains("memory allocation of"),
        "without, it takes more than it gets: {error}"
    );
    let (code, _, error) = again(memory, &["--memory", "112MiB"]);
    assert!(code == Some(1) && error.contains("need at least"), "{error}");
    let (code, out, error) = again(more, &["--memory", "208MiB"]);
    assert_eq!(code, Some(0), "{out} {error}");
    let embedded = Snapshot::open(&fixture.index()).unwrap();
    assert_eq!(
        (
            embedded.manifest().documents(),
            embedded.manifest().model.fingerprint.as_str()
        ),
        (8_000, "f00d")
    );
    assert_eq!(verify_current(&fixture.index()).unwrap().problems, [""; 0]);
    let (shard, node) = embedded.find("doc-5777").unwrap().unwrap();
    assert_eq!(embedded.document(shard, node).unwrap().text, text_of_one);
    embedded.shards().len()
}

#[test]
fn builds_stay_within_what_was_predicted() {
    let documents: Vec<_> = (0..DOCUMENTS).map(document).collect();
    let fixture = corpus(&documents);
    for builder in ["native", "hnsw_rs", "hnsw_rs-int8"] {
        let built = build(
            &fixture,
            &["--builder", builder, "--ef-construction", "40", "--threads", "2"],
        );
        assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
        let out = text(&built.stdout);
        let (peak, predicted) = (
            bytes_behind(&out, "peak memory "),
            bytes_behind(&out, "predicted at most "),
        );
        println!(
            "{builder}: peak {:.1} MiB, predicted {:.1} MiB",
            peak / 1_048_576.0,
            predicted / 1_048_576.0
        );
        assert!(peak <= predicted, "{builder}: {out}");
        // A prediction that could be anything would be none.
        assert!(predicted <= 2.5 * peak, "{builder}: {out}");
        let planned = bytes_behind(&text(&built.stderr), "at most ");
        assert!((planned - predicted).abs() < 1.0, "said before it starts");
    }
}

/// Each shard's text index takes some megabytes while texts are read, whatever is in it.
#[test]
fn many_small_shards_stay_within_what_was_predicted() {
    let fixture = Fixture::new(48);
    let built = build(&fixture, &["--shards", "100", "--threads", "1"]);
    assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
    let (out, log) = (text(&built.stdout), text(&built.stderr));
    let (peak, predicted) = (
        bytes_behind(&out, "peak memory "),
        bytes_behind(&out, "predicted at most "),
    );
    println!(
        "peak {:.1} MiB, predicted {:.1} MiB",
        peak / 1_048_576.0,
        predicted / 1_048_576.0
    );
    assert!(peak <= predicted, "{out}");
    assert!(predicted <= 2.5 * peak, "{out}");
    // What was asked for and what it came to.
    let shards = out
        .split_once("48 documents in ")
        .unwrap()
        .1
        .split_once(" shards of 100, ")
        .unwrap()
        .0;
    assert!((20..48).contains(&shards.parse::<usize>().unwrap()), "{out}");
    assert!(
        log.contains(&format!("WARN {shards} of 100 shards hold documents: ")),
        "{log}"
    );
    // The length of a stream is not known, and nothing is promised.
    let corpus = fs_err::File::open(fixture.path("corpus.jsonl")).unwrap();
    let streamed = dyad_indexer()
        .args(["build", "--corpus", "-", "--index"])
        .arg(fixture.index())
        .arg("--embeddings")
        .arg(fixture.path("embeddings"))
        .stdin(corpus.into_file())
        .output()
        .unwrap();
    let out = text(&streamed.stdout);
    assert!(out.contains("peak memory ") && !out.contains("predicted"), "{out}");
}
