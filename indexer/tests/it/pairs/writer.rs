//! The writers of an index, each with two changes, and what documents there are after them.

use std::collections::BTreeMap;
use std::time::Duration;

use dyad_corpus::{Document, ReadOptions};
use dyad_files::space::boundless;
use dyad_indexer::Error;
use dyad_indexer::change::{
    ChangeOutcome, MetadataConfig, Operation, ReembedConfig, UpsertConfig, delete, merge, purge, reembed,
    update_metadata, upsert,
};
use dyad_indexer::control::JobControl;
use dyad_indexer::gc::gc;
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::rollback::roll_back;
use dyad_indexer::source::{Corpus, FileSource};

use crate::fixture::{Fixture, document, header, metadata};
use crate::hash_source::HashSource;

/// The documents of an index, by key.
pub(crate) type DocumentsByKey = BTreeMap<String, Document>;

/// A change of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    Build,
    Append,
    AppendSkipping,
    Upsert,
    UpsertVectors,
    Metadata,
    Delete,
    Merge,
    Purge,
    Reembed,
    Rollback,
    Gc,
}

pub(crate) const ALL: [Writer; 12] = [
    Writer::Build,
    Writer::Append,
    Writer::AppendSkipping,
    Writer::Upsert,
    Writer::UpsertVectors,
    Writer::Metadata,
    Writer::Delete,
    Writer::Merge,
    Writer::Purge,
    Writer::Reembed,
    Writer::Rollback,
    Writer::Gc,
];

pub(crate) fn key(number: usize) -> String {
    document(number).key
}

fn with_text(number: usize, text: &str) -> Document {
    Document {
        text: text.to_owned(),
        ..document(number)
    }
}

fn with_metadata(document: Document, n: u64) -> Document {
    Document {
        metadata: metadata(&serde_json::json!({ "n": n })),
        ..document
    }
}

fn state_of(documents: impl IntoIterator<Item = Document>) -> DocumentsByKey {
    documents
        .into_iter()
        .map(|document| (document.key.clone(), document))
        .collect()
}

/// The documents of the first generation.
pub(crate) fn oldest() -> DocumentsByKey {
    state_of((0..20).map(document))
}

/// The documents when both changes begin: since the first generation, two have other texts, one other metadata, and one
/// is deleted.
pub(crate) fn newest() -> DocumentsByKey {
    let mut state = oldest();
    for changed in [with_text(5, "the new price is 20"), with_text(6, "the new price is 30")] {
        state.insert(changed.key.clone(), changed);
    }
    state.insert(key(8), with_metadata(document(8), 1));
    state.remove(&key(9));
    state
}

