//! An index against a model in memory: exact search and BM25 answer bit for bit as an index that is built from the live
//! documents. [`super::soak`] does so after random operations.

use std::collections::{BTreeMap, BTreeSet};

use dyad_corpus::Document;
use dyad_index::lexical::{DocumentFilter, FieldValue, WeighedDocuments};
use dyad_index::search::NodeSet;
use dyad_index::snapshot::{DenseParams, SearchMode};
use dyad_index::verify::verify_current;
use dyad_index::{Never, Snapshot, manifest};
use dyad_indexer::Error;
use dyad_indexer::change::{MergeConfig, Operation, merge};
use dyad_indexer::control::JobControl;
use dyad_indexer::job::build_index;
use dyad_indexer::rollback::roll_back;

use crate::fixture::{Fixture, row_of};
use crate::hash_source::HashSource;

pub(crate) const APPEND: Operation = Operation::Append { skip_existing: false };

pub(crate) type Model = BTreeMap<String, Document>;

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % below.max(1) as u64) as usize
    }

    pub(crate) fn some_of(&mut self, model: &Model, most: usize) -> Vec<String> {
        let wanted = 1 + self.below(most);
        let keys: Vec<&String> = model.keys().collect();
        (0..wanted.min(keys.len()))
            .map(|_| keys[self.below(keys.len())].clone())
            .collect()
    }
}

/// A document of few words, so that terms are shared and scores tie; one in four has the text, and the vector, of many
/// others.
pub(crate) fn document(number: usize, random: &mut Random) -> Document {
    let is_copy = random.below(4) == 0;
    let words: Vec<String> = if is_copy {
        vec![format!("w{}", random.below(3))]
    } else {
        (0..=random.below(12))
            .map(|_| format!("w{}", random.below(9) * random.below(5)))
            .collect()
    };
    let metadata = (random.below(2) == 0)
        .then(|| serde_json::json!({ "n": random.below(3), "document": format!("d{}", random.below(9)) }));
    Document {
        key: format!("k{number:04}"),
        title: if !is_copy && random.below(3) == 0 {
            format!("t{}", random.below(4))
        } else {
            String::new()
        },
        text: words.join(" "),
        metadata: metadata.and_then(|object| crate::fixture::metadata(&object)),
        place: None,
    }
}

/// Keys and scores of an exact dense search, of one by the graph that is as wide as the index, and of BM25, also with
/// that of documents.
fn answers(snapshot: &Snapshot, filter: Option<&DocumentFilter>) -> Vec<Vec<(String, u32)>> {
    let allowed = filter.map(|filter| snapshot.allowed(filter, &Never).unwrap().unwrap());
    let allowed = allowed.as_deref();
    let named = |hits: &[dyad_index::snapshot::DocumentHit]| -> Vec<(String, u32)> {
        hits.iter()
            .map(|hit| {
                (
                    snapshot.key(hit.shard, hit.node).unwrap().to_owned(),
                    hit.score.to_bits(),
                )
            })
            .collect()
    };
    let mut all = Vec::new();
    for text in ["w2 w8 t1", "w0 w4 w12 w16 w3 w7", "w6", "t0 t1 t2 t3 w1 w2 w3 w4 w5"] {
        let row = row_of(text);
        for k in [1, 10, 1000] {
            let exact = DenseParams {
                k,
                mode: SearchMode::Exact,
            };
            let found = snapshot.search_dense(&[&row], &exact, allowed, &Never).unwrap();
            all.push(named(&found[0].hits));
            let wide = DenseParams {
                k,
                mode: SearchMode::Beam { ef: 2000 },
            };
            let graph = snapshot.search_dense(&[&row], &wide, allowed, &Never).unwrap();
            assert_eq!(
                named(&graph[0].hits),
                named(&found[0].hits),
                "the graph finds all of {k}"
            );
            all.push(named(
                &snapshot
                    .search_text(&snapshot.question(text), k, allowed, snapshot.statistics(), &Never)
                    .unwrap()
                    .hits,
            ));
            all.push(named(&search_in_documents(snapshot, text, k, allowed)));
        }
    }
    all
}

/// BM25 of documents and of their documents.
fn search_in_documents(
    snapshot: &Snapshot,
    text: &str,
    k: usize,
    allowed: Option<&[NodeSet]>,
) -> Vec<dyad_index::snapshot::DocumentHit> {
    let (question, statistics) = (snapshot.question(text), snapshot.statistics());
    let weighed = question.weigh(statistics, &Never).unwrap().unwrap();
    let scores = match snapshot.document_scores(&weighed, statistics, 0.5, &Never).unwrap() {
        WeighedDocuments::Scores(scores) => Some(scores),
        WeighedDocuments::Absent => None,
        WeighedDocuments::Cancelled => unreachable!("nobody cancels"),
    };
    snapshot
        .search_weighed(&weighed, scores.as_ref(), k, allowed, &Never)
        .unwrap()
        .hits
}

