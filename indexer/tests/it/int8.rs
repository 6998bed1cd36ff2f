//! Indexes whose int8 codes stand for the vectors: through every change, and measured against the vectors that were
//! given.

use std::collections::BTreeMap;

use dyad_corpus::Document;
use dyad_index::format::RowType;
use dyad_index::snapshot::{DenseParams, SearchMode};
use dyad_index::verify::verify_current;
use dyad_index::{Never, QuerySource, Snapshot, manifest};
use dyad_indexer::change::{Operation, merge, purge};
use dyad_indexer::control::JobControl;
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::source::FileSource;

use crate::command_line::{build, dyad_indexer, text};
use crate::fixture::{DIM, Fixture, document, documents, row_of};

fn int8(fixture: &Fixture) -> BuildConfig {
    BuildConfig {
        row_type: RowType::Int8,
        ..fixture.config()
    }
}

fn built(n: usize, config: impl FnOnce(&Fixture) -> BuildConfig) -> Fixture {
    let fixture = Fixture::new(n);
    let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
    build_index(&config(&fixture), &mut source, JobControl::silent()).unwrap();
    fixture
}

/// The stored vector of each document.
fn stored(fixture: &Fixture) -> BTreeMap<String, Vec<f32>> {
    assert_eq!(verify_current(&fixture.index()).unwrap().problems, [""; 0]);
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let mut all = BTreeMap::new();
    for shard in snapshot.shards() {
        assert_eq!(shard.dense.header().row_type, RowType::Int8);
        for node in (0..shard.dense.len() as u32).filter(|node| shard.is_live(*node)) {
            let key = shard.dense.keys().key(node).to_owned();
            assert!(all.insert(key, shard.dense.vector(node).unwrap()).is_none());
        }
    }
    all
}

fn apart(one: &[f32], other: &[f32]) -> f32 {
    assert_eq!(one.len(), other.len());
    let squares = one.iter().zip(other).map(|(one, other)| (one - other).powi(2));
    squares.sum::<f32>().sqrt()
}

/// A code is rounded once: appends, deletes, merges and purges keep it.
#[test]
fn an_index_that_changes_loses_no_more_than_its_codes_did() {
    let fixture = built(120, |fixture| BuildConfig {
        shards: 1,
        ..int8(fixture)
    });
    let mut all: Vec<Document> = documents(120);
    let before = stored(&fixture);
    let rounded = |document: &Document, vector: &Vec<f32>| apart(vector, &row_of(&document.passage()));
    for document in &all {
        assert!(rounded(document, &before[&document.key]) < 0.02);
    }
    let more: Vec<Document> = (120..150).map(document).collect();
    fixture
        .upsert(Operation::Append { skip_existing: false }, &more)
        .unwrap();
    all.extend(more);
    "another text".clone_into(&mut all[7].text);
    fixture.upsert(Operation::Upsert, &all[7..8]).unwrap();
    let gone = all.remove(30).key;
    fixture.delete(std::slice::from_ref(&gone)).unwrap();
    let appended = stored(&fixture);
    for _ in 0..3 {
        merge(&fixture.merge_config(true), JobControl::silent()).unwrap();
        fixture
            .upsert(Operation::Append { skip_existing: false }, &[document(200)])
            .unwrap();
        fixture.delete(&[document(200).key]).unwrap();
    }
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    assert_eq!(snapshot.shards().len(), 1, "one of deleted documents alone is left out");
    let merged = stored(&fixture);
    assert_eq!(merged.len(), all.len());
    for document in &all {
        let (one, other) = (&appended[&document.key], &merged[&document.key]);
        assert!(apart(one, other) < 1e-4, "{}: {}", document.key, apart(one, other));
        assert!(rounded(document, other) < 0.02);
    }
    let purged = fixture.purge_config();
    let keys = [all.remove(10).key];
    purge(&purged, &keys, JobControl::silent()).unwrap();
    let left = stored(&fixture);
    assert!(
        left.len() == all.len()
            && all
                .iter()
                .all(|document| apart(&left[&document.key], &merged[&document.key]) < 1e-4)
    );
}

