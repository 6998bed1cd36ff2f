//! Documents that are longer than the model reads: refused, truncated, or split into passages that it reads whole.

use std::collections::BTreeMap;

use dyad_command::JobCancellation;
use dyad_corpus::Document;
use dyad_index::{ModelRecord, Snapshot};
use dyad_indexer::Error;
use dyad_indexer::change::{ChangeOutcome, Operation, Passages, UpsertConfig, delete, passages_of};
use dyad_indexer::control::JobControl;
use dyad_indexer::job::build_index;
use dyad_indexer::source::{EmbeddedDocument, LocatedDocuments, LongTexts, OnLong, VectorSource};

use crate::fixture::Fixture;
use crate::hash_source::HashSource;

/// Reads as many words as the model of fixtures says tokens, but of words of more than ten letters none.
struct Words(HashSource);

impl VectorSource for Words {
    fn model(&self) -> &ModelRecord {
        self.0.model()
    }

    fn is_in_step(&self) -> bool {
        false
    }

    fn documents(&self) -> Option<u64> {
        None
    }

    fn truncated(&self) -> Option<u64> {
        Some(0)
    }

    fn pull(
        &mut self,
        corpus: &mut LocatedDocuments<'_>,
        cancel: &JobCancellation,
    ) -> Result<Option<EmbeddedDocument>, Error> {
        let Some(embedded) = self.0.pull(corpus, cancel)? else {
            return Ok(None);
        };
        let passage = embedded.document.passage().into_owned();
        let tokens: usize = passage
            .split_whitespace()
            .map(|word| if word.len() > 10 { 40 } else { 1 })
            .sum();
        Ok(Some(EmbeddedDocument {
            truncated: Some(tokens > self.model().max_tokens),
            ..embedded
        }))
    }
}

fn document(key: &str, words: usize, word: &str) -> Document {
    let sentences: Vec<String> = (0..words / 5).map(|_| format!("{}.", [word; 5].join(" "))).collect();
    Document {
        key: key.to_owned(),
        text: sentences.join(" "),
        ..Document::default()
    }
}

#[test]
fn long_documents_are_what_was_asked_for() {
    let all = [
        document("short", 20, "one"),
        document("long", 100, "Two"),
        document("dear", 30, "unpronounceable"),
    ];
    let fixture = Fixture::empty();
    fixture.write_corpus(&all);
    let build = |on_long: OnLong| {
        let passages = Some(Words(HashSource::default()));
        let mut source = LongTexts::new(Words(HashSource::default()), on_long, passages);
        build_index(&fixture.config(), &mut source, JobControl::silent())
    };
    let refused = build(OnLong::Error).unwrap_err().to_string();
    assert!(
        refused.starts_with("document `long` has more than the 64 tokens") && refused.contains("--on-long split"),
        "{refused}"
    );
    assert_eq!(build(OnLong::Truncate).unwrap().manifest.documents(), 3);
    let manifest = build(OnLong::Split).unwrap().manifest;
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let text = |key: &str| {
        let found = snapshot.find(key).unwrap();
        found.map(|(shard, node)| snapshot.document(shard, node).unwrap().text)
    };
    assert_eq!(text("short").as_deref(), Some(all[0].text.as_str()), "whole as it is");
    assert!(text("long").is_none() && text("dear").is_none());
    // Half of 64 words, in whole sentences of five; of the others, that many words are still too long: 32, 16, 8, 4, 2,
    // 1 of 40 tokens each.
    let long: Vec<String> = (0..).map_while(|number| text(&format!("long#{number}"))).collect();
    assert_eq!(
        long.iter().map(|text| text.split(' ').count()).collect::<Vec<_>>(),
        [30, 30, 30, 10]
    );
    assert_eq!(long.join(" "), all[1].text);
    assert_eq!((0..).map_while(|number| text(&format!("dear#{number}"))).count(), 30);
    assert_eq!(manifest.documents(), 1 + 4 + 30);
    // Each is read whole; of the source's own two, which were truncated, none is left.
    assert_eq!(manifest.change.unwrap().truncated, Some(0));
}