/// Every answer is that of an index that is built from these documents.
pub(crate) fn check(fixture: &Fixture, model: &Model) {
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    assert_eq!(
        (snapshot.len(), snapshot.manifest().documents()),
        (model.len(), model.len() as u64)
    );
    for document in model.values() {
        let (shard, node) = snapshot.find(&document.key).unwrap().unwrap();
        let stored = snapshot.document(shard, node).unwrap();
        assert_eq!(
            (&stored.key, &stored.title, &stored.text),
            (&document.key, &document.title, &document.text)
        );
        let metadata = document.metadata.as_ref().map(|metadata| metadata.as_json().to_owned());
        assert_eq!(stored.metadata_json, metadata.unwrap_or_default());
    }
    assert_eq!(verify_current(&fixture.index()).unwrap().problems, [""; 0]);
    if model.is_empty() {
        assert!(answers(&snapshot, None).iter().all(Vec::is_empty));
        return;
    }
    let rebuilt = Fixture::new(1);
    rebuilt.write_corpus(&model.values().cloned().collect::<Vec<_>>());
    build_index(&rebuilt.config(), &mut HashSource::default(), JobControl::silent()).unwrap();
    let rebuilt = Snapshot::open(&rebuilt.index()).unwrap();
    assert_eq!(answers(&snapshot, None), answers(&rebuilt, None));
    let one = DocumentFilter::OneOf {
        field: "n".into(),
        values: vec![FieldValue::Number(1.0.into())],
    };
    for filter in [DocumentFilter::Not(Box::new(one.clone())), one] {
        assert_eq!(
            answers(&snapshot, Some(&filter)),
            answers(&rebuilt, Some(&filter)),
            "{filter:?}"
        );
    }
    for (shard, entry) in snapshot.shards().iter().zip(&snapshot.manifest().shards) {
        let since = shard.certificate().vectors - entry.live();
        assert!(100 * since <= shard.certificate().vectors && shard.certificate().lost_since <= 0.01);
        assert!(
            shard
                .certificate()
                .recall
                .iter()
                .all(|point| point.ef < 64 || point.recall_at_10 > 0.9),
            "{:?}",
            shard.certificate()
        );
    }
}

/// The index of a model, and the models of its generations.
pub(crate) struct Life {
    pub(crate) fixture: Fixture,
    pub(crate) model: Model,
    /// Of the generations that there are.
    pub(crate) history: BTreeMap<u64, Model>,
    /// Keys of every generation that there ever was.
    pub(crate) ever: BTreeMap<u64, BTreeSet<String>>,
    pub(crate) random: Random,
    pub(crate) next: usize,
}

impl Life {
    pub(crate) fn begin(seed: u64, documents: usize) -> Self {
        let (fixture, mut random) = (Fixture::new(1), Random(seed));
        let all: Vec<Document> = (0..documents).map(|number| document(number, &mut random)).collect();
        fixture.write_corpus(&all);
        let built = build_index(&fixture.config(), &mut HashSource::default(), JobControl::silent()).unwrap();
        let model: Model = all
            .into_iter()
            .map(|document| (document.key.clone(), document))
            .collect();
        let change = built.manifest.change.as_ref().unwrap();
        assert_eq!((change.read, change.indexed), (documents as u64, documents as u64));
        let (history, ever) = (
            [(1, model.clone())].into(),
            [(1, model.keys().cloned().collect())].into(),
        );
        Self {
            fixture,
            model,
            history,
            ever,
            random,
            next: documents,
        }
    }
}

#[test]
fn a_deleted_document_stays_deleted_until_it_is_added_again() {
    let mut life = Life::begin(5, 30);
    let key = "k0007".to_owned();
    for expected in [1, 0] {
        let outcome = life.fixture.delete(&[key.clone(), key.clone()]).unwrap();
        let change = outcome.change;
        assert_eq!(
            (change.read, change.indexed, change.superseded, change.rejected),
            (2, expected, 1, 1 - expected)
        );
        assert_eq!(
            outcome.manifest.is_some(),
            expected == 1,
            "a second time changes nothing"
        );
    }
    let old = life.model.remove(&key).unwrap();
    check(&life.fixture, &life.model);
    life.fixture.upsert(APPEND, std::slice::from_ref(&old)).unwrap();
    life.model.insert(key, old.clone());
    check(&life.fixture, &life.model);
    // Twice in one batch: the last one counts, and only that one is embedded.
    let twice = [
        Document {
            text: "one".into(),
            ..old.clone()
        },
        Document {
            text: "two".into(),
            ..old
        },
    ];
    life.fixture.write_corpus(&twice);
    let mut source = HashSource::default();
    let config = life.fixture.upsert_config(Operation::Upsert);
    let change = life
        .fixture
        .upsert_from("corpus.jsonl", &config, &mut source, JobControl::silent())
        .unwrap()
        .change;
    assert_eq!(
        (
            source.embedded,
            change.read,
            change.indexed,
            change.superseded,
            change.deleted
        ),
        (1, 2, 1, 1, 1)
    );
    life.model.insert(twice[1].key.clone(), twice[1].clone());
    check(&life.fixture, &life.model);
}

