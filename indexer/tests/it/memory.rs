//! Memory is predicted before a build starts, and the build stays within the prediction.

use dyad_corpus::embeddings::{EmbeddingsWriter, Header, ModelRecord, VectorType};

use crate::command_line::{build, dyad_indexer, text};
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
    let thousands = ["B", "KiB", "MiB", "GiB"].iter().position(|known| *known == unit).unwrap();
    size * 1024f64.powi(thousands as i32)
}

#[test]
fn builds_stay_within_what_was_predicted() {
    let fixture = Fixture::new(0);
    let documents: Vec<_> = (0..DOCUMENTS).map(document).collect();
    fixture.write_corpus(&documents);
    let model = ModelRecord { dim: DIM, ..header().model };
    let header = Header { model, vectors: VectorType::F16, part_rows: 4_096, ..header() };
    fs_err::remove_dir_all(fixture.path("embeddings")).unwrap();
    let mut writer = EmbeddingsWriter::open(&fixture.path("embeddings"), header).unwrap();
    for (number, document) in documents.iter().enumerate() {
        writer.push(document, &row(number), false).unwrap();
    }
    writer.finish().unwrap();
    for builder in ["native", "hnsw_rs", "hnsw_rs-int8"] {
        let built = build(&fixture, &["--builder", builder, "--ef-construction", "40", "--threads", "2"]);
        assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
        let out = text(&built.stdout);
        let (peak, predicted) = (bytes_behind(&out, "peak memory "), bytes_behind(&out, "predicted at most "));
        println!("{builder}: peak {:.1} MiB, predicted {:.1} MiB", peak / 1_048_576.0, predicted / 1_048_576.0);
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
    let (peak, predicted) = (bytes_behind(&out, "peak memory "), bytes_behind(&out, "predicted at most "));
    println!("peak {:.1} MiB, predicted {:.1} MiB", peak / 1_048_576.0, predicted / 1_048_576.0);
    assert!(peak > 100e6 && peak <= predicted, "{out}");
    assert!(predicted <= 2.5 * peak, "{out}");
    // What was asked for and what it came to.
    let shards = out.split_once("48 documents in ").unwrap().1.split_once(" shards of 100, ").unwrap().0;
    assert!((20..48).contains(&shards.parse::<usize>().unwrap()), "{out}");
    assert!(log.contains(&format!("WARN {shards} of 100 shards hold documents: ")), "{log}");
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
