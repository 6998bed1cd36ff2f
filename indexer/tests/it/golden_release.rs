//! What each release has written, in `tests/golden/release-VERSION`: later ones must read it, and find the same.
//!
//! Of `release-0.1` `index/` has two shards of passages, of which some have equal vectors, read in their documents, a
//! deletion, changed metadata, a calibration, and what was learned for it; `embeddings/` and `corpus.jsonl` are what
//! it was built of, and `answers.json` is what was found in it when it was written. `deploy/UPGRADE.md` says when to
//! add one:
//!
//! ```text
//! cargo test -p dyad-indexer --test it -- --ignored write_the_golden_release
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_corpus::embeddings::EmbeddingsHeader;
use dyad_corpus::{Document, ReadOptions, Split};
use dyad_index::format::{OLDEST_VERSION, VERSION};
use dyad_index::lexical::{DocumentFilter, ExactNumber, FieldValue};
use dyad_index::snapshot::{DenseParams, DocumentHit, SearchMode};
use dyad_index::storage::WriteLock;
use dyad_index::verify::verify_current;
use dyad_index::{FusionMethod, FusionRecord, LearnedFrom, Never, RerankMeasured, RerankRecord, Snapshot};
use dyad_indexer::change::{Operation, Passages, UpsertConfig, merge, upsert};
use dyad_indexer::control::JobControl;
use dyad_indexer::gc::gc;
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::source::{Corpus, FileSource};
use serde::{Deserialize, Serialize};

use crate::certificate::write_npy;
use crate::command_line::{dyad_indexer, text};
use crate::fixture::{DIM, Fixture, header, metadata, row_of};
use crate::golden::{copy, golden};

const RELEASE: &str = "release-0.1";
/// A vector that no document has.
const QUESTION: &str = "which river is longest";
/// Scores are sums of floats, whose order a processor decides.
const TOLERANCE: f32 = 1e-4;

/// What was found in an index.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct GoldenAnswers {
    /// The nearest vectors of a question, by exact search.
    dense: Vec<GoldenHit>,
    /// BM25 of each question.
    bm25: BTreeMap<String, Vec<GoldenHit>>,
    /// Documents whose metadata have this number exactly, ascending.
    filtered: BTreeMap<String, Vec<String>>,
    /// Title, text and metadata of each document.
    stored: BTreeMap<String, [String; 3]>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct GoldenHit {
    key: String,
    score: f32,
}

fn release(name: &str) -> PathBuf {
    golden(RELEASE).join(name)
}

/// Documents of two passages each; the last two are the same for vectors.
fn corpus_of_release() -> Vec<Document> {
    let document = |(number, (title, text)): (usize, (&str, &str))| Document {
        key: format!("river-{number}"),
        title: title.to_owned(),
        text: text.to_owned(),
        metadata: metadata(
            &serde_json::json!({ "number": number, "source": "atlas", "big": 9_007_199_254_740_993_u64 }),
        ),
        place: None,
    };
    [
        ("Danube", "The Danube rises in Germany. It ends in the Black Sea."),
        ("Nile", "The Nile flows north. Its delta lies in Egypt."),
        ("Rhine", "The Rhine passes Cologne. Ships sail to Rotterdam."),
        ("Amazon", "The Amazon carries most water. Its mouth is an estuary."),
        ("Brook", "Nobody knows its length. Nobody has measured it."),
        ("Brook", "Nobody knows its length. Nobody has measured it."),
    ]
    .into_iter()
    .enumerate()
    .map(document)
    .collect()
}

/// Passages of one sentence.
fn split() -> Split {
    Split::new(6, 0).unwrap()
}

fn corpus(fixture: &Fixture) -> Corpus {
    Corpus::File {
        path: fixture.path("corpus.jsonl"),
        read: ReadOptions {
            split: Some(split()),
            ..ReadOptions::default()
        },
    }
}

fn build_from_embeddings(fixture: &Fixture) {
    let config = BuildConfig {
        corpus: corpus(fixture),
        ..fixture.config()
    };
    let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
    build_index(&config, &mut source, JobControl::silent()).unwrap();
}

fn fingerprint(index: &Path) -> String {
    dyad_index::manifest::current(index).unwrap().model.fingerprint
}

/// What `dyad-searcher learn` writes.
fn learn(index: &Path) {
    let lock = WriteLock::acquire(index).unwrap();
    let learned_from = LearnedFrom {
        data: "rivers".to_owned(),
        split: "dev".to_owned(),
        questions: 40,
        dense: 0.5,
        bm25: 0.4,
        default: 0.55,
        learned: 0.6,
    };
    let mut fusion = FusionRecord::new(fingerprint(index), FusionMethod::LogOdds, 0.75, learned_from);
    fusion.document_weight = Some(0.5);
    fusion.save(index, &lock).unwrap();
    let rerank = RerankRecord {
        format_version: RerankRecord::VERSION,
        fingerprint: fingerprint(index),
        reranker_fingerprint: "c0de".to_owned(),
        reranker: "cross".to_owned(),
        depth: 20,
        fusion: Some(FusionMethod::LogOdds),
        weight: 0.4,
        measured_on: RerankMeasured {
            data: "rivers".to_owned(),
            split: "dev".to_owned(),
            questions: 40,
            before: 0.6,
            after: 0.7,
            p: 0.01,
        },
    };
    rerank.save(index, &lock).unwrap();
}

