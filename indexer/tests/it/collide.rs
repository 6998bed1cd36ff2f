//! Writers of the same keys at the same time, with rollbacks, builds, merges and purges among them: each generation is
//! its parent, changed by the one writer that published it.
//!
//! A manifest names the generation that was current when it was published. So the documents of each generation follow
//! from those of its parent, whatever the order in which the writers came.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use dyad_corpus::{Document, Metadata, ReadOptions};
use dyad_index::manifest::{self, Manifest};
use dyad_index::verify::verify;
use dyad_index::{Never, Snapshot};
use dyad_indexer::Error;
use dyad_indexer::change::{ChangeOutcome, MetadataConfig, Operation, delete, merge, purge, update_metadata, upsert};
use dyad_indexer::control::JobControl;
use dyad_indexer::gc::gc;
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::rollback::roll_back;
use dyad_indexer::source::Corpus;

use crate::fixture::Fixture;
use crate::hash_source::HashSource;
use crate::life::{Model, Random, document};

/// Keys of all writers.
const KEYS: usize = 24;
/// Writers at the same time.
const WRITERS: usize = 3;

/// What a writer has published.
#[derive(Debug, Clone)]
enum RecordedChange {
    Build(Vec<Document>),
    /// Documents that are added where there are none of their keys.
    Append(Vec<Document>),
    Upsert(Vec<Document>),
    Metadata(Vec<Document>),
    Delete(Vec<String>),
    Merge,
}

impl RecordedChange {
    fn apply(&self, model: &mut Model) {
        match self {
            Self::Build(documents) => *model = by_key(documents),
            Self::Append(documents) => {
                for document in documents {
                    model.entry(document.key.clone()).or_insert_with(|| document.clone());
                }
            }
            Self::Upsert(documents) => model.extend(by_key(documents)),
            Self::Metadata(documents) => {
                for new in documents {
                    if let Some(document) = model.get_mut(&new.key) {
                        document.metadata.clone_from(&new.metadata);
                    }
                }
            }
            Self::Delete(keys) => model.retain(|key, _| !keys.contains(key)),
            Self::Merge => {}
        }
    }
}

fn by_key(documents: &[Document]) -> Model {
    documents
        .iter()
        .map(|document| (document.key.clone(), document.clone()))
        .collect()
}

/// Adds or replaces documents.
type AddDocuments<'a> = dyn Fn(Operation, &[Document]) -> Result<ChangeOutcome, Error> + 'a;

/// What is known of a generation.
struct Published {
    parent: Option<u64>,
    change: RecordedChange,
    /// Its documents as they were read, unless it was purged before that.
    documents: Option<Model>,
}

/// An index that several writers change.
struct Contest {
    fixture: Fixture,
    published: Mutex<BTreeMap<u64, Published>>,
    /// Documents that were added once, and purged.
    purged: Mutex<BTreeSet<String>>,
    /// Numbers of such documents.
    next: AtomicUsize,
    contended: AtomicUsize,
}

/// The documents of a generation; none where it is gone.
fn documents_of(index: &Path, manifest: &Manifest) -> Option<Model> {
    let opened = Snapshot::open_manifest(index, manifest.clone(), None);
    if matches!(opened, Err(dyad_index::Error::NoGeneration { .. })) {
        return None;
    }
    let snapshot = opened.unwrap();
    assert_eq!(
        verify(index, manifest, &Never).problems,
        [""; 0],
        "generation {}",
        manifest.generation
    );
    let mut documents = Model::new();
    for shard in snapshot.shards() {
        for node in (0..shard.dense.len() as u32).filter(|node| shard.is_live(*node)) {
            let stored = shard.document(node).unwrap();
            let metadata = Metadata::of_stored(stored.metadata_json);
            let document = Document {
                key: stored.key,
                title: stored.title,
                text: stored.text,
                metadata,
                place: None,
            };
            assert!(
                documents.insert(document.key.clone(), document).is_none(),
                "a key is live twice"
            );
        }
    }
    Some(documents)
}

impl Contest {
    fn record(&self, manifest: Option<&Manifest>, change: RecordedChange) {
        let Some(manifest) = manifest else { return };
        let documents = documents_of(&self.fixture.index(), manifest);
        let published = Published {
            parent: manifest.parent,
            change,
            documents,
        };
        let before = self.published.lock().unwrap().insert(manifest.generation, published);
        assert!(before.is_none(), "generation {} came twice", manifest.generation);
    }

