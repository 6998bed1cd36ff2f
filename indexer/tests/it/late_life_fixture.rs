//! An index of passages that were read in their documents, and a plain model of what it must hold.

use std::collections::BTreeMap;

use dyad_command::JobCancellation;
use dyad_corpus::{Document, PassageContext, ReadOptions, Split};
use dyad_files::space::boundless;
use dyad_index::verify::verify_current;
use dyad_index::{ModelRecord, Snapshot};
use dyad_indexer::Error;
use dyad_indexer::change::{
    ChangeOutcome, ChangeStart, DeleteConfig, MergeConfig, Operation, Passages, PurgeConfig, ReembedConfig,
    UpsertConfig, delete_documents, merge, purge, reembed, upsert,
};
use dyad_indexer::context_error::ContextError;
use dyad_indexer::control::JobControl;
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::source::{Corpus, EmbeddedDocument, LocatedDocuments, VectorSource};

use crate::fixture::{Fixture, row_of};
use crate::hash_source::HashSource;
use crate::life::Random;

/// Vectors that depend on a passage, its document, and where it stands there.
pub(crate) struct LateSource {
    pub(crate) inner: HashSource,
    pub(crate) embedded: usize,
}

impl LateSource {
    pub(crate) fn with_fingerprint(fingerprint: &str) -> Self {
        Self {
            inner: HashSource::with_fingerprint(fingerprint),
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
pub(crate) type SentencesByDocument = BTreeMap<String, Vec<String>>;

fn sentence(random: &mut Random) -> String {
    let words: Vec<String> = (0..2 + random.below(3))
        .map(|_| format!("W{}", random.below(30)))
        .collect();
    format!("{}.", words.join(" "))
}

fn sentences(random: &mut Random) -> Vec<String> {
    (0..=random.below(9)).map(|_| sentence(random)).collect()
}

pub(crate) fn documents<'a>(texts: impl Iterator<Item = (&'a String, &'a Vec<String>)>) -> Vec<Document> {
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

pub(crate) fn contents(fixture: &Fixture) -> LiveContents {
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

pub(crate) struct LateLife {
    pub(crate) fixture: Fixture,
    pub(crate) texts: SentencesByDocument,
    pub(crate) random: Random,
    pub(crate) next: usize,
}

impl LateLife {
    pub(crate) fn begin(documents: usize) -> Self {
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

    pub(crate) fn add_document(&mut self) -> String {
        let key = format!("d{:03}", self.next);
        self.next += 1;
        let text = sentences(&mut self.random);
        self.texts.insert(key.clone(), text);
        key
    }

    pub(crate) fn some_document(&mut self) -> String {
        let at = self.random.below(self.texts.len());
        self.texts.keys().nth(at).unwrap().clone()
    }

    pub(crate) fn corpus(fixture: &Fixture) -> Corpus {
        let split = Some(Split::new(7, 0).unwrap());
        Corpus::File {
            path: fixture.path("corpus.jsonl"),
            read: ReadOptions {
                split,
                ..ReadOptions::default()
            },
        }
    }

    pub(crate) fn build(&self, fixture: &Fixture, fingerprint: &str) {
        fixture.write_corpus(&documents(self.texts.iter()));
        let config = BuildConfig {
            corpus: Self::corpus(fixture),
            shards: 3,
            ..fixture.config()
        };
        build_index(
            &config,
            &mut LateSource::with_fingerprint(fingerprint),
            JobControl::silent(),
        )
        .unwrap();
    }

    pub(crate) fn upsert(&self, keys: &[&String], operation: Operation) -> Result<ChangeOutcome, Error> {
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
            &mut LateSource::with_fingerprint("f00d"),
            JobControl::silent(),
        )
    }

    /// One random change.
    pub(crate) fn step(&mut self) {
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
                    start: &ChangeStart::default(),
                    passages: true,
                    named_missing: dyad_indexer::change::MissingKeys::NAMED,
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
    pub(crate) fn check(&self, fingerprint: &str) {
        let scratch = Fixture::empty();
        self.build(&scratch, fingerprint);
        let (found, expected) = (contents(&self.fixture), contents(&scratch));
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (key, expected) in &expected {
            assert_eq!(&found[key], expected, "{key}");
        }
        assert_eq!(verify_current(&self.fixture.index()).unwrap().problems, [""; 0]);
    }

    pub(crate) fn reembed_config(&self) -> ReembedConfig {
        ReembedConfig {
            dimensions: None,
            index: self.fixture.index(),
            max_documents: 20,
            threads: 1,
            queries: None,
            target: None,
            memory: None,
            free_space: boundless,
        }
    }

    pub(crate) fn reembed(&self, fingerprint: &str) {
        reembed(
            &self.reembed_config(),
            &mut LateSource::with_fingerprint(fingerprint),
            JobControl::silent(),
        )
        .unwrap();
    }
}