#[test]
#[ignore = "writes into the sources"]
fn write_the_golden_release() {
    let fixture = Fixture::empty();
    let documents = corpus_of_release();
    fixture.write_corpus(&documents);
    let passages: Vec<Document> = documents
        .iter()
        .flat_map(|document| split().passages(document).unwrap())
        .collect();
    let late = EmbeddingsHeader {
        context: "title+late".parse().unwrap(),
        logit_scale: Some(20.0),
        ..header()
    };
    fixture.write_embeddings("embeddings", late, &passages);
    copy(&fixture.path("embeddings"), &release("embeddings"));
    fs_err::copy(fixture.path("corpus.jsonl"), release("corpus.jsonl")).unwrap();
    build_from_embeddings(&fixture);
    let changed = Document {
        key: "river-1#0".to_owned(),
        metadata: metadata(&serde_json::json!({ "number": 1, "changed": true })),
        ..documents[1].clone()
    };
    fixture.update_metadata(&[changed]).unwrap();
    fixture.delete(&["river-2#1".to_owned()]).unwrap();
    let questions = write_npy(&fixture, "questions.npy", 4, DIM);
    let calibrated = dyad_indexer()
        .args(["calibrate", "--queries", &questions, "--index"])
        .arg(fixture.index())
        .output()
        .unwrap();
    assert!(calibrated.status.success(), "{}", text(&calibrated.stderr));
    learn(&fixture.index());
    gc(&fixture.index(), 1, Duration::ZERO, false).unwrap();
    copy(&fixture.index(), &release("index"));
    let answers = serde_json::to_string(&answers(&fixture.index())).unwrap();
    fs_err::write(release("answers.json"), answers + "\n").unwrap();
}

fn hits_of(snapshot: &Snapshot, hits: &[DocumentHit]) -> Vec<GoldenHit> {
    let hit = |hit: &DocumentHit| GoldenHit {
        key: snapshot.key(hit.shard, hit.node).unwrap().to_owned(),
        score: hit.score,
    };
    hits.iter().map(hit).collect()
}

fn dense(snapshot: &Snapshot, mode: SearchMode) -> Vec<GoldenHit> {
    let params = DenseParams { k: 12, mode };
    let found = snapshot
        .search_dense(&[&row_of(QUESTION)], &params, None, &Never)
        .unwrap();
    hits_of(snapshot, &found[0].hits)
}

fn answers(index: &Path) -> GoldenAnswers {
    let snapshot = Snapshot::open(index).unwrap();
    let bm25 = |question: &str| {
        let analyzed = snapshot.question(question);
        let found = snapshot
            .search_text(&analyzed, 12, None, snapshot.statistics(), &Never)
            .unwrap();
        (question.to_owned(), hits_of(&snapshot, &found.hits))
    };
    let filtered = |(field, number): (&str, &str)| {
        let values = vec![FieldValue::Number(ExactNumber::parse(number).unwrap())];
        let field = field.to_owned();
        let filter = DocumentFilter::OneOf {
            field: field.clone(),
            values,
        };
        let allowed = snapshot.allowed(&filter, &Never).unwrap().unwrap();
        let shards = allowed.iter().enumerate();
        let mut keys: Vec<String> = shards
            .flat_map(|(shard, nodes)| nodes.iter().map(move |node| (shard, node)))
            .map(|(shard, node)| snapshot.key(shard, node).unwrap().to_owned())
            .collect();
        keys.sort_unstable();
        (format!("{field} = {number}"), keys)
    };
    let dense = dense(&snapshot, SearchMode::Exact);
    let stored = snapshot.shards().iter().enumerate().flat_map(|(number, shard)| {
        let snapshot = &snapshot;
        let nodes = (0..shard.dense.len() as u32).filter(|node| shard.is_live(*node));
        nodes.map(move |node| {
            let stored = snapshot.document(number, node).unwrap();
            let key = snapshot.key(number, node).unwrap().to_owned();
            (key, [stored.title, stored.text, stored.metadata_json])
        })
    });
    GoldenAnswers {
        dense,
        bm25: ["Danube", "the delta of the Nile", "measured lengths", "ships Rotterdam"]
            .map(bm25)
            .into(),
        filtered: [
            ("number", "1"),
            ("big", "9007199254740993"),
            ("big", "9007199254740992"),
        ]
        .map(filtered)
        .into(),
        stored: stored.collect(),
    }
}

/// The same hits in the same order, with scores that differ by rounding at most.
fn assert_same_hits(found: &[GoldenHit], expected: &[GoldenHit]) {
    let keys = |hits: &[GoldenHit]| hits.iter().map(|hit| hit.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(found), keys(expected));
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found.score - expected.score).abs() < TOLERANCE,
            "{found:?}, {expected:?}"
        );
    }
}

