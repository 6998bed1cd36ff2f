//! Random operations against a model in memory: whatever is appended, replaced, deleted, merged, purged and rolled
//! back, by programs that are killed too, answers are those of the documents that are left, and searches at the same
//! time see whole generations.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dyad_corpus::Document;
use dyad_index::snapshot::{DenseParams, SearchMode};
use dyad_index::{Never, Snapshot, manifest};
use dyad_indexer::change::{Operation, merge, purge};
use dyad_indexer::control::JobControl;
use dyad_indexer::gc::gc;
use dyad_indexer::rollback::roll_back;

use crate::command_line::dyad_indexer;
use crate::fixture::{header, row_of};
use crate::life::{APPEND, Life, check, document};

impl Life {
    fn published(&mut self) {
        let current = manifest::current(&self.fixture.index()).unwrap();
        if let Some(change) = &current.change {
            let parts = change.indexed + change.unchanged + change.superseded + change.rejected;
            assert_eq!(change.read, parts, "{change:?}");
        }
        self.ever
            .insert(current.generation, self.model.keys().cloned().collect());
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
        self.model
            .extend(new.into_iter().map(|document| (document.key.clone(), document)));
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
        self.model
            .extend(batch.into_iter().map(|document| (document.key.clone(), document)));
    }

    /// Other metadata for some that are there, and for one that is not.
    fn update_metadata(&mut self) {
        let mut batch: Vec<Document> = Vec::new();
        for key in self.random.some_of(&self.model, 9) {
            let metadata =
                (self.random.below(4) > 0).then(|| serde_json::json!({ "n": self.random.below(3), "new": true }));
            batch.push(Document {
                key,
                metadata: metadata.and_then(|new| crate::fixture::metadata(&new)),
                ..Document::default()
            });
        }
        batch.push(Document {
            key: "absent".into(),
            ..Document::default()
        });
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
        let purged = purge(&self.fixture.purge_config(), &keys, JobControl::silent()).unwrap();
        self.model.retain(|key, _| !keys.contains(key));
        // The thread that searches may still read one that holds them: it opens the next one soon.
        let until = Instant::now() + Duration::from_secs(20);
        let mut left = purged.collected.in_use;
        while !left.is_empty() {
            assert!(Instant::now() < until, "{left:?} are in use");
            left = purge(&self.fixture.purge_config(), &keys, JobControl::silent())
                .unwrap()
                .collected
                .in_use;
        }
        let present = manifest::generations(&self.fixture.index()).unwrap();
        self.history.retain(|generation, _| present.contains(generation));
        self.history
            .retain(|_, model| keys.iter().all(|key| !model.contains_key(key)));
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
                let batch: Vec<Document> = numbers
                    .take(9)
                    .map(|number| document(number, &mut self.random))
                    .collect();
                let vectors = format!("vectors-{}", self.next);
                self.fixture.write_corpus(&batch);
                self.fixture.write_embeddings(&vectors, header(), &batch);
                command
                    .args(["--threads", "1", "--corpus"])
                    .arg(self.fixture.path("corpus.jsonl"));
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
        let everything = DenseParams {
            k: 10_000,
            mode: SearchMode::Exact,
        };
        let found = snapshot
            .search_dense(&[&row_of("w1")], &everything, None, &Never)
            .unwrap()
            .remove(0)
            .hits;
        let keys: BTreeSet<String> = found
            .iter()
            .map(|hit| snapshot.key(hit.shard, hit.node).unwrap().to_owned())
            .collect();
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
        assert_eq!(
            Some(&keys),
            life.ever.get(&generation),
            "seed {seed}, generation {generation}"
        );
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
