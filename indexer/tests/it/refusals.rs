//! Bad input: each error names what is wrong and where, and the index stays as it was.

use dyad_command::JobCancellation;
use dyad_index::storage::WriteLock;
use dyad_indexer::Error;
use dyad_indexer::control::JobControl;
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::source::FileSource;

use crate::fixture::{Fixture, Recorder, documents, header};

/// Builds generation 1, changes the input, and expects the next build to fail and to leave every file as it was.
pub(crate) fn refused(change: impl FnOnce(&Fixture)) -> String {
    let fixture = Fixture::new(90);
    fixture.build().unwrap();
    let before = fixture.files();
    change(&fixture);
    let error = anyhow::Error::from(fixture.build().unwrap_err());
    assert!(fixture.files() == before, "{error:#}");
    format!("{error:#}")
}

pub(crate) fn assert_names(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "`{part}` in: {error}");
    }
}

fn append(fixture: &Fixture, line: &str) {
    let path = fixture.path("corpus.jsonl");
    let text = fs_err::read_to_string(&path).unwrap();
    fs_err::write(path, format!("{text}{line}\n")).unwrap();
}

#[test]
fn a_broken_line_of_the_corpus() {
    let error = refused(|fixture| append(fixture, "{\"_id\": \"x\", "));
    assert_names(&error, &["corpus.jsonl:91: not a JSON object"]);
}

