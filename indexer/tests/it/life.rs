//! The life of an index against a model in memory: whatever is appended, replaced, deleted, merged and rolled back, exact
//! search and BM25 answer bit for bit as an index that is built from the live documents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dyad_corpus::Document;
use dyad_index::lexical::{FieldValue, Filter, Question};
use dyad_index::snapshot::{DenseParams, SearchMode};
use dyad_index::verify::verify_current;
use dyad_index::{Never, Snapshot, manifest};
use dyad_indexer::Error;
use dyad_indexer::change::{Operation, merge, purge};
use dyad_indexer::control::JobControl;
use dyad_indexer::gc::gc;
use dyad_indexer::job::build_index;
use dyad_indexer::rollback::roll_back;

use crate::command_line::dyad_indexer;
use crate::fixture::{Fixture, HashSource, header, row_of};

const APPEND: Operation = Operation::Append { skip_existing: false };

type Model = BTreeMap<String, Document>;

struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % below.max(1) as u64) as usize
    }

    fn some_of(&mut self, model: &Model, most: usize) -> Vec<String> {
        let wanted = 1 + self.below(most);
        let keys: Vec<&String> = model.keys().collect();
        (0..wanted.min(keys.len())).map(|_| keys[self.below(keys.len())].clone()).collect()
    }
}

/// A document of few words, so that terms are shared and scores tie.
fn document(number: usize, random: &mut Random) -> Document {
    let words: Vec<String> =
        (0..=random.below(12)).map(|_| format!("w{}", random.below(9) * random.below(5))).collect();
    let metadata = (random.below(2) == 0).then(|| serde_json::json!({ "n": random.below(3) }));
    Document {
        key: format!("k{number:04}"),
        title: if random.below(3) == 0 { format!("t{}", random.below(4)) } else { String::new() },
        text: words.join(" "),
        metadata: metadata.and_then(|metadata| metadata.as_object().cloned()),
    }
}

/// Keys and scores of an exact dense search, of one by the graph that is as wide as the index, and of BM25.
fn answers(snapshot: &Snapshot, filter: Option<&Filter>) -> Vec<Vec<(String, u32)>> {
    let allowed = filter.map(|filter| snapshot.allowed(filter, &Never).unwrap().unwrap());
    let allowed = allowed.as_deref();
    let named = |hits: &[dyad_index::snapshot::Hit]| -> Vec<(String, u32)> {
        hits.iter().map(|hit| (snapshot.key(hit.shard, hit.node).unwrap().to_owned(), hit.score.to_bits())).collect()
    };
    let mut all = Vec::new();
    for text in ["w2 w8 t1", "w0 w4 w12 w16 w3 w7", "w6", "t0 t1 t2 t3 w1 w2 w3 w4 w5"] {
        let row = row_of(text);
        for k in [1, 10, 1000] {
            let exact = DenseParams { k, mode: SearchMode::Exact };
            let found = snapshot.search_dense(&[&row], &exact, allowed, &Never).unwrap();
            all.push(named(&found[0].hits));
            let wide = DenseParams { k, mode: SearchMode::Approximate { ef: 2000 } };
            let graph = snapshot.search_dense(&[&row], &wide, allowed, &Never).unwrap();
            assert_eq!(named(&graph[0].hits), named(&found[0].hits), "the graph finds all of {k}");
            all.push(named(&snapshot.search_text(&Question::new(text), k, allowed, &Never).unwrap().hits));
        }
    }
    all
}