#[test]
fn a_source_that_does_not_say_is_refused() {
    let fixture = Fixture::new(3);
    let mut source = LongTexts::new(HashSource::default(), OnLong::Error, None::<HashSource>);
    let refused = build_index(&fixture.config(), &mut source, JobControl::silent())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("does not say which texts it truncates"), "{refused}");
}

/// Changes an index by documents of which long ones are split.
fn change(fixture: &Fixture, operation: Operation, all: &[Document]) -> Result<ChangeOutcome, Error> {
    change_or_say(fixture, operation, all, false)
}

fn change_or_say(
    fixture: &Fixture,
    operation: Operation,
    all: &[Document],
    dry_run: bool,
) -> Result<ChangeOutcome, Error> {
    fixture.write_corpus(all);
    let config = UpsertConfig {
        passages: Passages::Source,
        dry_run,
        ..fixture.upsert_config(operation)
    };
    let passages = Some(Words(HashSource::default()));
    let mut source = LongTexts::new(Words(HashSource::default()), OnLong::Split, passages);
    fixture.upsert_from("corpus.jsonl", &config, &mut source, JobControl::silent())
}

/// Live keys and texts.
fn live(fixture: &Fixture) -> BTreeMap<String, String> {
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let mut live = BTreeMap::new();
    for (at, shard) in snapshot.shards().iter().enumerate() {
        for node in (0..shard.dense.len() as u32).filter(|node| shard.is_live(*node)) {
            let document = snapshot.document(at, node).unwrap();
            assert!(
                live.insert(document.key, document.text).is_none(),
                "a key is live twice"
            );
        }
    }
    live
}

/// What a build of these documents holds.
fn rebuilt(all: &[Document]) -> BTreeMap<String, String> {
    let fixture = Fixture::empty();
    fixture.write_corpus(all);
    let passages = Some(Words(HashSource::default()));
    let mut source = LongTexts::new(Words(HashSource::default()), OnLong::Split, passages);
    build_index(&fixture.config(), &mut source, JobControl::silent()).unwrap();
    live(&fixture)
}

#[test]
fn documents_that_are_split_are_replaced_whole() {
    let fixture = Fixture::empty();
    let mut all = vec![
        document("a", 100, "one"),
        document("b", 20, "two"),
        document("c", 200, "three"),
    ];
    fixture.write_corpus(&all);
    let passages = Some(Words(HashSource::default()));
    let mut source = LongTexts::new(Words(HashSource::default()), OnLong::Split, passages);
    build_index(&fixture.config(), &mut source, JobControl::silent()).unwrap();
    let upsert = |all: &[Document]| {
        let outcome = change(&fixture, Operation::Upsert, all).unwrap();
        let dyad_index::manifest::Change {
            read,
            indexed,
            unchanged,
            deleted,
            ..
        } = outcome.change;
        (read, indexed, unchanged, deleted)
    };
    // As they are.
    assert_eq!(upsert(&all), (3, 0, 3, 0));
    // Long and whole again, whole and long, shorter.
    all = vec![
        document("a", 10, "one"),
        document("b", 100, "two"),
        document("c", 100, "three"),
    ];
    let before = live(&fixture).len() as u64;
    let dry = change_or_say(&fixture, Operation::Upsert, &all, true).unwrap();
    assert_eq!(
        (dry.change.deleted, dry.documents_before, dry.documents_after),
        (before, before, 3)
    );
    let (read, indexed, unchanged, deleted) = upsert(&all);
    assert_eq!((read, indexed, unchanged, deleted), (1 + 4 + 4, 9, 0, before));
    assert_eq!(live(&fixture), rebuilt(&all));
    // Another document; of the others, one has changed.
    all[1] = document("b", 100, "four");
    all.push(document("d", 100, "five"));
    assert_eq!(upsert(&all), (2 + 4 + 4, 8, 2, 4));
    assert_eq!(live(&fixture), rebuilt(&all));
    // Metadata of passages are those of their document.
    all[3].metadata = crate::fixture::metadata(&serde_json::json!({ "n": 1 }));
    assert_eq!(upsert(&all), (3 + 4, 4, 3, 4));
    // Deleted by its key.
    delete(
        &fixture.index(),
        &passages_of(&fixture.index(), &["d".into()], false).unwrap(),
        false,
        JobControl::silent(),
    )
    .unwrap();
    all.pop();
    assert_eq!(live(&fixture), rebuilt(&all));
}

