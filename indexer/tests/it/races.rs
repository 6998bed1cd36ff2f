//! Changes that meet: each is published whole, on top of what others have published meanwhile; and what is read stays.

use std::path::Path;
use std::time::Duration;

use dyad_index::manifest::MinRecall;
use dyad_index::verify::verify_current;
use dyad_index::{Snapshot, manifest};
use dyad_indexer::Error;
use dyad_indexer::change::{MergeConfig, Operation, delete, merge, purge};
use dyad_indexer::control::JobControl;
use dyad_indexer::gc::gc;
use dyad_indexer::graph_build::RecallTarget;
use dyad_indexer::job::build_index;
use dyad_indexer::rollback::roll_back;

use crate::fixture::{Fixture, HashSource, Recorder, document, documents};

const APPEND: Operation = Operation::Append { skip_existing: false };

fn key(number: usize) -> String {
    document(number).key
}

fn keys(index: &Path) -> Vec<String> {
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

fn expected(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
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
            )
        },
        |control| {
            drop(
                fixture
                    .upsert_from("first.jsonl", &config, &mut HashSource::default(), control)
                    .unwrap(),
            )
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
            )
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
fn what_is_read_is_not_removed() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let index = fixture.index();
    let reader = Snapshot::open(&index).unwrap();
    fixture.delete(&[key(1)]).unwrap();
    fixture.delete(&[key(2)]).unwrap();
    merge(&fixture.merge_config(true), JobControl::silent()).unwrap();
    let dry = gc(&index, 1, Duration::ZERO, true).unwrap();
    assert_eq!(
        (dry.removed, manifest::generations(&index).unwrap()),
        (vec![1, 2, 3], vec![1, 2, 3, 4])
    );
    let young = gc(&index, 1, Duration::from_mins(1), false).unwrap();
    assert_eq!(
        (young.removed, young.kept),
        (vec![], vec![1, 2, 3, 4]),
        "all are younger than that"
    );
    let collected = gc(&index, 1, Duration::ZERO, false).unwrap();
    assert_eq!(
        (&collected.removed[..], &collected.in_use[..], &collected.kept[..]),
        (&[2, 3][..], &[1][..], &[1, 4][..])
    );
    assert!(collected.bytes > 0, "the deletions of two generations");
    assert_eq!(fs_err::read_dir(index.join("deletions")).unwrap().count(), 0);
    for number in 0..20 {
        let (shard, node) = reader.find(&key(number)).unwrap().unwrap();
        assert_eq!(reader.document(shard, node).unwrap().key, key(number));
    }
    let purged = purge(&fixture.purge_config(), &[key(5)], JobControl::silent()).unwrap();
    assert_eq!((purged.collected.removed, purged.collected.in_use), (vec![4], vec![1]));
    drop(reader);
    let purged = purge(&fixture.purge_config(), &[key(5)], JobControl::silent()).unwrap();
    assert_eq!(
        (purged.outcome.manifest.is_none(), purged.collected.removed),
        (true, vec![1])
    );
    assert_eq!(
        keys(&index),
        expected((0..20).filter(|number| ![1, 2, 5].contains(number)))
    );
    assert_eq!(fs_err::read_dir(index.join("shards")).unwrap().count(), 1);
    let bytes: Vec<u8> = fixture.files().into_values().flatten().collect();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(!holds(&key(5)) && holds(&key(6)), "no byte of a purged key is left");
}

#[test]
fn a_damaged_manifest_of_another_generation_hides_nothing_of_the_current_one() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    fixture.delete(&[key(1)]).unwrap();
    let (index, damaged) = (fixture.index(), fixture.index().join("manifest-000001.json"));
    fs_err::write(&damaged, "{").unwrap();
    let report = dyad_indexer::inspect::inspect(&index).unwrap();
    assert_eq!(
        (report.documents, report.debt.deleted, report.debt.unnamed_bytes),
        (19, 1, None)
    );
    let problems = verify_current(&index).unwrap().problems;
    assert!(
        problems.len() == 1 && problems[0].contains("manifest-000001.json"),
        "{problems:?}"
    );
    // It may name any file, so none is removed as long as it is kept.
    fixture.delete(&[key(2)]).unwrap();
    for (keep, older_than) in [(3, Duration::ZERO), (0, Duration::from_mins(1))] {
        let refused = gc(&index, keep, older_than, false).unwrap_err().to_string();
        assert!(
            ["manifest-000001.json", "--keep", "intact copy"]
                .iter()
                .all(|part| refused.contains(part)),
            "{refused}"
        );
        assert_eq!(manifest::generations(&index).unwrap(), [1, 2, 3], "nothing was removed");
    }
    let collected = gc(&index, 2, Duration::ZERO, false).unwrap();
    assert_eq!((collected.removed, collected.kept), (vec![1], vec![2, 3]));
    assert_eq!(
        keys(&index),
        expected((0..20).filter(|number| ![1, 2].contains(number)))
    );
}