/// Every answer is that of an index that is built from these documents.
fn check(fixture: &Fixture, model: &Model) {
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    assert_eq!((snapshot.len(), snapshot.manifest().documents()), (model.len(), model.len() as u64));
    for document in model.values() {
        let (shard, node) = snapshot.find(&document.key).unwrap().unwrap();
        let stored = snapshot.document(shard, node).unwrap();
        assert_eq!((&stored.key, &stored.title, &stored.text), (&document.key, &document.title, &document.text));
        let metadata = document.metadata.as_ref().map(|metadata| serde_json::to_string(metadata).unwrap());
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
    let one = Filter::OneOf { field: "n".into(), values: vec![FieldValue::Number(1.0)] };
    for filter in [Filter::Not(Box::new(one.clone())), one] {
        assert_eq!(answers(&snapshot, Some(&filter)), answers(&rebuilt, Some(&filter)), "{filter:?}");
    }
    for (shard, entry) in snapshot.shards().iter().zip(&snapshot.manifest().shards) {
        assert_eq!(shard.certificate().vectors, entry.live());
        assert!(
            shard.certificate().recall.iter().all(|point| point.ef < 64 || point.recall_at_10 > 0.9),
            "{:?}",
            shard.certificate()
        );
    }
}

/// The index of a model, and the models of its generations.
struct Life {
    fixture: Fixture,
    model: Model,
    /// Of the generations that there are.
    history: BTreeMap<u64, Model>,
    /// Keys of every generation that there ever was.
    ever: BTreeMap<u64, BTreeSet<String>>,
    random: Random,
    next: usize,
}

impl Life {
    fn begin(seed: u64, documents: usize) -> Self {
        let (fixture, mut random) = (Fixture::new(1), Random(seed));
        let all: Vec<Document> = (0..documents).map(|number| document(number, &mut random)).collect();
        fixture.write_corpus(&all);
        let built = build_index(&fixture.config(), &mut HashSource::default(), JobControl::silent()).unwrap();
        let model: Model = all.into_iter().map(|document| (document.key.clone(), document)).collect();
        let change = built.manifest.change.as_ref().unwrap();
        assert_eq!((change.read, change.indexed), (documents as u64, documents as u64));
        let (history, ever) = ([(1, model.clone())].into(), [(1, model.keys().cloned().collect())].into());
        Self { fixture, model, history, ever, random, next: documents }
    }

    fn published(&mut self) {
        let current = manifest::current(&self.fixture.index()).unwrap();
        if let Some(change) = &current.change {
            let parts = change.indexed + change.unchanged + change.superseded + change.rejected;
            assert_eq!(change.read, parts, "{change:?}");
        }
        self.ever.insert(current.generation, self.model.keys().cloned().collect());
        self.history.insert(current.generation, self.model.clone());
    }

    fn append(&mut self) {
        let new: Vec<Document> = (0..=self.random.below(9))
            .map(|_| {
                self.next += 1;
                document(self.next, &mut self.random)
            })
            .collect();
        self.fixture.upsert(APPEND, &new).unwrap();
        self.model.extend(new.into_iter().map(|document| (document.key.clone(), document)));
    }

    /// Some that are there, some that were, some new; some of them twice; some with other metadata only.
    fn upsert(&mut self) {
        let most = self.next + 3;
        let mut batch: Vec<Document> = Vec::new();
        for _ in 0..=self.random.below(9) {
            let mut made = document(self.random.below(most), &mut self.random);
            if let Some(old) = self.model.get(&made.key).filter(|_| self.random.0 & 1 << 40 == 0) {
                (made.title, made.text) = (old.title.clone(), old.text.clone());
            }
            batch.push(made);
        }
        self.next = most;
        self.fixture.upsert(Operation::Upsert, &batch).unwrap();
        self.model.extend(batch.into_iter().map(|document| (document.key.clone(), document)));
    }

    /// Other metadata for some that are there, and for one that is not.
    fn update_metadata(&mut self) {
        let mut batch: Vec<Document> = Vec::new();
        for key in self.random.some_of(&self.model, 9) {
            let metadata =
                (self.random.below(4) > 0).then(|| serde_json::json!({ "n": self.random.below(3), "new": true }));
            batch.push(Document {
                key,
                metadata: metadata.and_then(|new| new.as_object().cloned()),
                ..Document::default()
            });
        }
        batch.push(Document { key: "absent".into(), ..Document::default() });
        let change = self.fixture.update_metadata(&batch).unwrap().change;
        assert_eq!((change.rejected, change.read), (1, batch.len() as u64), "{change:?}");
        for new in batch {
            if let Some(document) = self.model.get_mut(&new.key) {
                document.metadata = new.metadata;
            }
        }
    }

    fn delete(&mut self) {
        let most = 1 + self.model.len() / 3;
        let mut keys = self.random.some_of(&self.model, most);
        keys.push(format!("absent-{}", self.random.below(9)));
        self.fixture.delete(&keys).unwrap();
        self.model.retain(|key, _| !keys.contains(key));
    }

    fn purge(&mut self) {
        let keys = self.random.some_of(&self.model, 2);
        let purged = purge(&self.fixture.merge_config(false), &keys, JobControl::silent()).unwrap();
        self.model.retain(|key, _| !keys.contains(key));
        // The thread that searches may still read one that holds them: it opens the next one soon.
        let until = std::time::Instant::now() + Duration::from_secs(20);
        let mut left = purged.collected.in_use;
        while !left.is_empty() {
            assert!(std::time::Instant::now() < until, "{left:?} are in use");
            left = purge(&self.fixture.merge_config(false), &keys, JobControl::silent()).unwrap().collected.in_use;
        }
        let present = manifest::generations(&self.fixture.index()).unwrap();
        self.history.retain(|generation, _| present.contains(generation));
        self.history.retain(|_, model| keys.iter().all(|key| !model.contains_key(key)));
    }

    /// The program upserts, deletes or merges, and is killed at some moment: all of it has happened, or nothing.
    fn killed(&mut self) {
        let before = manifest::current(&self.fixture.index()).unwrap().generation;
        let mut command = dyad_indexer();
        let mut after = self.model.clone();
        let name = ["upsert", "delete", "merge"][self.random.below(3)];
        command.arg(name).arg("--index").arg(self.fixture.index());
        match name {
            "upsert" => {
                self.next += 5;
                let numbers = self.random.below(self.next)..self.next;
                let batch: Vec<Document> = numbers.take(9).map(|number| document(number, &mut self.random)).collect();
                let vectors = format!("vectors-{}", self.next);
                self.fixture.write_corpus(&batch);
                self.fixture.write_embeddings(&vectors, header(), &batch);
                command.args(["--threads", "1", "--corpus"]).arg(self.fixture.path("corpus.jsonl"));
                command.arg("--embeddings").arg(self.fixture.path(&vectors));
                after.extend(batch.into_iter().map(|document| (document.key.clone(), document)));
            }
            "delete" => {
                let keys = self.random.some_of(&self.model, 9);
                fs_err::write(self.fixture.path("keys"), keys.join("\n")).unwrap();
                command.arg("--keys").arg(self.fixture.path("keys"));
                after.retain(|key, _| !keys.contains(key));
            }
            _ => _ = command.args(["--all", "--threads", "1"]),
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(self.random.below(90_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        if manifest::current(&self.fixture.index()).unwrap().generation > before {
            self.model = after;
        }
    }

    fn step(&mut self) {
        let index = self.fixture.index();
        match self.random.below(18) {
            0..=2 => self.append(),
            3..=6 => self.upsert(),
            7..=9 => self.delete(),
            10 => {
                let all = self.random.below(3) == 0;
                merge(&self.fixture.merge_config(all), JobControl::silent()).unwrap();
            }
            11 => {
                gc(&index, 1 + self.random.below(4), Duration::ZERO, false).unwrap();
                let present = manifest::generations(&index).unwrap();
                self.history.retain(|generation, _| present.contains(generation));
            }
            12 => self.purge(),
            13..=14 => self.update_metadata(),
            15..=16 => self.killed(),
            _ => match roll_back(&index, None, false) {
                Ok(now) => self.model = self.history[&now.manifest.generation].clone(),
                Err(error) => assert!(error.to_string().contains("oldest"), "{error}"),
            },
        }
        self.published();
    }
}

/// Searches for everything until it is stopped: the generations that were seen, each with all keys found.
fn search_on(index: &Path, stop: &AtomicBool) -> BTreeMap<u64, BTreeSet<String>> {
    let (mut seen, mut snapshot) = (BTreeMap::new(), Snapshot::open(index).unwrap());
    while !stop.load(Ordering::Relaxed) {
        let everything = DenseParams { k: 10_000, mode: SearchMode::Exact };
        let found = snapshot.search_dense(&[&row_of("w1")], &everything, None, &Never).unwrap().remove(0).hits;
        let keys: BTreeSet<String> =
            found.iter().map(|hit| snapshot.key(hit.shard, hit.node).unwrap().to_owned()).collect();
        assert_eq!(keys.len(), found.len(), "a key is found twice");
        let before = seen.insert(snapshot.manifest().generation, keys.clone());
        assert!(before.is_none_or(|before| before == keys), "a generation has changed");
        snapshot = Snapshot::open_after(index, Some(&snapshot)).unwrap();
    }
    seen
}

/// Set when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Random operations, with searches at the same time.
fn soak(seed: u64, operations: usize) {
    let mut life = Life::begin(seed, 40);
    let (index, stop) = (life.fixture.index(), AtomicBool::new(false));
    let seen = std::thread::scope(|scope| {
        let searching = scope.spawn(|| search_on(&index, &stop));
        // Also where an operation fails.
        let guard = Stop(&stop);
        for _ in 0..operations {
            life.step();
            check(&life.fixture, &life.model);
        }
        drop(guard);
        searching.join().unwrap()
    });
    assert!(seen.len() > operations / 4, "{} generations seen", seen.len());
    for (generation, keys) in seen {
        assert_eq!(Some(&keys), life.ever.get(&generation), "seed {seed}, generation {generation}");
    }
}

#[test]
fn random_operations_agree_with_a_model_in_memory() {
    for seed in 0..3 {
        soak(seed, 18);
    }
}

/// `cargo test --release -p dyad-indexer --test it -- --ignored soak_of_many_operations`
#[test]
#[ignore = "takes minutes"]
fn soak_of_many_operations() {
    let next = AtomicU64::new(100);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let seed @ ..120 = next.fetch_add(1, Ordering::Relaxed) {
                    soak(seed, 200);
                }
            });
        }
    });
}

