//! A small shard written, opened, searched, and attacked byte by byte.

mod damage;
mod int8;
mod silence;

use std::path::PathBuf;

use super::*;
use crate::certificate::{Certificate, RecallPoint};
use crate::error::Error;
use crate::format::{RowType, SectionKind};
use crate::graph::{Graph, GraphLayer};
use crate::layout::{Arranged, GraphLayout};
use crate::model::{BuildRecord, Metric, ModelRecord};
use crate::quant::{Codec, Codes};
use crate::search::{DenseRows, Scored, SearchHits, SearchParams};
use crate::storage::HotBytes;
use dyad_files::Never;

pub(super) const DIM: usize = 5;
pub(super) const N: u32 = 12;

pub(crate) fn meta(dim: usize) -> ShardMeta {
    let model = ModelRecord {
        name: "m".into(),
        fingerprint: "f00d".into(),
        dim,
        full_dim: None,
        metric: Metric::Cosine,
        max_tokens: 256,
    };
    let build = BuildRecord {
        builder: "test".into(),
        m: 4,
        ef_construction: 8,
        seed: 1,
        threads: 1,
        tool: "t".into(),
    };
    ShardMeta { model, build }
}

fn vectors() -> Vec<f32> {
    let mut values: Vec<f32> = (0..N as usize * DIM).map(|i| ((i * 37 % 17) as f32) - 8.0).collect();
    for row in values.chunks_mut(DIM) {
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        for x in row {
            *x /= norm;
        }
    }
    values
}

fn graph() -> Graph {
    let ring: Vec<Vec<u32>> = (0..N)
        .map(|node| vec![(node + 1) % N, (node + N - 1) % N, (node + 5) % N])
        .collect();
    Graph {
        entry: 6,
        layers: vec![
            GraphLayer::from_lists((0..N).collect(), &ring),
            GraphLayer::from_lists(vec![2, 6], &[vec![6], vec![2]]),
        ],
    }
}

fn arranged(graph: &Graph, rows: &DenseRows<'_>, metric: Metric) -> Arranged {
    Arranged::new(graph, &Codes::encode(rows, Codec::fit(rows, metric, 7))).unwrap()
}

pub(super) fn written() -> (tempfile::TempDir, PathBuf) {
    written_as(RowType::F32)
}

fn written_as(row_type: RowType) -> (tempfile::TempDir, PathBuf) {
    written_of(&vectors(), Metric::Cosine, row_type)
}

/// A shard of these vectors.
fn written_of(values: &[f32], metric: Metric, row_type: RowType) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(DENSE_FILE);
    let keys: Vec<String> = (0..N).map(|node| format!("key-{}", (node * 7) % N)).collect();
    let recall = vec![RecallPoint {
        ef: 16,
        recall_at_10: 1.0,
        recall_at_100: None,
        distance_computations: 12.0,
        scored: 3.0,
    }];
    let certificate = Certificate {
        vectors: u64::from(N),
        recall,
        ..Certificate::default()
    };
    let rows = DenseRows::new(values, DIM);
    let arranged = arranged(&graph(), &rows, metric);
    let mut meta = meta(DIM);
    meta.model.metric = metric;
    let input = ShardInput {
        meta: &meta,
        vectors: &rows,
        row_type,
        arranged: &arranged,
        keys: &keys,
        certificate: &certificate,
    };
    write(&path, &input).unwrap();
    (dir, path)
}

#[test]
fn what_was_written_is_read() {
    let (_dir, path) = written();
    let shard = DenseShard::open(&path).unwrap();
    assert_eq!(
        shard.verify(&Never),
        Verified {
            bytes_read: fs_err::metadata(&path).unwrap().len(),
            ..Verified::default()
        }
    );
    assert_eq!(
        (shard.len(), shard.meta(), shard.certificate().recall.len()),
        (12, &meta(DIM), 1)
    );
    let arranged = GraphLayout::new(&graph()).unwrap();
    assert_eq!(shard.graph().to_graph(), arranged.view().to_graph());
    assert_eq!(shard.graph().order(), arranged.order);
    let values = vectors();
    let mut row = Vec::new();
    for node in 0..N {
        shard.rows().decode(node, &mut row);
        assert_eq!(row, &values[node as usize * DIM..][..DIM]);
        let key = shard.keys().key(node).to_owned();
        assert_eq!(key, format!("key-{}", (node * 7) % N));
        assert_eq!(shard.find(&key).unwrap(), Some(node));
    }
    assert_eq!(shard.find("absent").unwrap(), None);
}

