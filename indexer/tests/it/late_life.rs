//! An index whose passages were read in their documents: after any changes each passage has the vector, the text and
//! the place that it has in an index that is built from scratch.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use dyad_command::JobCancellation;
use dyad_corpus::{Document, PassageContext, ReadOptions, Split};
use dyad_files::space::boundless;
use dyad_index::verify::verify_current;
use dyad_index::{ModelRecord, Snapshot};
use dyad_indexer::Error;
use dyad_indexer::change::{
    ChangeOutcome, DeleteConfig, MergeConfig, Operation, Passages, PurgeConfig, ReembedConfig, UpsertConfig,
    delete_documents, merge, purge, reembed, upsert,
};
use dyad_indexer::context_error::ContextError;
use dyad_indexer::control::JobControl;
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::source::{Corpus, EmbeddedDocument, LocatedDocuments, VectorSource};

use crate::fixture::{Fixture, HashSource, Recorder, row_of};
use crate::life::Random;

/// Vectors that depend on a passage, its document, and where it stands there.
struct LateSource {
    inner: HashSource,
    embedded: usize,
}

impl LateSource {
    fn of(fingerprint: &str) -> Self {
        Self {
            inner: HashSource::of(fingerprint),
            embedded: 0,
        }
    }
}

impl VectorSource for LateSource {
    fn model(&self) -> &ModelRecord {
        self.inner.model()
    }

    fn is_in_step(&self) -> bool {
        false
    }

    fn documents(&self) -> Option<u64> {
        None
    }

    fn context(&self) -> PassageContext {
        "title+late".parse().unwrap()
    }

    fn pull(
        &mut self,
        corpus: &mut LocatedDocuments<'_>,
        _: &JobCancellation,
    ) -> Result<Option<EmbeddedDocument>, Error> {
        let Some(document) = corpus.next().transpose()? else {
            return Ok(None);
        };
        let document = document.value;
        let Some(place) = &document.place else {
            let context = self.context().to_string();
            return Err(ContextError::NoPlace {
                key: document.key,
                context,
            }
            .into());
        };
        let model = &self.inner.model().fingerprint;
        let row = row_of(&format!(
            "{model} {} {} {:?}",
            document.passage(),
            place.document(),
            place.bytes()
        ));
        self.embedded += 1;
        Ok(Some(EmbeddedDocument {
            document,
            row,
            truncated: None,
        }))
    }
}

/// Sentences of each document.
type SentencesByDocument = BTreeMap<String, Vec<String>>;

fn sentence(random: &mut Random) -> String {
    let words: Vec<String> = (0..2 + random.below(3))
        .map(|_| format!("W{}", random.below(30)))
        .collect();
    format!("{}.", words.join(" "))
}

fn sentences(random: &mut Random) -> Vec<String> {
    (0..=random.below(9)).map(|_| sentence(random)).collect()
}

fn documents<'a>(texts: impl Iterator<Item = (&'a String, &'a Vec<String>)>) -> Vec<Document> {
    let of = |(key, sentences): (&String, &Vec<String>)| Document {
        key: key.clone(),
        title: format!("Title of {key}"),
        text: sentences.join(" "),
        ..Document::default()
    };
    texts.map(of).collect()
}

/// Key, text, place and vector of every live passage.
type LiveContents = BTreeMap<String, (String, String, std::ops::Range<usize>, Vec<u32>)>;

fn contents(fixture: &Fixture) -> LiveContents {
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let mut found = LiveContents::new();
    for shard in snapshot.shards() {
        for node in (0..shard.dense.len() as u32).filter(|node| shard.is_live(*node)) {
            let (stored, place) = (shard.document(node).unwrap(), shard.place(node).unwrap().unwrap());
            let mut row = Vec::new();
            shard.dense.rows().decode(node, &mut row);
            let document = place
                .document
                .map_or_else(|| stored.text.clone(), |document| document.to_string());
            let bits = row.iter().map(|value| value.to_bits()).collect();
            assert!(
                found
                    .insert(stored.key, (stored.text, document, place.bytes, bits))
                    .is_none()
            );
        }
    }
    found
}

struct LateLife {
    fixture: Fixture,
    texts: SentencesByDocument,
    random: Random,
    next: usize,
}