#[test]
fn a_deleted_document_stays_deleted_until_it_is_added_again() {
    let mut life = Life::begin(5, 30);
    let key = "k0007".to_owned();
    for expected in [1, 0] {
        let outcome = life.fixture.delete(&[key.clone(), key.clone()]).unwrap();
        let change = outcome.change;
        assert_eq!((change.read, change.indexed, change.superseded, change.rejected), (2, expected, 1, 1 - expected));
        assert_eq!(outcome.manifest.is_some(), expected == 1, "a second time changes nothing");
    }
    let old = life.model.remove(&key).unwrap();
    check(&life.fixture, &life.model);
    life.fixture.upsert(APPEND, std::slice::from_ref(&old)).unwrap();
    life.model.insert(key, old.clone());
    check(&life.fixture, &life.model);
    // Twice in one batch: the last one counts, and only that one is embedded.
    let twice = [Document { text: "one".into(), ..old.clone() }, Document { text: "two".into(), ..old }];
    life.fixture.write_corpus(&twice);
    let mut source = HashSource::default();
    let config = life.fixture.upsert_config(Operation::Upsert);
    let change = life.fixture.upsert_from("corpus.jsonl", &config, &mut source, JobControl::silent()).unwrap().change;
    assert_eq!((source.embedded, change.read, change.indexed, change.superseded, change.deleted), (1, 2, 1, 1, 1));
    life.model.insert(twice[1].key.clone(), twice[1].clone());
    check(&life.fixture, &life.model);
}