impl Writer {
    /// The documents that it adds or changes; `turn` sets those of the two changes apart.
    fn batch(self, turn: usize) -> Vec<Document> {
        let newest = newest();
        let [fifth, tenth] = [5, 10].map(|number| newest[&key(number)].clone());
        match (self, turn) {
            (Self::Build, 1) => (0..5).chain([40]).map(document).collect(),
            // An older dump.
            (Self::Build, _) => oldest().into_values().chain([document(41)]).collect(),
            (Self::Append, 1) => vec![document(30), document(31)],
            (Self::Append, _) => vec![with_text(30, "of the other"), document(50)],
            (Self::AppendSkipping, 1) => vec![with_text(5, "never"), with_text(9, "again"), tenth, document(30)],
            (Self::AppendSkipping, _) => vec![with_text(30, "of the other"), tenth, document(50)],
            // Nearly all of a nightly batch is unchanged; one has other metadata, one another text, one is new.
            (Self::Upsert | Self::UpsertVectors, 1) => {
                let changed = with_metadata(newest[&key(8)].clone(), 5);
                vec![fifth, with_text(6, "first"), changed, tenth, document(11), document(30)]
            }
            (Self::Upsert | Self::UpsertVectors, _) => [5, 6, 8, 9, 10]
                .map(|number| with_text(number, "of the other"))
                .to_vec(),
            (Self::Metadata, 1) => vec![with_metadata(document(8), 6), with_metadata(document(10), 6)],
            (Self::Metadata, _) => [5, 8, 10].map(|number| with_metadata(document(number), 9)).to_vec(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn keys(self, turn: usize) -> Vec<String> {
        let numbers: &[usize] = match (self, turn) {
            (Self::Delete, 1) => &[5, 8, 30],
            (Self::Delete, _) => &[5, 8, 10],
            (Self::Purge, 1) => &[5, 9],
            (Self::Purge, _) => &[5, 10],
            _ => &[],
        };
        numbers.iter().map(|number| key(*number)).collect()
    }

    /// Makes the change.
    pub(crate) fn make(self, fixture: &Fixture, turn: usize) -> Result<Option<ChangeOutcome>, Error> {
        let (index, control, batch) = (fixture.index(), JobControl::silent(), self.batch(turn));
        let corpus = fixture.path(&format!("corpus-{turn}.jsonl"));
        if !batch.is_empty() {
            fixture.write_corpus(&batch);
            fs_err::rename(fixture.path("corpus.jsonl"), &corpus).unwrap();
        }
        let read = ReadOptions::default();
        let file = Corpus::File {
            path: corpus.clone(),
            read: read.clone(),
        };
        let add = |config: UpsertConfig| {
            let mut batch = file.open(config.operation == Operation::Upsert)?;
            upsert(&config, batch.as_mut(), &mut HashSource::default(), control).map(Some)
        };
        match self {
            Self::Build => {
                let config = BuildConfig {
                    corpus: file.clone(),
                    ..fixture.config()
                };
                build_index(&config, &mut HashSource::default(), control).map(|_| None)
            }
            Self::Append => {
                let config = fixture.upsert_config(Operation::Append { skip_existing: false });
                let mut batch = file.open(false)?;
                upsert(&config, batch.as_mut(), &mut HashSource::default(), control).map(Some)
            }
            Self::AppendSkipping => add(fixture.upsert_config(Operation::Append { skip_existing: true })),
            Self::Upsert => add(fixture.upsert_config(Operation::Upsert)),
            Self::UpsertVectors => {
                let name = format!("embeddings-{turn}");
                fixture.write_embeddings(&name, header(), &batch);
                let mut source = FileSource::open(&fixture.path(&name))?;
                let mut batch = file.open(false)?;
                let config = fixture.upsert_config(Operation::Upsert);
                upsert(&config, batch.as_mut(), &mut source, control).map(Some)
            }
            Self::Metadata => {
                let config = MetadataConfig {
                    corpus,
                    read,
                    index,
                    dry_run: false,
                };
                update_metadata(&config, control).map(Some)
            }
            Self::Delete => delete(&index, &self.keys(turn), false, control).map(Some),
            Self::Merge => merge(&fixture.merge_config(true), control).map(Some),
            Self::Purge => {
                let purged = purge(&fixture.purge_config(), &self.keys(turn), control)?;
                // The first change reads the generation that it began with.
                assert!(turn == 2 || purged.collected.in_use.is_empty());
                Ok(Some(purged.outcome))
            }
            Self::Reembed => {
                let config = ReembedConfig {
                    dimensions: None,
                    index,
                    max_documents: 1_000,
                    threads: 1,
                    queries: None,
                    target: None,
                    memory: None,
                    free_space: boundless,
                };
                reembed(
                    &config,
                    &mut HashSource::with_fingerprint(["", "beef", "cafe"][turn]),
                    control,
                )
                .map(Some)
            }
            Self::Rollback => roll_back(&index, Some(1), false).map(|_| None),
            Self::Gc => gc(&index, 0, Duration::ZERO, false).map(|_| None),
        }
    }

    /// The documents after the change.
    pub(crate) fn apply(self, mut state: DocumentsByKey, turn: usize) -> DocumentsByKey {
        let batch = self.batch(turn);
        match self {
            Self::Build => state_of(batch),
            Self::Append | Self::AppendSkipping => {
                for document in batch {
                    state.entry(document.key.clone()).or_insert(document);
                }
                state
            }
            Self::Upsert | Self::UpsertVectors => {
                state.extend(state_of(batch));
                state
            }
            Self::Metadata => {
                for new in batch {
                    if let Some(document) = state.get_mut(&new.key) {
                        document.metadata = new.metadata;
                    }
                }
                state
            }
            Self::Delete | Self::Purge => {
                let keys = self.keys(turn);
                state.retain(|key, _| !keys.contains(key));
                state
            }
            Self::Merge | Self::Reembed | Self::Gc => state,
            Self::Rollback => oldest(),
        }
    }

    /// Whether this change may end with an error where the other one came first.
    pub(crate) fn may_fail_after(self, second: Self) -> bool {
        use Writer::{Append, AppendSkipping, Build, Merge, Purge, Reembed, Rollback, Upsert, UpsertVectors};
        match self {
            // What is to be new is there, or vectors of another model.
            Append => matches!(second, Append | AppendSkipping | Reembed),
            AppendSkipping | Upsert | UpsertVectors | Build | Reembed => second == Reembed,
            // Other shards than those that were merged.
            Merge => matches!(second, Build | Merge | Purge | Reembed | Rollback),
            _ => false,
        }
    }
}