impl LateLife {
    fn begin(documents: usize) -> Self {
        let mut life = Self {
            fixture: Fixture::empty(),
            texts: SentencesByDocument::new(),
            random: Random(11),
            next: 0,
        };
        for _ in 0..documents {
            life.add_document();
        }
        life.build(&life.fixture, "f00d");
        life
    }

    fn add_document(&mut self) -> String {
        let key = format!("d{:03}", self.next);
        self.next += 1;
        let text = sentences(&mut self.random);
        self.texts.insert(key.clone(), text);
        key
    }

    fn some_document(&mut self) -> String {
        let at = self.random.below(self.texts.len());
        self.texts.keys().nth(at).unwrap().clone()
    }

    fn corpus(fixture: &Fixture) -> Corpus {
        let split = Some(Split::new(7, 0).unwrap());
        Corpus::File {
            path: fixture.path("corpus.jsonl"),
            read: ReadOptions {
                split,
                ..ReadOptions::default()
            },
        }
    }

    fn build(&self, fixture: &Fixture, fingerprint: &str) {
        fixture.write_corpus(&documents(self.texts.iter()));
        let config = BuildConfig {
            corpus: Self::corpus(fixture),
            shards: 3,
            ..fixture.config()
        };
        build_index(&config, &mut LateSource::of(fingerprint), JobControl::silent()).unwrap();
    }

    fn upsert(&self, keys: &[&String], operation: Operation) -> Result<ChangeOutcome, Error> {
        let fixture = &self.fixture;
        fixture.write_corpus(&documents(self.texts.iter().filter(|(key, _)| keys.contains(key))));
        let config = UpsertConfig {
            passages: Passages::Batch,
            ..fixture.upsert_config(operation)
        };
        let mut batch = Self::corpus(fixture).open(false)?;
        upsert(
            &config,
            batch.as_mut(),
            &mut LateSource::of("f00d"),
            JobControl::silent(),
        )
    }

    /// One random change.
    fn step(&mut self) {
        match self.random.below(10) {
            // A sentence in the middle of a document, another one, or one less.
            0..=4 => {
                let key = self.some_document();
                let (at, kind, new) = (self.random.below(9), self.random.below(3), sentence(&mut self.random));
                let text = self.texts.get_mut(&key).unwrap();
                let at = at % text.len();
                match kind {
                    0 => text.insert(at, new),
                    1 => text[at] = new,
                    _ if text.len() > 1 => _ = text.remove(at),
                    _ => {}
                }
                self.upsert(&[&key], Operation::Upsert).unwrap();
            }
            5 => {
                let (key, text) = (self.some_document(), sentences(&mut self.random));
                self.texts.insert(key.clone(), text);
                self.upsert(&[&key], Operation::Upsert).unwrap();
            }
            6 => {
                let keys = [self.add_document(), self.add_document()];
                self.upsert(&[&keys[0], &keys[1]], Operation::Append { skip_existing: false })
                    .unwrap();
            }
            7 if self.texts.len() > 3 => {
                let key = self.some_document();
                self.texts.remove(&key);
                let index = self.fixture.index();
                let config = DeleteConfig {
                    index: &index,
                    known: None,
                    passages: true,
                    dry_run: false,
                };
                delete_documents(&config, &[key], JobControl::silent()).unwrap();
            }
            8 if self.texts.len() > 3 => {
                let key = self.some_document();
                self.texts.remove(&key);
                let config = PurgeConfig {
                    passages: true,
                    ..self.fixture.purge_config()
                };
                purge(&config, &[key], JobControl::silent()).unwrap();
            }
            _ => {
                let all = self.random.below(2) == 0;
                merge(
                    &MergeConfig {
                        rebuild: all,
                        ..self.fixture.merge_config(all)
                    },
                    JobControl::silent(),
                )
                .unwrap();
            }
        }
    }

    /// The index is one that is built from scratch by a model.
    fn check(&self, fingerprint: &str) {
        let scratch = Fixture::empty();
        self.build(&scratch, fingerprint);
        let (found, expected) = (contents(&self.fixture), contents(&scratch));
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (key, expected) in &expected {
            assert_eq!(&found[key], expected, "{key}");
        }
        assert_eq!(verify_current(&self.fixture.index()).unwrap().problems, [""; 0]);
    }

