//! Changes that meet: each is published whole, on top of what others have published meanwhile; and what is read stays.

use std::path::Path;

use dyad_index::Snapshot;
use dyad_index::manifest::{self, MinRecall};
use dyad_index::verify::verify_current;
use dyad_indexer::Error;
use dyad_indexer::change::{MergeConfig, Operation, delete, merge};
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::RecallTarget;
use dyad_indexer::job::build_index;

use crate::fixture::{Fixture, Recorder, document, documents};
use crate::hash_source::HashSource;

pub(crate) const APPEND: Operation = Operation::Append { skip_existing: false };

pub(crate) fn key(number: usize) -> String {
    document(number).key
}

pub(crate) fn keys(index: &Path) -> Vec<String> {
    let snapshot = Snapshot::open(index).unwrap();
    let all = snapshot.shards().iter().flat_map(|shard| {
        let live = (0..shard.dense.len() as u32).filter(|node| shard.is_live(*node));
        live.map(|node| shard.dense.key(node).unwrap().to_owned())
    });
    let mut all: Vec<String> = all.collect();
    all.sort();
    assert_eq!(verify_current(index).unwrap().problems, [""; 0]);
    all
}

pub(crate) fn expected(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(key).collect()
}

/// Makes `one` change, and `other` while its graph is built.
fn meanwhile(fixture: &Fixture, other: impl Fn() + Sync, one: impl FnOnce(JobControl<'_>)) {
    let stage = |stage: &str| {
        if stage == "graph" {
            other();
        }
    };
    let recorder = Recorder::new(&stage);
    one(recorder.control());
    assert!(
        recorder.lines.lock().unwrap().iter().any(|line| line == "graph"),
        "the other change was made"
    );
    assert_eq!(fixture.building(), 0);
}

#[test]
fn a_delete_meets_an_append() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let index = fixture.index();
    fixture.write_corpus(&[document(30), document(31)]);
    meanwhile(
        &fixture,
        || drop(delete(&index, &[key(3), key(31)], false, JobControl::silent()).unwrap()),
        |control| {
            let config = fixture.upsert_config(APPEND);
            fixture
                .upsert_from("corpus.jsonl", &config, &mut HashSource::default(), control)
                .unwrap();
        },
    );
    // What was not there yet could not be deleted.
    assert_eq!(
        keys(&index),
        expected((0..20).filter(|number| *number != 3).chain([30, 31]))
    );
    assert_eq!(
        manifest::current(&index).unwrap().parent,
        Some(2),
        "on top of the other"
    );
}

#[test]
fn a_delete_meets_a_merge() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let index = fixture.index();
    fixture.upsert(APPEND, &[document(30), document(31)]).unwrap();
    meanwhile(
        &fixture,
        || drop(delete(&index, &[key(3), key(31)], false, JobControl::silent()).unwrap()),
        |control| drop(merge(&fixture.merge_config(true), control).unwrap()),
    );
    assert_eq!(
        keys(&index),
        expected((0..20).filter(|number| *number != 3).chain([30]))
    );
    let current = manifest::current(&index).unwrap();
    assert_eq!(
        (current.shards.len(), current.shards[0].documents, current.documents()),
        (1, 22, 20)
    );
}

#[test]
fn of_two_upserts_the_one_that_ends_last_counts() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let index = fixture.index();
    let with = |number: usize, text: &str| dyad_corpus::Document {
        text: text.into(),
        ..document(number)
    };
    let second = Fixture::at(&fixture.path("."));
    fixture.write_corpus(&[with(3, "the first of them"), with(40, "a new one")]);
    fs_err::rename(fixture.path("corpus.jsonl"), fixture.path("first.jsonl")).unwrap();
    let config = fixture.upsert_config(Operation::Upsert);
    meanwhile(
        &fixture,
        || {
            drop(
                second
                    .upsert(Operation::Upsert, &[with(3, "the second"), with(4, "another")])
                    .unwrap(),
            );
        },
        |control| {
            drop(
                fixture
                    .upsert_from("first.jsonl", &config, &mut HashSource::default(), control)
                    .unwrap(),
            );
        },
    );
    assert_eq!(keys(&index), expected((0..20).chain([40])));
    let snapshot = Snapshot::open(&index).unwrap();
    let text = |number| {
        let (shard, node) = snapshot.find(&key(number)).unwrap().unwrap();
        snapshot.document(shard, node).unwrap().text
    };
    assert_eq!((text(3).as_str(), text(4).as_str()), ("the first of them", "another"));
}

#[test]
fn an_append_of_what_another_has_appended_meanwhile_is_refused() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let index = fixture.index();
    let second = Fixture::at(&fixture.path("."));
    fixture.write_corpus(&[document(30), document(31)]);
    meanwhile(
        &fixture,
        || drop(second.upsert(APPEND, &[document(31), document(32)]).unwrap()),
        |control| {
            let refused = fixture
                .upsert_from(
                    "corpus.jsonl",
                    &fixture.upsert_config(APPEND),
                    &mut HashSource::default(),
                    control,
                )
                .unwrap_err();
            assert!(matches!(&refused, Error::KeysExist { total: 1, .. }), "{refused}");
        },
    );
    assert_eq!(keys(&index), expected((0..20).chain([31, 32])));
}