#[test]
fn a_shard_that_does_not_fit_into_memory_finds_the_same() {
    let (_dir, path) = written();
    let fits = DenseShard::open(&path).unwrap();
    // As if a shard larger than any memory were open.
    let large = HotBytes::add(u64::MAX / 4);
    let on_disk = DenseShard::open(&path).unwrap();
    assert!(!fits.codes().are_on_disk() && on_disk.codes().are_on_disk());
    let values = vectors();
    let queries: Vec<&[f32]> = values.chunks(DIM).collect();
    let search = |shard: &DenseShard, queries: &[&[f32]]| {
        let mut all = vec![SearchHits::default(); queries.len()];
        shard.search_batch(queries, &SearchParams::new(3, 8), |number, hits| all[number] = hits);
        all
    };
    assert_eq!(search(&on_disk, &queries), search(&fits, &queries));
    assert_eq!(
        search(&on_disk, &queries[..1]),
        search(&fits, &queries[..1]),
        "one that has its thread for itself"
    );
    drop((on_disk, large));
    assert!(
        !DenseShard::open(&path).unwrap().codes().are_on_disk(),
        "the large one is closed"
    );
}

/// The map of a file that was shortened must not be touched: that would end the process.
#[test]
fn verify_names_a_file_that_was_shortened_after_it_was_opened() {
    let (_dir, path) = written();
    let shard = DenseShard::open(&path).unwrap();
    let len = fs_err::metadata(&path).unwrap().len();
    for keep in [len - 1, len / 2, 0] {
        fs_err::OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(keep)
            .unwrap();
        let problems = shard.verify(&Never).problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(
            problems[0].contains(&format!("length: expected {len} bytes, got {keep} bytes")),
            "{problems:?}"
        );
        assert!(
            problems[0].contains("write an intact copy under another name and `mv` it there"),
            "{problems:?}"
        );
    }
    fs_err::remove_file(&path).unwrap();
    assert!(shard.verify(&Never).problems[0].contains("dense.dyad"));
}

#[test]
fn verify_ends_when_it_is_told_to() {
    let (_dir, path) = written();
    let shard = DenseShard::open(&path).unwrap();
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let run = |patience: usize| {
        asked.store(0, std::sync::atomic::Ordering::Relaxed);
        let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == patience;
        let verified = shard.verify(&stop);
        assert_eq!(verified.problems, [""; 0]);
        (verified.stopped, asked.load(std::sync::atomic::Ordering::Relaxed))
    };
    let (stopped, looks) = run(usize::MAX);
    // In each section, in the vectors, in the graph three times, before codes and keys.
    assert!(!stopped && looks >= 6 + 1 + 3 + 2, "{looks}");
    for patience in 0..looks {
        assert_eq!(run(patience), (true, patience + 1));
    }
}

#[test]
fn the_place_of_a_document_is_that_of_the_exact_ranking() {
    let (_dir, path) = written();
    let shard = DenseShard::open(&path).unwrap();
    for query in vectors().chunks(DIM) {
        let ranking = shard.search_exact(query, N as usize, None).hits;
        for (place, hit) in (0u64..).zip(&ranking) {
            assert_eq!(
                shard.ahead_of(query, hit.score, shard.keys().key(hit.node), None, &Never),
                Some(place)
            );
        }
        let stop = || true;
        assert_eq!(shard.ahead_of(query, 0.0, "", None, &stop), None);
        assert_eq!(shard.ahead_of(&query[1..], 0.0, "", None, &Never), None);
    }
}

#[test]
fn the_graph_search_agrees_with_the_exact_scan() {
    let (_dir, path) = written();
    let shard = DenseShard::open(&path).unwrap();
    for query in vectors().chunks(DIM) {
        let result = shard.search(query, &SearchParams::new(4, 12));
        let exact = shard.search_exact(query, 4, None);
        assert_eq!(result.hits, exact.hits);
        assert_eq!(exact.cost.total(), 12);
    }
}