    /// A batch of which most documents are as the index has them.
    fn batch(&self, random: &mut Random) -> Vec<Document> {
        let snapshot = Snapshot::open(&self.fixture.index()).unwrap();
        let current = documents_of(&self.fixture.index(), snapshot.manifest()).unwrap_or_default();
        let mut batch = Model::new();
        for _ in 0..=random.below(8) {
            let changed = document(random.below(KEYS), random);
            let unchanged = current.get(&changed.key).filter(|_| random.below(4) > 0);
            batch.insert(changed.key.clone(), unchanged.cloned().unwrap_or(changed));
        }
        batch.into_values().collect()
    }

    fn keys(random: &mut Random) -> Vec<String> {
        (0..=random.below(4))
            .map(|_| document(random.below(KEYS), random).key)
            .collect()
    }

    /// One change, or none where others were in its way.
    fn step(&self, writer: usize, random: &mut Random) {
        match self.try_step(writer, random) {
            Err(Error::Contended) => _ = self.contended.fetch_add(1, Ordering::Relaxed),
            // Another writer has removed what this one looked for.
            Err(Error::Index(dyad_index::Error::NoGeneration { .. })) => {}
            made => made.unwrap(),
        }
    }

    fn try_step(&self, writer: usize, random: &mut Random) -> Result<(), Error> {
        let (index, control) = (self.fixture.index(), JobControl::silent());
        let own = Fixture::at(&self.fixture.path(&format!("writer-{writer}")));
        let corpus = Corpus::File {
            path: own.path("corpus.jsonl"),
            read: ReadOptions::default(),
        };
        let add = |operation, batch: &[Document]| {
            own.write_corpus(batch);
            let mut read = corpus.open(operation == Operation::Upsert)?;
            let config = self.fixture.upsert_config(operation);
            upsert(&config, read.as_mut(), &mut HashSource::default(), control)
        };
        match random.below(16) {
            0 => {
                let batch: Vec<Document> = (0..KEYS / 2).map(|number| document(number * 2, random)).collect();
                own.write_corpus(&batch);
                let config = BuildConfig {
                    corpus,
                    ..self.fixture.config()
                };
                let built = build_index(&config, &mut HashSource::default(), control)?;
                self.record(Some(&built.manifest), RecordedChange::Build(batch));
            }
            1..=2 => {
                let batch = self.batch(random);
                let outcome = add(Operation::Append { skip_existing: true }, &batch)?;
                self.record(outcome.manifest.as_ref(), RecordedChange::Append(batch));
            }
            3..=7 => {
                let batch = self.batch(random);
                let outcome = add(Operation::Upsert, &batch)?;
                self.record(outcome.manifest.as_ref(), RecordedChange::Upsert(batch));
            }
            8..=9 => {
                let batch = self.batch(random);
                own.write_corpus(&batch);
                let (corpus, read) = (own.path("corpus.jsonl"), ReadOptions::default());
                let outcome = update_metadata(
                    &MetadataConfig {
                        corpus,
                        read,
                        index,
                        dry_run: false,
                    },
                    control,
                )?;
                self.record(outcome.manifest.as_ref(), RecordedChange::Metadata(batch));
            }
            10..=11 => {
                let keys = Self::keys(random);
                let outcome = delete(&index, &keys, false, control)?;
                self.record(outcome.manifest.as_ref(), RecordedChange::Delete(keys));
            }
            12 => {
                let outcome = merge(&self.fixture.merge_config(true), control)?;
                self.record(outcome.manifest.as_ref(), RecordedChange::Merge);
            }
            13 => {
                let generations = manifest::generations(&index)?;
                let to = generations[random.below(generations.len())];
                roll_back(&index, Some(to), false)?;
            }
            14 => _ = gc(&index, 2 + random.below(4), Duration::ZERO, false)?,
            _ => self.add_and_purge(random, &add)?,
        }
        Ok(())
    }