    fn reembed_config(&self) -> ReembedConfig {
        ReembedConfig {
            index: self.fixture.index(),
            max_documents: 20,
            threads: 1,
            queries: None,
            target: None,
            memory: None,
            free_space: boundless,
        }
    }

    fn reembed(&self, fingerprint: &str) {
        reembed(
            &self.reembed_config(),
            &mut LateSource::of(fingerprint),
            JobControl::silent(),
        )
        .unwrap();
    }
}

#[test]
fn after_a_hundred_changes_an_index_is_one_that_is_built_from_scratch() {
    let mut life = LateLife::begin(12);
    life.check("f00d");
    for step in 0..100 {
        life.step();
        if step % 20 == 19 {
            life.check("f00d");
        }
    }
    life.reembed("beef");
    life.check("beef");
}

#[test]
fn what_has_not_changed_is_not_embedded_again_and_neighbours_of_what_has_are() {
    let mut life = LateLife::begin(6);
    let keys: Vec<String> = life.texts.keys().cloned().collect();
    let all: Vec<&String> = keys.iter().collect();
    let same = life.upsert(&all, Operation::Upsert).unwrap();
    assert_eq!((same.change.indexed, same.manifest.is_none()), (0, true));
    let text: Vec<String> = (0..8).map(|at| format!("Word{at} one two three.")).collect();
    life.texts.insert(keys[2].clone(), text.clone());
    life.upsert(&all, Operation::Upsert).unwrap();
    life.texts.get_mut(&keys[2]).unwrap()[7] = "Other one two three.".to_owned();
    let changed = life.upsert(&all, Operation::Upsert).unwrap();
    assert_eq!(
        (changed.change.indexed, changed.change.deleted),
        (8, 8),
        "all passages of one document"
    );
    life.check("f00d");
}

#[test]
fn a_purged_passage_is_in_no_document_any_more() {
    let mut life = LateLife::begin(2);
    let key = life.add_document();
    let text: Vec<String> = ["First one two three.", "Secret one two three.", "Last one two three."]
        .map(String::from)
        .into();
    life.texts.insert(key.clone(), text);
    life.upsert(&[&key], Operation::Append { skip_existing: false })
        .unwrap();
    let document = |number: usize| contents(&life.fixture)[&format!("{key}#{number}")].1.clone();
    assert_eq!(
        document(0),
        "First one two three. Secret one two three. Last one two three."
    );
    let blank = format!("First one two three. {} Last one two three.", " ".repeat(21));
    // Deleted, it is shown no more; purged, no file has it.
    life.fixture.delete(&[format!("{key}#1")]).unwrap();
    assert_eq!((document(0), document(2)), (blank.clone(), blank.clone()));
    purge(
        &life.fixture.purge_config(),
        &[format!("{key}#1")],
        JobControl::silent(),
    )
    .unwrap();
    assert_eq!((document(0), document(2)), (blank.clone(), blank));
    for (path, bytes) in life.fixture.files() {
        let found = bytes.windows(6).any(|six| six == b"Secret");
        assert!(!found, "{}", path.display());
    }
}

/// A record that does not say where it stands is where it was: over gRPC, or without `--documents`.
#[test]
fn new_metadata_leave_a_passage_where_it_stands() {
    let life = LateLife::begin(4);
    let before = contents(&life.fixture);
    let (key, (text, ..)) = before.iter().find(|(key, _)| key.ends_with("#1")).unwrap();
    let (document, _) = key.split_once('#').unwrap();
    let metadata = crate::fixture::metadata(&serde_json::json!({"document": document, "passage": 1, "seen": true}));
    let record = Document {
        key: key.clone(),
        title: format!("Title of {document}"),
        text: text.clone(),
        metadata,
        place: None,
    };
    life.fixture.write_corpus(&[record]);
    let config = life.fixture.upsert_config(Operation::Upsert);
    let mut source = LateSource::of("f00d");
    let outcome = life
        .fixture
        .upsert_from("corpus.jsonl", &config, &mut source, JobControl::silent())
        .unwrap();
    assert_eq!(
        (outcome.change.indexed, outcome.change.reused, source.embedded),
        (1, 1, 0)
    );
    assert_eq!(contents(&life.fixture), before);
    let snapshot = Snapshot::open(&life.fixture.index()).unwrap();
    let (shard, node) = snapshot.find(key).unwrap().unwrap();
    assert!(snapshot.document(shard, node).unwrap().metadata_json.contains("seen"));
}

