//! Generations that are read, damaged, removed or published while others are made.

use std::time::Duration;

use dyad_index::verify::verify_current;
use dyad_index::{Snapshot, manifest};
use dyad_indexer::Error;
use dyad_indexer::change::{merge, purge};
use dyad_indexer::control::JobControl;
use dyad_indexer::gc::gc;
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::rollback::roll_back;
use dyad_indexer::source::FileSource;

use crate::fixture::{Fixture, Recorder, document};
use crate::hash_source::HashSource;
use crate::races::{APPEND, expected, key, keys};

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
fn a_dry_run_of_a_purge_after_a_rollback_tells_what_goes() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    fixture.delete(&[key(1)]).unwrap();
    roll_back(&fixture.index(), Some(1), false).unwrap();
    let mut config = fixture.purge_config();
    config.rewrite.dry_run = true;
    let told = purge(&config, &[key(1)], JobControl::silent()).unwrap().collected;
    config.rewrite.dry_run = false;
    let done = purge(&config, &[key(1)], JobControl::silent()).unwrap().collected;
    assert_eq!((&told.removed, &done.removed), (&vec![1, 2], &vec![1, 2]));
    assert_eq!(done.kept, [3]);
}

#[test]
fn an_index_is_not_built_inside_another_one() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
    let config = BuildConfig {
        index: fixture.index().join("a/b"),
        ..fixture.config()
    };
    let refused = build_index(&config, &mut source, JobControl::silent()).unwrap_err();
    assert!(matches!(refused, Error::InsideIndex { .. }), "{refused}");
    assert!(!fixture.index().join("a").exists());
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