#[test]
fn duplicate_keys_and_empty_texts() {
    let error = refused(|fixture| append(fixture, r#"{"_id": "doc-0007", "text": "again"}"#));
    assert_names(&error, &["corpus.jsonl:91: key `doc-0007` was already used on line 8"]);
    let error = refused(|fixture| append(fixture, r#"{"_id": "x", "text": "  "}"#));
    assert_names(&error, &["corpus.jsonl:91: the text of key `x` is empty"]);
}

#[test]
fn an_empty_corpus_and_a_missing_one() {
    let error = refused(|fixture| fixture.write_corpus(&[]));
    assert_names(&error, &["corpus.jsonl", "holds no documents"]);
    let error = refused(|fixture| fs_err::remove_file(fixture.path("corpus.jsonl")).unwrap());
    assert_names(&error, &["no file or directory `", "corpus.jsonl`"]);
}

#[test]
fn parameters_out_of_range_create_nothing() {
    let fixture = Fixture::new(10);
    let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
    let mut config = fixture.config();
    config.params.m = 257;
    let error = build_index(&config, &mut source, JobControl::silent()).unwrap_err();
    assert_names(&error.to_string(), &["`m` must be between 2 and 256: 257"]);
    config = fixture.config();
    config.shards = 0;
    let error = build_index(&config, &mut source, JobControl::silent()).unwrap_err();
    assert_names(&error.to_string(), &["`shards` must be between 1 and 256: 0"]);
    assert!(!fixture.index().exists());
}

#[test]
fn a_disk_without_room_is_told_before_the_work() {
    let fixture = Fixture::new(90);
    fixture.build().unwrap();
    let before = fixture.files();
    let build = |free_space| {
        let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
        build_index(
            &BuildConfig {
                free_space,
                ..fixture.config()
            },
            &mut source,
            JobControl::silent(),
        )
    };
    let error = build(|_| Ok(9_000)).unwrap_err().to_string();
    assert_names(
        &error,
        &[
            "/index` needs about ",
            " KiB of disk, and 8.8 KiB are free. ",
            "`--skip-space-check`",
        ],
    );
    assert!(fixture.files() == before);
    // 90 vectors of 24 values, codes and links twice, and the texts: more than 9,000 bytes, and no megabyte.
    assert_eq!(build(|_| Ok(1 << 20)).unwrap().manifest.generation, 2);
}

#[test]
fn a_directory_of_embeddings_is_no_index() {
    let fixture = Fixture::new(10);
    let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
    let config = BuildConfig {
        index: fixture.path("embeddings"),
        ..fixture.config()
    };
    let error = build_index(&config, &mut source, JobControl::silent())
        .unwrap_err()
        .to_string();
    assert_names(
        &error,
        &["/embeddings` contains `embeddings.json`: it is not an index. Name another directory with `--index`"],
    );
    assert!(!fixture.path("embeddings").join("CURRENT").exists());
}

/// A roll-back, or another build, may change the index at any moment of a build.
#[test]
fn a_build_waits_for_a_lock_that_is_held_for_a_moment() {
    let fixture = Fixture::new(60);
    fixture.build().unwrap();
    let held = WriteLock::acquire(&fixture.index()).unwrap();
    let release = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(held);
    });
    // While the graph is built the lock is free: a roll-back goes through, and so does a whole other build.
    let at_stage = |stage: &str| match stage {
        "graph 1/2" => _ = dyad_indexer::rollback::roll_back(&fixture.index(), Some(1), false).unwrap(),
        "graph 2/2" => assert_eq!(fixture.build().unwrap().manifest.generation, 2),
        _ => {}
    };
    let recorder = Recorder::new(&at_stage);
    let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
    let summary = build_index(&fixture.config(), &mut source, recorder.control()).unwrap();
    release.join().unwrap();
    assert_eq!(
        (summary.manifest.generation, summary.manifest.parent),
        (3, Some(2)),
        "the one that ends last is current"
    );
    assert_eq!(dyad_index::manifest::generations(&fixture.index()).unwrap(), [1, 2, 3]);
    for generation in [1, 2, 3] {
        dyad_indexer::rollback::roll_back(&fixture.index(), Some(generation), false).unwrap();
        assert!(
            dyad_index::verify::verify_current(&fixture.index())
                .unwrap()
                .problems
                .is_empty()
        );
    }
    assert_eq!(fixture.building(), 0);
}

#[test]
fn another_model_is_refused_before_anything_is_built() {
    let fixture = Fixture::new(60);
    fixture.build().unwrap();
    let before = fixture.files();
    let mut other = header();
    other.model.fingerprint = "beef".into();
    fixture.write_embeddings("other", other, &documents(60));
    let build = |new_model: bool| {
        let mut source = FileSource::open(&fixture.path("other")).unwrap();
        let config = dyad_indexer::job::BuildConfig {
            new_model,
            ..fixture.config()
        };
        let recorder = Recorder::new(&|_| {});
        let built = build_index(&config, &mut source, recorder.control());
        (built, recorder.lines.into_inner().unwrap())
    };
    let (refused, stages) = build(false);
    assert_names(
        &refused.unwrap_err().to_string(),
        &["generation 1", "f00d", "beef", "--new-model"],
    );
    assert!(stages.is_empty() && fixture.files() == before);
    assert_eq!(build(true).0.unwrap().manifest.generation, 2);
    // And back again, as after the searcher's restart with the old model failed.
    let gone = dyad_indexer::rollback::roll_back(&fixture.index(), None, false).unwrap();
    let (from, now) = (gone.before, gone.manifest);
    assert_eq!(
        (from, now.generation, now.model.fingerprint.as_str()),
        (Some(2), 1, "f00d")
    );
}

#[test]
fn a_generation_that_cannot_be_opened_is_not_gone_back_to() {
    let fixture = Fixture::new(40);
    for _ in 0..2 {
        fixture.build().unwrap();
    }
    let index = fixture.index();
    let shard = &dyad_index::manifest::load(&index, 1).unwrap().shards[0].id;
    let dense = index.join("shards").join(shard).join("dense.dyad");
    let intact = fs_err::read(&dense).unwrap();
    fs_err::write(&dense, &intact[..1000]).unwrap();
    let error = dyad_indexer::rollback::roll_back(&index, None, false)
        .unwrap_err()
        .to_string();
    assert_names(&error, &["dense.dyad", "length", "`mv` them there"]);
    assert_eq!(dyad_index::manifest::current_generation(&index).unwrap(), Some(2));
    fs_err::write(&dense, &intact).unwrap();
    // The way out of a damaged pointer needs no searcher, and no build.
    fs_err::write(index.join("CURRENT"), "rubbish").unwrap();
    let error = dyad_indexer::rollback::roll_back(&index, None, false)
        .unwrap_err()
        .to_string();
    assert_names(
        &error,
        &["CURRENT", "dyad-indexer rollback --index DIR --to GENERATION"],
    );
    assert_eq!(
        dyad_indexer::rollback::roll_back(&index, Some(1), false)
            .unwrap()
            .before,
        None
    );
    assert_eq!(dyad_index::manifest::current_generation(&index).unwrap(), Some(1));
    let error = dyad_indexer::rollback::roll_back(&index, None, false)
        .unwrap_err()
        .to_string();
    assert_names(&error, &["nothing to roll back to: generation 1 is the oldest"]);
    let nowhere = dyad_indexer::rollback::roll_back(&fixture.path("nowhere"), None, false)
        .unwrap_err()
        .to_string();
    assert_names(&nowhere, &["holds no index"]);
    assert!(!fixture.path("nowhere").exists());
}

#[test]
fn a_first_build_that_fails_publishes_nothing() {
    let fixture = Fixture::new(20);
    append(&fixture, "broken");
    fixture.build().unwrap_err();
    assert!(fixture.files().is_empty(), "{:?}", fixture.files().keys());
}

#[test]
fn cancelling_in_any_stage_changes_nothing() {
    let fixture = Fixture::new(60);
    fixture.build().unwrap();
    let before = fixture.files();
    for stage in [
        "documents",
        "graph 1/2",
        "certificate 1/2",
        "graph 2/2",
        "certificate 2/2",
    ] {
        let cancel = JobCancellation::new();
        let at_stage = |begun: &str| {
            if begun == stage {
                cancel.cancel();
            }
        };
        let recorder = Recorder::new(&at_stage);
        let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
        let error = build_index(
            &fixture.config(),
            &mut source,
            JobControl {
                progress: &recorder,
                cancel: &cancel,
            },
        )
        .unwrap_err();
        assert!(matches!(error, Error::Cancelled), "{stage}: {error}");
        assert_eq!(
            recorder.lines.into_inner().unwrap().last().map(String::as_str),
            Some(stage)
        );
        assert!(fixture.files() == before, "{stage}");
    }
    assert_eq!(fixture.build().unwrap().manifest.generation, 2);
}

#[test]
fn an_index_of_a_newer_release_is_not_touched() {
    let fixture = Fixture::new(10);
    fixture.build().unwrap();
    let index = fixture.index();
    let text = fs_err::read_to_string(index.join("manifest-000001.json")).unwrap();
    fs_err::write(
        index.join("manifest-000001.json"),
        text.replace("\"format_version\": 2", "\"format_version\": 9"),
    )
    .unwrap();
    // The pointer's checksum no longer fits, so reading is refused before the version is checked.
    assert_names(
        &dyad_index::verify::verify_current(&index).unwrap_err().to_string(),
        &["checksum in `CURRENT`"],
    );
    let lock = WriteLock::acquire(&index).unwrap();
    let error = dyad_index::manifest::point_to(&index, 1, &lock)
        .unwrap_err()
        .to_string();
    let reads = format!("reads up to {}", dyad_index::manifest::MANIFEST_VERSION);
    assert_names(&error, &["format version 9", &reads]);
    drop(lock);
    // A build goes on with generation 2 and keeps the shards that it cannot know to be unused.
    let shards = fs_err::read_dir(index.join("shards")).unwrap().count();
    assert_eq!(fixture.build().unwrap().manifest.generation, 2);
    assert_eq!(fs_err::read_dir(index.join("shards")).unwrap().count(), 2 * shards);
}

#[test]
fn a_pointer_that_cannot_be_read_is_mended_by_the_next_build() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    fs_err::write(fixture.index().join("CURRENT"), "\u{0}rubbish").unwrap();
    assert_names(
        &dyad_index::verify::verify_current(&fixture.index())
            .unwrap_err()
            .to_string(),
        &["CURRENT", "content"],
    );
    assert_eq!(fixture.build().unwrap().manifest.generation, 2);
    assert!(
        dyad_index::verify::verify_current(&fixture.index())
            .unwrap()
            .problems
            .is_empty()
    );
}
