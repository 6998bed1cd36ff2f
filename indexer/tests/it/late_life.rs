//! An index whose passages were read in their documents: after any changes each passage has the vector, the text and
//! the place that it has in an index that is built from scratch.

use std::sync::atomic::{AtomicBool, Ordering};

use dyad_corpus::Document;
use dyad_index::Snapshot;
use dyad_indexer::Error;
use dyad_indexer::change::{Operation, Passages, UpsertConfig, purge, reembed, upsert};
use dyad_indexer::context_error::ContextError;
use dyad_indexer::control::JobControl;
use dyad_indexer::job::{BuildConfig, build_index};

use crate::fixture::{Fixture, Recorder};
use crate::hash_source::HashSource;
use crate::late_life_fixture::{LateLife, LateSource, SentencesByDocument, contents, documents};
use crate::life::Random;

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
    let mut source = LateSource::with_fingerprint("f00d");
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
        &mut LateSource::with_fingerprint("beef"),
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
    let refused = upsert(
        &config,
        batch.as_mut(),
        &mut LateSource::with_fingerprint("f00d"),
        recorder.control(),
    );
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
        &mut LateSource::with_fingerprint("f00d"),
        JobControl::silent(),
    );
    let told = refused.unwrap_err().to_string();
    assert!(told.contains("`new`") && told.contains("--split"), "{told}");
}