#[test]
fn documents_that_are_there_as_passages_are_not_appended() {
    let fixture = Fixture::empty();
    let a = document("a", 100, "one");
    fixture.write_corpus(std::slice::from_ref(&a));
    let passages = Some(Words(HashSource::default()));
    let mut source = LongTexts::new(Words(HashSource::default()), OnLong::Split, passages);
    build_index(&fixture.config(), &mut source, JobControl::silent()).unwrap();
    let batch = [document("a", 5, "two"), document("b", 100, "two")];
    let refused = change(&fixture, Operation::Append { skip_existing: false }, &batch).unwrap_err();
    assert!(
        matches!(&refused, Error::KeysExist { total: 1, first } if first == &["a".to_owned()]),
        "{refused}"
    );
    let outcome = change(&fixture, Operation::Append { skip_existing: true }, &batch).unwrap();
    assert_eq!((outcome.change.indexed, outcome.change.unchanged), (4, 1));
    assert_eq!(live(&fixture), rebuilt(&[a.clone(), batch[1].clone()]));
    // A document with the key of a passage, which is none: it stays, and no passage takes its place.
    change(&fixture, Operation::Upsert, &[document("c#1", 5, "whole")]).unwrap();
    let refused = change(&fixture, Operation::Upsert, &[document("c", 100, "three")]).unwrap_err();
    assert!(matches!(&refused, Error::PassageKey(key) if key == "c#1"), "{refused}");
    // One that says that it is a passage, and comes as a document, as an export has them: nothing of `a` goes with it.
    let mut exported = document("a#1", 10, "other");
    exported.metadata = crate::fixture::metadata(&serde_json::json!({ "document": "a", "passage": 1 }));
    let outcome = change(&fixture, Operation::Upsert, &[exported]).unwrap();
    assert_eq!((outcome.change.indexed, outcome.change.deleted), (1, 1));
    let keys: Vec<String> = live(&fixture).into_keys().filter(|key| key.starts_with('a')).collect();
    assert_eq!(keys, ["a#0", "a#1", "a#2", "a#3"]);
    // One that does not say so would take a passage away.
    let refused = change(&fixture, Operation::Upsert, &[document("a#2", 10, "other")]).unwrap_err();
    assert!(matches!(&refused, Error::PassageKey(key) if key == "a#2"), "{refused}");
    // A passage is one whatever its metadata have become.
    let metadata = crate::fixture::metadata(&serde_json::json!({ "lang": "en" }));
    fixture
        .update_metadata(&[Document {
            metadata,
            ..document("a#3", 10, "other")
        }])
        .unwrap();
    let longer = document("a", 120, "four");
    let outcome = change(&fixture, Operation::Upsert, std::slice::from_ref(&longer)).unwrap();
    assert_eq!((outcome.change.indexed, outcome.change.deleted), (4, 4));
    let stored = live(&fixture);
    assert_eq!(
        (0..4)
            .map(|number| stored[&format!("a#{number}")].as_str())
            .collect::<Vec<_>>()
            .join(" "),
        longer.text
    );
    // Whole, by a change that splits nothing; with a field that passages have of their own.
    let mut whole = document("a", 10, "five");
    whole.metadata = crate::fixture::metadata(&serde_json::json!({ "passage": 7 }));
    assert_eq!(
        change(&fixture, Operation::Upsert, std::slice::from_ref(&whole))
            .unwrap()
            .change
            .deleted,
        4
    );
    change(&fixture, Operation::Upsert, &[longer]).unwrap();
    let outcome = fixture.upsert(Operation::Upsert, &[whole]).unwrap();
    assert_eq!((outcome.change.indexed, outcome.change.deleted), (1, 4));
    let keys: Vec<String> = live(&fixture).into_keys().filter(|key| key.starts_with('a')).collect();
    assert_eq!(keys, ["a"]);
}