#[test]
fn new_metadata_meet_a_merge_and_a_text_that_changes() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let index = fixture.index();
    let second = Fixture::at(&fixture.path("."));
    let with = |number: usize, text: &str, n: u64| dyad_corpus::Document {
        text: text.into(),
        metadata: crate::fixture::metadata(&serde_json::json!({ "n": n })),
        ..document(number)
    };
    second.update_metadata(&[with(5, "", 1), with(6, "", 1)]).unwrap();
    meanwhile(
        &fixture,
        || drop(second.update_metadata(&[with(3, "", 7), with(5, "", 8)]).unwrap()),
        |control| drop(merge(&fixture.merge_config(true), control).unwrap()),
    );
    let metadata = |number| {
        let snapshot = Snapshot::open(&index).unwrap();
        let (shard, node) = snapshot.find(&key(number)).unwrap().unwrap();
        snapshot.document(shard, node).unwrap().metadata_json
    };
    assert_eq!([3, 5, 6].map(metadata), [r#"{"n":7}"#, r#"{"n":8}"#, r#"{"n":1}"#]);
    assert_eq!(keys(&index), expected(0..20));
    // The text of 3 is compared, and then another one is published: the batch has it once more as it was.
    let same = document(3).text;
    fixture.write_corpus(&[with(3, &same, 9), with(30, "new", 9)]);
    fs_err::rename(fixture.path("corpus.jsonl"), fixture.path("first.jsonl")).unwrap();
    let (config, mut source) = (fixture.upsert_config(Operation::Upsert), HashSource::default());
    meanwhile(
        &fixture,
        || drop(second.upsert(Operation::Upsert, &[with(3, "another text", 2)]).unwrap()),
        |control| {
            drop(
                fixture
                    .upsert_from("first.jsonl", &config, &mut source, control)
                    .unwrap(),
            );
        },
    );
    assert_eq!(
        (metadata(3).as_str(), keys(&index)),
        (r#"{"n":9}"#, expected((0..20).chain([30])))
    );
    let snapshot = Snapshot::open(&index).unwrap();
    let (shard, node) = snapshot.find(&key(3)).unwrap().unwrap();
    assert_eq!(
        (snapshot.document(shard, node).unwrap().text, source.embedded),
        (same, 2)
    );
}

#[test]
fn a_merge_that_meets_another_is_made_again_by_the_user() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    fixture.upsert(APPEND, &[document(30)]).unwrap();
    meanwhile(
        &fixture,
        || drop(merge(&fixture.merge_config(true), JobControl::silent()).unwrap()),
        |control| {
            let refused = merge(&fixture.merge_config(true), control).unwrap_err();
            assert!(matches!(refused, Error::Contended), "{refused}");
        },
    );
    assert_eq!(keys(&fixture.index()), expected((0..20).chain([30])));
}

/// An index of an earlier release gets what this one writes, also where it has one shard.
#[test]
fn a_single_shard_is_written_again_where_that_is_asked_for() {
    let fixture = Fixture::new(20);
    let one = dyad_indexer::job::BuildConfig {
        shards: 1,
        ..fixture.config()
    };
    build_index(&one, &mut HashSource::default(), JobControl::silent()).unwrap();
    let shard = || manifest::current(&fixture.index()).unwrap().shards[0].id.clone();
    let (before, config) = (shard(), fixture.merge_config(true));
    assert!(
        merge(&config, JobControl::silent()).unwrap().manifest.is_none(),
        "it would be a copy"
    );
    let config = MergeConfig {
        rebuild: true,
        ..config
    };
    let made = merge(&config, JobControl::silent()).unwrap();
    assert_eq!((made.change.read, made.manifest.unwrap().shards.len()), (20, 1));
    assert_ne!(shard(), before);
    assert_eq!(keys(&fixture.index()), expected(0..20));
}

#[test]
fn deletes_that_break_the_kept_recall_are_refused() {
    let fixture = Fixture::new(60);
    let target = Some(RecallTarget::new(0.5, 64).unwrap());
    let config = dyad_indexer::job::BuildConfig {
        target,
        ..fixture.config()
    };
    fixture.write_corpus(&documents(60));
    build_index(&config, &mut HashSource::default(), JobControl::silent()).unwrap();
    let index = fixture.index();
    let current = manifest::current(&index).unwrap();
    assert_eq!(current.min_recall, Some(MinRecall { recall: 0.5, ef: 64 }));
    fixture.delete(&[key(1)]).unwrap();
    assert_eq!(
        manifest::current(&index).unwrap().min_recall,
        current.min_recall,
        "changes keep it"
    );
    // More than any graph reaches.
    let text = fs_err::read_to_string(index.join("manifest-000002.json")).unwrap();
    fs_err::write(
        index.join("manifest-000002.json"),
        text.replace("\"recall\": 0.5", "\"recall\": 1.5"),
    )
    .unwrap();
    let lock = dyad_index::storage::WriteLock::acquire(&index).unwrap();
    manifest::point_to(&index, 2, &lock).unwrap();
    drop(lock);
    let refused = fixture.delete(&[key(2)]).unwrap_err();
    assert!(
        matches!(refused, Error::BelowKept { .. }) && refused.to_string().contains("dyad-indexer merge"),
        "{refused}"
    );
    assert_eq!(manifest::current_generation(&index).unwrap(), Some(2));
}