/// What was found when the release was written.
fn expected() -> GoldenAnswers {
    serde_json::from_slice(&fs_err::read(release("answers.json")).unwrap()).unwrap()
}

fn kept() -> Fixture {
    let fixture = Fixture::empty();
    for name in ["index", "embeddings"] {
        copy(&release(name), &fixture.path(name));
    }
    fs_err::copy(release("corpus.jsonl"), fixture.path("corpus.jsonl")).unwrap();
    fixture
}

#[test]
fn the_page_on_upgrades_names_the_versions_of_this_release() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/UPGRADE.md");
    let page = fs_err::read_to_string(page).unwrap();
    let newest = dyad_index::manifest::MANIFEST_VERSION;
    let (oldest_shard, newest_shard) = (OLDEST_VERSION, VERSION);
    for row in [
        format!("| `manifest-NNNNNN.json` | 1 to {newest} |"),
        format!("| `shards/*/dense.dyad` | {oldest_shard} to {newest_shard} |"),
        format!("| `rerank.json` | {} |", RerankRecord::VERSION),
        format!("`indexer/tests/golden/{RELEASE}`"),
    ] {
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn an_index_of_the_first_release_answers_as_it_did() {
    let fixture = kept();
    let index = fixture.index();
    assert_eq!(verify_current(&index).unwrap().problems, [""; 0]);
    let manifest = dyad_index::manifest::current(&index).unwrap();
    assert_eq!((manifest.format_version, manifest.shards.len()), (3, 2));
    // Each kind of file, so that what is written again has all of them too.
    let has = |part: fn(&dyad_index::manifest::ShardEntry) -> bool| manifest.shards.iter().any(part);
    assert!(has(|shard| shard.deleted.is_some()) && has(|shard| shard.metadata.is_some()));
    assert!(has(|shard| shard.calibration.is_some()) && has(|shard| shard.documents > 0));
    assert!(has(|shard| shard
        .files
        .iter()
        .any(|file| file.path.starts_with("documents/"))));
    assert!(has(|shard| shard
        .files
        .iter()
        .any(|file| file.path == "ground-truth.dyad")));
    let versions = manifest.shards.iter().map(|shard| {
        let file = index.join("shards").join(&shard.id).join("dense.dyad");
        fs_err::read(file).unwrap()[8]
    });
    assert_eq!(versions.max(), Some(3), "some vectors are copies");

    let (found, expected) = (answers(&index), expected());
    assert_same_hits(&found.dense, &expected.dense);
    for (question, hits) in &expected.bm25 {
        // The only passage with these words is deleted.
        assert_eq!(hits.is_empty(), question == "ships Rotterdam", "{question}");
        assert_same_hits(&found.bm25[question], hits);
    }
    assert_eq!(found.filtered, expected.filtered);
    assert_eq!(found.stored, expected.stored);
    let snapshot = Snapshot::open(&index).unwrap();
    assert_same_hits(&dense(&snapshot, SearchMode::Beam { ef: 64 }), &expected.dense);
    let (fusion, fingerprint) = (snapshot.fusion().unwrap(), fingerprint(&index));
    assert_eq!((fusion.method, fusion.dense_weight), (FusionMethod::LogOdds, 0.75));
    let rerank = RerankRecord::load(&index, &fingerprint).unwrap().unwrap();
    assert_eq!(rerank.weight_of(FusionMethod::LogOdds), Some(0.4));
}

#[test]
fn an_index_of_the_first_release_can_be_changed() {
    let fixture = kept();
    // Its vectors of a document are of its embeddings.
    let config = UpsertConfig {
        passages: Passages::Batch,
        ..fixture.upsert_config(Operation::Upsert)
    };
    let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
    let mut batch = corpus(&fixture).open(false).unwrap();
    let outcome = upsert(&config, batch.as_mut(), &mut source, JobControl::silent()).unwrap();
    assert!(
        outcome.change.indexed > 0,
        "{:?}: what was deleted and changed comes back",
        outcome.change
    );
    merge(&fixture.merge_config(true), JobControl::silent()).unwrap();
    assert_eq!(verify_current(&fixture.index()).unwrap().problems, [""; 0]);
    let found = answers(&fixture.index());
    assert_eq!(found.stored.len(), 12);
    let common: Vec<GoldenHit> = found.dense.into_iter().filter(|hit| hit.key != "river-2#1").collect();
    assert_same_hits(&common, &expected().dense);
}

#[test]
fn embeddings_of_the_first_release_make_the_same_index() {
    let fixture = kept();
    fs_err::remove_dir_all(fixture.index()).unwrap();
    build_from_embeddings(&fixture);
    let found = answers(&fixture.index());
    let common: Vec<GoldenHit> = found.dense.into_iter().filter(|hit| hit.key != "river-2#1").collect();
    assert_same_hits(&common, &expected().dense);
}