#[test]
fn a_merge_starts_from_the_graph_of_the_largest_shard_or_from_nothing() {
    let mut life = Life::begin(8, 25);
    let more: Vec<Document> = (100..160).map(|number| document(number, &mut life.random)).collect();
    life.fixture.upsert(APPEND, &more).unwrap();
    life.model
        .extend(more.iter().map(|document| (document.key.clone(), document.clone())));
    let gone = ["k0003", "k0101", "k0119", "k0150"].map(str::to_owned);
    life.fixture.delete(&gone).unwrap();
    life.model.retain(|key, _| !gone.contains(key));
    let before = manifest::current(&life.fixture.index()).unwrap().generation;
    let dense = |rebuild| {
        roll_back(&life.fixture.index(), Some(before), false).unwrap();
        let config = MergeConfig {
            rebuild,
            ..life.fixture.merge_config(true)
        };
        let merged = merge(&config, JobControl::silent()).unwrap().manifest.unwrap();
        assert_eq!(merged.shards.len(), 1);
        check(&life.fixture, &life.model);
        assert_eq!(verify_current(&life.fixture.index()).unwrap().problems, [""; 0]);
        merged.shards[0]
            .files
            .iter()
            .find(|file| file.path == "dense.dyad")
            .map(|file| file.crc32c)
    };
    let (started, rebuilt) = (dense(false), dense(true));
    assert_ne!(started, rebuilt);
    assert_eq!(
        (started, rebuilt),
        (dense(false), dense(true)),
        "one thread does the same again"
    );
}

#[test]
fn unchanged_texts_are_not_embedded_again() {
    let mut life = Life::begin(6, 30);
    let mut batch: Vec<Document> = life.model.values().take(12).cloned().collect();
    for document in &mut batch[4..8] {
        document.metadata = crate::fixture::metadata(&serde_json::json!({ "n": 7 }));
    }
    for document in &mut batch[8..] {
        document.text.push_str(" more");
    }
    life.fixture.write_corpus(&batch);
    let (mut source, config) = (HashSource::default(), life.fixture.upsert_config(Operation::Upsert));
    let dry = dyad_indexer::change::UpsertConfig {
        dry_run: true,
        ..config.clone()
    };
    for (config, embedded, published) in [(&dry, 0, false), (&config, 4, true), (&config, 0, false)] {
        let before = source.embedded;
        let outcome = life
            .fixture
            .upsert_from("corpus.jsonl", config, &mut source, JobControl::silent())
            .unwrap();
        let change = outcome.change;
        assert_eq!(
            (source.embedded - before, outcome.manifest.is_some()),
            (embedded, published),
            "{change:?}"
        );
        let again = embedded == 0 && !config.dry_run;
        let expected = if again { (12, 0, 12, 0) } else { (12, 8, 4, 4) };
        assert_eq!((change.read, change.indexed, change.unchanged, change.reused), expected);
    }
    life.model
        .extend(batch.into_iter().map(|document| (document.key.clone(), document)));
    check(&life.fixture, &life.model);
}

#[test]
fn append_refuses_documents_that_are_there_or_leaves_them() {
    let mut life = Life::begin(7, 20);
    let mut batch: Vec<Document> = life.model.values().take(2).cloned().collect();
    batch[0].text = "changed".into();
    batch.push(document(900, &mut life.random));
    let before = life.fixture.files();
    let error = life.fixture.upsert(APPEND, &batch).unwrap_err();
    assert!(matches!(&error, Error::KeysExist { total: 2, .. }), "{error}");
    for part in ["k0000`, `k0001", "upsert", "--skip-existing"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(life.fixture.files(), before);
    let change = life
        .fixture
        .upsert(Operation::Append { skip_existing: true }, &batch)
        .unwrap()
        .change;
    assert_eq!((change.read, change.indexed, change.unchanged), (3, 1, 2));
    life.model.insert(batch[2].key.clone(), batch[2].clone());
    check(&life.fixture, &life.model);
}