#[test]
fn ties_are_broken_by_key_at_the_cut_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(DENSE_FILE);
    let values: Vec<f32> = (0..4).flat_map(|_| [1.0, 0.0]).collect();
    let lists: Vec<Vec<u32>> = (0..4)
        .map(|node| (0..4).filter(|other| *other != node).collect())
        .collect();
    let graph = Graph {
        entry: 0,
        layers: vec![GraphLayer::from_lists((0..4).collect(), &lists)],
    };
    let keys = ["d", "b", "c", "a"].map(String::from);
    let rows = DenseRows::new(&values, 2);
    let arranged = arranged(&graph, &rows, Metric::Cosine);
    let input = ShardInput {
        meta: &meta(2),
        vectors: &rows,
        row_type: RowType::F32,
        arranged: &arranged,
        keys: &keys,
        certificate: &Certificate::default(),
    };
    write(&path, &input).unwrap();
    let shard = DenseShard::open(&path).unwrap();
    let keys = |found: SearchHits<Scored>| {
        found
            .hits
            .iter()
            .map(|hit| shard.keys().key(hit.node).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(shard.search_exact(&[1.0, 0.0], 2, None)), ["a", "b"]);
    assert_eq!(keys(shard.search(&[1.0, 0.0], &SearchParams::new(2, 4))), ["a", "b"]);
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let values = vectors();
    let certificate = Certificate::default();
    let keys: Vec<String> = (0..N).map(|node| node.to_string()).collect();
    let (meta, rows) = (meta(DIM), DenseRows::new(&values, DIM));
    let arranged = arranged(&graph(), &rows, Metric::Cosine);
    let good = ShardInput {
        meta: &meta,
        vectors: &rows,
        row_type: RowType::F32,
        arranged: &arranged,
        keys: &keys,
        certificate: &certificate,
    };
    let refuse = |input: &ShardInput<'_>| write(&dir.path().join("x"), input).unwrap_err().to_string();
    assert!(
        refuse(&ShardInput {
            keys: &keys[1..],
            ..good
        })
        .contains("keys of a shard: expected 12, got 11")
    );
    let other = super::tests::meta(6);
    assert!(refuse(&ShardInput { meta: &other, ..good }).contains("expected 6, got 5"));
    let small = Arranged {
        layout: GraphLayout::default(),
        codes: arranged.codes.clone(),
    };
    assert!(
        refuse(&ShardInput {
            arranged: &small,
            ..good
        })
        .contains("expected 12, got 0 slots, 12 codes")
    );
}

/// Damage is named by its section.
#[test]
fn damage_in_a_section_is_named() {
    let (_dir, path) = written();
    let intact = fs_err::read(&path).unwrap();
    let header = DenseShard::open(&path).unwrap().header().clone();
    let damaged = path.with_file_name("damaged");
    for kind in SectionKind::ALL {
        let entry = header.section(kind).unwrap();
        let mut bytes = intact.clone();
        bytes[(entry.offset + entry.len / 2) as usize] ^= 1;
        fs_err::write(&damaged, bytes).unwrap();
        let said = match DenseShard::open(&damaged) {
            Ok(shard) => shard.verify(&Never).problems.join("\n"),
            Err(error) => error.to_string(),
        };
        assert!(
            said.contains(kind.name()) && said.contains("damaged"),
            "{}: {said}",
            kind.name()
        );
    }
}

#[test]
fn a_truncated_file_is_refused_at_every_length() {
    let (_dir, path) = written();
    let intact = fs_err::read(&path).unwrap();
    let cut = path.with_file_name("cut");
    for len in 0..intact.len() {
        fs_err::write(&cut, &intact[..len]).unwrap();
        assert!(DenseShard::open(&cut).is_err(), "{len}");
    }
}

#[test]
fn a_newer_version_and_another_kind_of_file_are_named() {
    let (_dir, path) = written();
    let mut bytes = fs_err::read(&path).unwrap();
    bytes[8] = 6;
    let newer = path.with_file_name("newer");
    fs_err::write(&newer, &bytes).unwrap();
    let error = DenseShard::open(&newer).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Newer {
                got: 6,
                supported: 5,
                ..
            }
        ),
        "{error}"
    );
    bytes[0] = b'X';
    fs_err::write(&newer, &bytes).unwrap();
    let error = DenseShard::open(&newer).unwrap_err().to_string();
    assert!(error.contains("magic: expected `DYADENSE`, got `XYADENSE`"), "{error}");
}