/// An index that was begun with one document has no quantiser that later ones should take.
#[test]
fn a_first_document_alone_does_not_decide_the_codes_of_all_others() {
    let fixture = built(1, |fixture| BuildConfig {
        shards: 1,
        ..int8(fixture)
    });
    let codec_of_newest = || {
        let snapshot = Snapshot::open(&fixture.index()).unwrap();
        let newest = snapshot.shards().last().unwrap();
        newest.dense.codes().codec().centre().to_vec()
    };
    let of_one = codec_of_newest();
    let append = |range: std::ops::Range<usize>| {
        let more: Vec<Document> = range.map(document).collect();
        fixture
            .upsert(Operation::Append { skip_existing: false }, &more)
            .unwrap();
        codec_of_newest()
    };
    let of_many = append(1..150);
    assert!(apart(&of_one, &of_many) > 0.1);
    assert_eq!(append(150..160), of_many, "these are enough to tell where vectors lie");
}

/// The exact hits of a certificate are those of the vectors that were given: what int8 loses is in it.
#[test]
fn the_certificate_is_measured_against_the_vectors_that_were_given() {
    let fixture = Fixture::new(900);
    let asked: Vec<Vec<f32>> = (0..200).map(|number| row_of(&format!("question {number}"))).collect();
    dyad_files::npy::write(&fixture.path("queries.npy"), &[asked.len(), DIM], &asked.concat()).unwrap();
    let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
    let config = BuildConfig {
        shards: 1,
        queries: Some(fixture.path("queries.npy")),
        ..int8(&fixture)
    };
    build_index(&config, &mut source, JobControl::silent()).unwrap();
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let certificate = snapshot.shards()[0].certificate();
    assert_eq!((certificate.source, certificate.queries), (QuerySource::HeldOut, 200));
    let point = certificate.recall.iter().find(|point| point.ef == 128).unwrap();
    let rows: Vec<(String, Vec<f32>)> = documents(900)
        .into_iter()
        .map(|document| (document.key.clone(), row_of(&document.passage())))
        .collect();
    let mut shared = 0;
    for question in &asked {
        let mut exact: Vec<(f32, &str)> = rows
            .iter()
            .map(|(key, row)| {
                let score = row.iter().zip(question).map(|(one, other)| one * other).sum();
                (score, key.as_str())
            })
            .collect();
        exact.sort_by(|one, other| other.0.total_cmp(&one.0));
        let nearest: Vec<&str> = exact.iter().take(10).map(|(_, key)| *key).collect();
        let params = DenseParams {
            k: 10,
            mode: SearchMode::Beam { ef: 128 },
        };
        let found = snapshot
            .search_dense(&[question.as_slice()], &params, None, &Never)
            .unwrap()
            .remove(0);
        let keys = found.hits.iter().map(|hit| snapshot.key(hit.shard, hit.node).unwrap());
        shared += keys.filter(|key| nearest.contains(key)).count();
    }
    let recall = shared as f64 / 2_000.0;
    assert!(recall < 1.0, "int8 changes the order of some hits");
    assert!(
        (recall - point.recall_at_10).abs() < 0.003,
        "{recall}, certified {}",
        point.recall_at_10
    );
}

#[test]
fn the_command_builds_them_and_inspect_says_so() {
    let fixture = Fixture::new(80);
    let output = build(&fixture, &["--vector-type", "int8", "--shards", "2"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let codes = bytes_of_vectors(&fixture);
    let inspected = dyad_indexer()
        .arg("inspect")
        .arg("--index")
        .arg(fixture.index())
        .output()
        .unwrap();
    let told = text(&inspected.stdout);
    assert!(told.contains("int8"), "{told}");
    stored(&fixture);
    let whole = built(80, |fixture| BuildConfig {
        row_type: RowType::F16,
        ..fixture.config()
    });
    assert_eq!((codes, bytes_of_vectors(&whole)), (80 * 4, 80 * 64));
    // What earlier releases read stays what it was.
    assert_eq!(manifest::current(&fixture.index()).unwrap().format_version, 2);
}

fn bytes_of_vectors(fixture: &Fixture) -> u64 {
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let sections = snapshot.shards().iter().map(|shard| {
        let header = shard.dense.header();
        header.section(dyad_index::format::SectionKind::Vectors).unwrap().len
    });
    sections.sum()
}