#[test]
fn unchanged_texts_are_not_embedded_again() {
    let mut life = Life::begin(6, 30);
    let mut batch: Vec<Document> = life.model.values().take(12).cloned().collect();
    for document in &mut batch[4..8] {
        document.metadata = serde_json::json!({ "n": 7 }).as_object().cloned();
    }
    for document in &mut batch[8..] {
        document.text.push_str(" more");
    }
    life.fixture.write_corpus(&batch);
    let (mut source, config) = (HashSource::default(), life.fixture.upsert_config(Operation::Upsert));
    let dry = dyad_indexer::change::UpsertConfig { dry_run: true, ..config.clone() };
    for (config, embedded, published) in [(&dry, 0, false), (&config, 4, true), (&config, 0, false)] {
        let before = source.embedded;
        let outcome = life.fixture.upsert_from("corpus.jsonl", config, &mut source, JobControl::silent()).unwrap();
        let change = outcome.change;
        assert_eq!((source.embedded - before, outcome.manifest.is_some()), (embedded, published), "{change:?}");
        let again = embedded == 0 && !config.dry_run;
        let expected = if again { (12, 0, 12, 0) } else { (12, 8, 4, 4) };
        assert_eq!((change.read, change.indexed, change.unchanged, change.reused), expected);
    }
    life.model.extend(batch.into_iter().map(|document| (document.key.clone(), document)));
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
    let change = life.fixture.upsert(Operation::Append { skip_existing: true }, &batch).unwrap().change;
    assert_eq!((change.read, change.indexed, change.unchanged), (3, 1, 2));
    life.model.insert(batch[2].key.clone(), batch[2].clone());
    check(&life.fixture, &life.model);
}