/// Vectors that know nothing but their passage stay where another passage of its document has changed.
#[test]
fn passages_alone_are_not_embedded_again_for_their_neighbours() {
    let mut life = LateLife {
        fixture: Fixture::empty(),
        texts: SentencesByDocument::new(),
        random: Random(3),
        next: 0,
    };
    let key = life.add_document();
    let text: Vec<String> = (0..6).map(|at| format!("Word{at} one two three four.")).collect();
    life.texts.insert(key.clone(), text);
    life.fixture.write_corpus(&documents(life.texts.iter()));
    let config = BuildConfig {
        corpus: LateLife::corpus(&life.fixture),
        ..life.fixture.config()
    };
    build_index(&config, &mut HashSource::default(), JobControl::silent()).unwrap();
    life.texts.get_mut(&key).unwrap()[5] = "Other one two three four.".to_owned();
    life.fixture.write_corpus(&documents(life.texts.iter()));
    let config = UpsertConfig {
        passages: Passages::Batch,
        ..life.fixture.upsert_config(Operation::Upsert)
    };
    let mut source = HashSource::default();
    let mut batch = LateLife::corpus(&life.fixture).open(false).unwrap();
    let changed = upsert(&config, batch.as_mut(), &mut source, JobControl::silent())
        .unwrap()
        .change;
    assert_eq!((changed.indexed, changed.reused, source.embedded), (6, 5, 1));
    assert!(
        contents(&life.fixture)
            .values()
            .all(|(_, document, ..)| document.ends_with("Other one two three four."))
    );
}

#[test]
fn an_index_without_documents_cannot_be_read_in_them() {
    let fixture = Fixture::new(10);
    fixture.build().unwrap();
    let life = LateLife {
        fixture,
        texts: SentencesByDocument::new(),
        random: Random(3),
        next: 0,
    };
    let refused = reembed(
        &life.reembed_config(),
        &mut LateSource::of("beef"),
        JobControl::silent(),
    );
    let told = refused.unwrap_err().to_string();
    assert!(
        told.contains("`title+late:0.5`") && told.contains("--context title"),
        "{told}"
    );
}

/// A generation with other contexts may come between: its vectors are not mixed with those of this one.
#[test]
fn a_context_that_changes_meanwhile_is_refused() {
    let mut life = LateLife::begin(5);
    let key = life.add_document();
    life.fixture
        .write_corpus(&documents(life.texts.iter().filter(|(one, _)| **one == key)));
    let config = UpsertConfig {
        passages: Passages::Batch,
        ..life.fixture.upsert_config(Operation::Upsert)
    };
    let mut batch = LateLife::corpus(&life.fixture).open(false).unwrap();
    let is_reembedded = AtomicBool::new(false);
    let reembed_once = |stage: &str| {
        if stage == "documents" && !is_reembedded.swap(true, Ordering::Relaxed) {
            reembed(&life.reembed_config(), &mut HashSource::default(), JobControl::silent()).unwrap();
        }
    };
    let recorder = Recorder::new(&reembed_once);
    let refused = upsert(&config, batch.as_mut(), &mut LateSource::of("f00d"), recorder.control());
    assert!(
        matches!(refused, Err(Error::Context(ContextError::Other { generation: 2, .. }))),
        "{refused:?}"
    );
}

#[test]
fn documents_that_are_no_passages_are_refused() {
    let life = LateLife::begin(3);
    life.fixture.write_corpus(&documents(
        [("new".to_owned(), vec!["Text.".to_owned()])]
            .iter()
            .map(|(a, b)| (a, b)),
    ));
    let config = life.fixture.upsert_config(Operation::Upsert);
    let refused = life.fixture.upsert_from(
        "corpus.jsonl",
        &config,
        &mut LateSource::of("f00d"),
        JobControl::silent(),
    );
    let told = refused.unwrap_err().to_string();
    assert!(told.contains("`new`") && told.contains("--split"), "{told}");
}