    /// Adds a document that nobody else adds, and purges it: no generation has it afterwards.
    fn add_and_purge(&self, random: &mut Random, add: &AddDocuments<'_>) -> Result<(), Error> {
        let number = 1_000 + self.next.fetch_add(1, Ordering::Relaxed);
        let secret = document(number, random);
        let key = secret.key.clone();
        let outcome = add(Operation::Upsert, std::slice::from_ref(&secret))?;
        self.record(outcome.manifest.as_ref(), RecordedChange::Upsert(vec![secret]));
        let config = self.fixture.purge_config();
        for _ in 0..20 {
            let purged = match purge(&config, std::slice::from_ref(&key), JobControl::silent()) {
                Err(Error::Contended) => continue,
                purged => purged?,
            };
            for manifest in &purged.published {
                self.record(Some(manifest), RecordedChange::Delete(vec![key.clone()]));
            }
            // Others may look at a generation for a moment.
            if purged.collected.in_use.is_empty() {
                self.purged.lock().unwrap().insert(key);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Compares every generation with what it must have.
    fn check(&self, served: &BTreeMap<u64, Model>) {
        let published = self.published.lock().unwrap();
        let mut models: BTreeMap<u64, Model> = BTreeMap::new();
        for (
            number,
            Published {
                parent,
                change,
                documents,
            },
        ) in &*published
        {
            let mut model = parent.map(|parent| models[&parent].clone()).unwrap_or_default();
            change.apply(&mut model);
            if let Some(documents) = documents {
                assert_eq!(documents, &model, "generation {number} of {parent:?}, {change:?}");
            }
            models.insert(*number, model);
        }
        let numbers: Vec<u64> = published.keys().copied().collect();
        assert_eq!(
            numbers,
            (1..=numbers.len() as u64).collect::<Vec<_>>(),
            "each number once"
        );
        for (generation, documents) in served {
            assert_eq!(
                Some(documents),
                models.get(generation),
                "generation {generation} as it was served"
            );
        }
        let index = self.fixture.index();
        for generation in manifest::generations(&index).unwrap() {
            let manifest = manifest::load(&index, generation).unwrap();
            let snapshot = Snapshot::open_manifest(&index, manifest.clone(), None).unwrap();
            assert_eq!(documents_of(&index, &manifest).as_ref(), models.get(&generation));
            for key in &*self.purged.lock().unwrap() {
                let held = snapshot
                    .shards()
                    .iter()
                    .any(|shard| shard.dense.find(key).unwrap().is_some());
                assert!(!held, "generation {generation} holds {key}, which was purged");
            }
        }
    }
}

/// The documents of all generations that are current at some moment.
fn serve(index: &Path, stop: &AtomicBool) -> BTreeMap<u64, Model> {
    let mut served = BTreeMap::new();
    while !stop.load(Ordering::Relaxed) {
        let snapshot = Snapshot::open(index).unwrap();
        let generation = snapshot.manifest().generation;
        if let Some(documents) = documents_of(index, snapshot.manifest()) {
            let before = served.insert(generation, documents.clone());
            assert!(
                before.is_none_or(|before| before == documents),
                "generation {generation} has changed"
            );
        }
    }
    served
}

fn contest(seed: u64, operations: usize) {
    let fixture = Fixture::new(1);
    let mut random = Random(seed);
    let first: Vec<Document> = (0..KEYS).map(|number| document(number, &mut random)).collect();
    fixture.write_corpus(&first);
    let built = build_index(&fixture.config(), &mut HashSource::default(), JobControl::silent()).unwrap();
    let contest = Contest {
        fixture,
        published: Mutex::default(),
        purged: Mutex::default(),
        next: AtomicUsize::new(0),
        contended: AtomicUsize::new(0),
    };
    contest.record(Some(&built.manifest), RecordedChange::Build(first));
    let (index, stop) = (contest.fixture.index(), AtomicBool::new(false));
    let served = std::thread::scope(|scope| {
        let reader = scope.spawn(|| serve(&index, &stop));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                fs_err::create_dir_all(contest.fixture.path(&format!("writer-{writer}"))).unwrap();
                let mut random = Random(seed * 31 + writer as u64 + 1);
                let contest = &contest;
                scope.spawn(move || (0..operations / WRITERS).for_each(|_| contest.step(writer, &mut random)))
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        let served = reader.join().unwrap();
        for ended in ended {
            ended.unwrap();
        }
        served
    });
    contest.check(&served);
    let (generations, contended) = (
        contest.published.lock().unwrap().len(),
        contest.contended.load(Ordering::Relaxed),
    );
    let purged = contest.purged.lock().unwrap().len();
    let counts = format!("{generations} generations, {contended} operations contended, {purged} documents purged");
    assert!(
        generations > operations / 3 && contended < operations / 3,
        "seed {seed}: {counts}"
    );
}

#[test]
fn writers_of_the_same_keys_lose_nothing_and_bring_nothing_back() {
    for seed in 0..2 {
        contest(seed, 45);
    }
}

/// `cargo test --release -p dyad-indexer --test it -- --ignored --nocapture contest_of_many_operations`
#[test]
#[ignore = "takes minutes"]
fn contest_of_many_operations() {
    for seed in 100..120 {
        contest(seed, 150);
    }
}