#[test]
fn a_purge_removes_generations_whose_manifests_cannot_be_read() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    fixture.delete(&[key(1)]).unwrap();
    fs_err::write(fixture.index().join("manifest-000001.json"), "{").unwrap();
    let purged = purge(&fixture.purge_config(), &[key(1)], JobControl::silent()).unwrap();
    assert_eq!(purged.collected.removed, [1, 2]);
    assert_eq!(keys(&fixture.index()), expected((0..20).filter(|number| *number != 1)));
    let bytes: Vec<u8> = fixture.files().into_values().flatten().collect();
    assert!(
        !bytes.windows(key(1).len()).any(|window| window == key(1).as_bytes()),
        "no byte of it is left"
    );
}

#[test]
fn a_purge_removes_generations_whose_shards_cannot_be_read() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let damaged = fixture
        .index()
        .join("shards")
        .join(&manifest::current(&fixture.index()).unwrap().shards[0].id);
    fixture.build().unwrap();
    fs_err::write(damaged.join("dense.dyad"), "damaged").unwrap();
    let purged = purge(&fixture.purge_config(), &[key(1)], JobControl::silent()).unwrap();
    assert_eq!(purged.collected.removed, [1, 2]);
    assert!(!damaged.exists());
    assert_eq!(keys(&fixture.index()), expected((0..20).filter(|number| *number != 1)));
    // Of the current one it must be known what it holds.
    let damaged = fixture
        .index()
        .join("shards")
        .join(&manifest::current(&fixture.index()).unwrap().shards[0].id);
    fs_err::write(damaged.join("dense.dyad"), "damaged").unwrap();
    assert!(purge(&fixture.purge_config(), &[key(2)], JobControl::silent()).is_err());
}

#[test]
fn a_build_names_the_generation_that_came_meanwhile() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let stage = |stage: &str| {
        if stage.starts_with("graph") && manifest::current_generation(&fixture.index()).unwrap() == Some(1) {
            fixture.delete(&[key(3)]).unwrap();
        }
    };
    let recorder = Recorder::new(&stage);
    build_index(&fixture.config(), &mut HashSource::default(), recorder.control()).unwrap();
    assert_eq!(keys(&fixture.index()), expected(0..20));
    let lines = recorder.lines.lock().unwrap().join("\n");
    assert!(
        ["generation 2 was published", "rollback --to 2"]
            .iter()
            .all(|part| lines.contains(part)),
        "{lines}"
    );
}

#[test]
fn a_number_of_a_generation_is_used_once() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let index = fixture.index();
    fixture.delete(&[key(1)]).unwrap();
    fixture.delete(&[key(2)]).unwrap();
    roll_back(&index, Some(2), false).unwrap();
    assert_eq!(gc(&index, 0, Duration::ZERO, false).unwrap().removed, [1, 3]);
    assert_eq!(fixture.delete(&[key(3)]).unwrap().manifest.unwrap().generation, 4);
    // A purge of what only a generation above the current one holds.
    fixture.upsert(APPEND, &[document(30)]).unwrap();
    roll_back(&index, Some(4), false).unwrap();
    assert_eq!(
        purge(&fixture.purge_config(), &[key(30)], JobControl::silent())
            .unwrap()
            .collected
            .removed,
        [5]
    );
    assert_eq!(fixture.delete(&[key(4)]).unwrap().manifest.unwrap().generation, 6);
    assert_eq!(
        keys(&index),
        expected((0..20).filter(|number| ![1, 3, 4].contains(number)))
    );
    let number = index.join(".newest-generation");
    fs_err::write(&number, "five").unwrap();
    let refused = fixture.delete(&[key(5)]).unwrap_err().to_string();
    assert!(
        [".newest-generation", "five", "remove the file"]
            .iter()
            .all(|part| refused.contains(part)),
        "{refused}"
    );
    fs_err::remove_file(number).unwrap();
    assert_eq!(fixture.delete(&[key(5)]).unwrap().manifest.unwrap().generation, 7);
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
