//! Built shards that are kept until they are published: a build that is started again builds what is left, and of
//! nothing else.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dyad_command::JobCancellation;
use dyad_corpus::Document;
use dyad_files::space::SpaceError;
use dyad_files::{DirLock, npy};
use dyad_index::format::RowType;
use dyad_index::{Snapshot, TextLanguage};
use dyad_indexer::Error;
use dyad_indexer::change::reembed;
use dyad_indexer::control::JobControl;
use dyad_indexer::gc::gc;
use dyad_indexer::graph_build::{BuildParams, RecallTarget};
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::source::{FileSource, KeptSource};

use crate::fixture::{DIM, Fixture, Recorder, documents};
use crate::hash_source::HashSource;
use crate::life::{Life, check};

const ALL: usize = 120;

/// Cancelled when the graph of shard `at` begins; with the shards that were built, and those that were there.
fn cancelled_at(at: &str, run: impl FnOnce(JobControl<'_>) -> Result<(), Error>) -> (bool, usize, usize) {
    let cancel = JobCancellation::new();
    let stage = |stage: &str| {
        if stage.starts_with("graph") && stage.ends_with(at) {
            cancel.cancel();
        }
    };
    let recorder = Recorder::new(&stage);
    let done = run(JobControl {
        cancel: &cancel,
        ..recorder.control()
    });
    let ended = matches!(done, Err(Error::Cancelled));
    assert!(ended || done.is_ok(), "{done:?}");
    let lines = recorder.lines.into_inner().unwrap();
    let count = |of: &dyn Fn(&String) -> bool| lines.iter().filter(|line| of(line)).count();
    let built = count(&|line| line.starts_with("graph")) - usize::from(ended);
    (
        ended,
        built,
        count(&|line| line.ends_with("as a build that was ended has left it")),
    )
}

fn build(config: &BuildConfig, fixture: &Fixture, at: &str) -> (bool, usize, usize) {
    cancelled_at(at, |control| {
        build_index(config, &mut FileSource::open(&fixture.path("embeddings"))?, control).map(drop)
    })
}

fn config(fixture: &Fixture) -> BuildConfig {
    BuildConfig {
        shards: 4,
        ..fixture.config()
    }
}

/// Directories of built shards, whole or not.
fn kept(fixture: &Fixture) -> Vec<PathBuf> {
    let paths = fs_err::read_dir(fixture.index())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_kept = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(".built-");
    let mut paths: Vec<PathBuf> = paths.filter(is_kept).collect();
    paths.sort();
    paths
}

/// The vectors' files of the current generation.
fn dense(fixture: &Fixture) -> Vec<Vec<u8>> {
    let manifest = Snapshot::open(&fixture.index()).unwrap().manifest().clone();
    let path = |id: &str| fixture.index().join("shards").join(id).join("dense.dyad");
    manifest
        .shards
        .iter()
        .map(|shard| fs_err::read(path(&shard.id)).unwrap())
        .collect()
}

#[test]
fn a_build_that_is_repeated_builds_what_is_left() {
    let (fixture, whole) = (Fixture::new(ALL), Fixture::new(ALL));
    assert_eq!(build(&config(&fixture), &fixture, "3/4"), (true, 2, 0));
    assert!(kept(&fixture).len() >= 2 && fixture.building() == 0);
    assert_eq!(build(&config(&fixture), &fixture, "4/4"), (true, 1, 2));
    assert_eq!(build(&config(&fixture), &fixture, "none"), (false, 1, 3));
    assert_eq!((kept(&fixture).len(), fixture.building()), (0, 0));
    assert_eq!(build(&config(&whole), &whole, "none"), (false, 4, 0));
    assert!(dense(&fixture) == dense(&whole), "one thread: the same graphs");
    assert_eq!(
        dyad_index::verify::verify_current(&fixture.index()).unwrap().problems,
        [""; 0]
    );
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    for document in documents(ALL) {
        let (shard, node) = snapshot.find(&document.key).unwrap().unwrap();
        assert_eq!(snapshot.document(shard, node).unwrap().text, document.text);
    }
}

/// Builds of other shards, each in one thing.
fn other_builds(fixture: &Fixture) -> [(&'static str, BuildConfig); 7] {
    let base = || config(fixture);
    let questions = |name: &str, value: f32| {
        let row: Vec<f32> = (0..DIM).map(|at| value + at as f32).collect();
        npy::write(&fixture.path(name), &[1, DIM], &row).unwrap();
        Some(fixture.path(name))
    };
    [
        (
            "beam",
            BuildConfig {
                params: BuildParams {
                    ef_construction: 41,
                    ..base().params
                },
                ..base()
            },
        ),
        (
            "seed",
            BuildConfig {
                params: BuildParams {
                    seed: 2,
                    ..base().params
                },
                ..base()
            },
        ),
        (
            "rows",
            BuildConfig {
                row_type: RowType::F16,
                ..base()
            },
        ),
        (
            "language",
            BuildConfig {
                language: Some(TextLanguage::German),
                ..base()
            },
        ),
        (
            "width",
            BuildConfig {
                target: Some(RecallTarget::new(0.1, 100).unwrap()),
                ..base()
            },
        ),
        (
            "questions",
            BuildConfig {
                queries: questions("one.npy", 1.0),
                ..base()
            },
        ),
        (
            "other questions",
            BuildConfig {
                queries: questions("two.npy", -40.0),
                ..base()
            },
        ),
    ]
}

#[test]
fn only_the_same_shards_are_taken() {
    let fixture = Fixture::new(ALL);
    let begin = || assert!(build(&config(&fixture), &fixture, "4/4").0);
    begin();
    // Damaged: a file of the text index of one, the record of another.
    let whole: Vec<PathBuf> = kept(&fixture)
        .into_iter()
        .filter(|dir| dir.join("built.json").exists())
        .collect();
    let [first, second, _] = &whole[..] else {
        panic!("three are kept: {whole:?}")
    };
    let text = fs_err::read_dir(first.join("shard/text"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let largest = text.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = fs_err::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs_err::write(&largest, bytes).unwrap();
    fs_err::write(second.join("built.json"), r#"{"documents":3,"files":[]"#).unwrap();
    assert_eq!(build(&config(&fixture), &fixture, "none"), (false, 3, 1));

    // Anything that a shard is made of, each alone: nothing is taken, and what is kept goes.
    let base = || config(&fixture);
    let others = other_builds(&fixture);
    for (what, other) in &others {
        begin();
        let before = kept(&fixture);
        assert_eq!(build(other, &fixture, "2/4"), (true, 1, 0), "{what}");
        assert!(before.iter().all(|dir| !dir.exists()), "{what}");
    }
    begin();
    assert_eq!(build(&others[5].1, &fixture, "4/4"), (true, 3, 0));
    assert_eq!(build(&others[6].1, &fixture, "4/4"), (true, 3, 0));
    // A target is checked again, of the same measurement.
    begin();
    let within = |recall| BuildConfig {
        target: Some(RecallTarget::new(recall, 64).unwrap()),
        ..base()
    };
    assert_eq!(build(&within(0.01), &fixture, "4/4"), (true, 0, 3));

    // Vectors, metadata and the model, each alone.
    let by =
        |source: &mut HashSource, at: &str| cancelled_at(at, |control| build_index(&base(), source, control).map(drop));
    assert_eq!(
        by(&mut HashSource::default(), "4/4"),
        (true, 0, 3),
        "the same vectors from elsewhere"
    );
    let swapped = || {
        let mut source = HashSource::default();
        source.change = Box::new(|_, row| row.swap(0, 1));
        source
    };
    assert_eq!(by(&mut swapped(), "4/4"), (true, 3, 0));
    let described = |document| Document {
        metadata: crate::fixture::metadata(&serde_json::json!({ "n": 1 })),
        ..document
    };
    fixture.write_corpus(&documents(ALL).into_iter().map(described).collect::<Vec<_>>());
    assert_eq!(by(&mut swapped(), "4/4"), (true, 3, 0));
    assert_eq!(by(&mut HashSource::default(), "4/4"), (true, 3, 0));
    let other_model = BuildConfig {
        new_model: true,
        ..base()
    };
    let built = cancelled_at("none", |control| {
        build_index(&other_model, &mut HashSource::with_fingerprint("beef"), control).map(drop)
    });
    assert_eq!(built, (false, 4, 0));
    assert_eq!(kept(&fixture).len(), 0);
}

/// Room for what is left, and a publish that fails.
#[test]
fn kept_shards_count_as_written_and_survive_a_failed_publish() {
    static FREE: AtomicU64 = AtomicU64::new(0);
    let fixture = Fixture::new(ALL);
    let of = || BuildConfig {
        free_space: |_| Ok(FREE.load(Ordering::Relaxed)),
        ..config(&fixture)
    };
    let needed = || {
        FREE.store(0, Ordering::Relaxed);
        let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
        match build_index(&of(), &mut source, JobControl::silent()).unwrap_err() {
            Error::Space(SpaceError::Full { needed, .. }) => needed,
            other => panic!("{other}"),
        }
    };
    let whole = needed();
    assert!(build(&config(&fixture), &fixture, "4/4").0);
    let left = needed();
    assert!(left < whole, "{left} of {whole}");
    FREE.store(left, Ordering::Relaxed);
    // The pointer's place is taken.
    let pointer = fixture.index().join(format!("CURRENT.tmp-{}", std::process::id()));
    let run = |control: JobControl<'_>| {
        build_index(&of(), &mut FileSource::open(&fixture.path("embeddings"))?, control).map(drop)
    };
    let block = |stage: &str| {
        if stage.starts_with("graph") && !pointer.exists() {
            fs_err::create_dir(&pointer).unwrap();
        }
    };
    let blocked = Recorder::new(&block);
    assert!(run(blocked.control()).is_err());
    fs_err::remove_dir(&pointer).unwrap();
    assert_eq!(cancelled_at("none", run), (false, 0, 4));
    assert_eq!(kept(&fixture).len(), 0);
    assert_eq!(
        dyad_index::verify::verify_current(&fixture.index()).unwrap().problems,
        [""; 0]
    );
}

/// Of a first build that was given up.
#[test]
fn gc_frees_an_index_that_has_no_generation() {
    let fixture = Fixture::new(ALL);
    assert!(build(&config(&fixture), &fixture, "4/4").0);
    let collect = |dry_run| gc(&fixture.index(), 3, Duration::ZERO, dry_run);
    assert!(collect(true).unwrap().bytes > 0 && !kept(&fixture).is_empty());
    assert!(collect(false).unwrap().bytes > 0 && kept(&fixture).is_empty());
    assert!(matches!(
        collect(false).unwrap_err(),
        Error::Index(dyad_index::Error::NoIndex { .. })
    ));
}

#[test]
fn what_another_job_builds_is_built_next_to_it() {
    let fixture = Fixture::new(ALL);
    assert!(build(&config(&fixture), &fixture, "3/4").0);
    let dirs = kept(&fixture);
    let locks: Vec<DirLock> = dirs
        .iter()
        .map(|dir| DirLock::acquire(dir, Duration::ZERO).unwrap())
        .collect();
    assert_eq!(build(&config(&fixture), &fixture, "none"), (false, 4, 0));
    assert!(dirs.iter().all(|dir| dir.exists()));
    assert_eq!(gc(&fixture.index(), 3, Duration::ZERO, false).unwrap().bytes, 0);
    drop(locks);
    // Nobody's by now.
    assert!(gc(&fixture.index(), 3, Duration::ZERO, true).unwrap().bytes > 0 && !kept(&fixture).is_empty());
    assert!(gc(&fixture.index(), 3, Duration::ZERO, false).unwrap().bytes > 0);
    assert_eq!(kept(&fixture).len(), 0);
}

/// Vectors and shards: the documents are embedded once, and each shard is built once.
#[test]
fn a_reembedding_that_is_repeated_builds_what_is_left() {
    let life = Life::begin(10, ALL);
    let config = crate::reembed::config(&life.fixture, 40);
    let run = |at: &str| {
        let mut source = KeptSource::new(HashSource::with_fingerprint("beef"), &life.fixture.index());
        let (ended, built, taken) = cancelled_at(at, |control| reembed(&config, &mut source, control).map(drop));
        (ended, built, taken, source.reused())
    };
    assert_eq!(run("3/3"), (true, 2, 0, 0));
    assert_eq!(run("none"), (false, 1, 2, ALL as u64));
    assert_eq!(kept(&life.fixture).len(), 0);
    check(&life.fixture, &life.model);
}
