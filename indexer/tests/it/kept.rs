//! Vectors that are kept until they are published: a job that is started again embeds only what is left.

use std::sync::atomic::{AtomicUsize, Ordering};

use dyad_command::JobCancellation;
use dyad_corpus::Document;
use dyad_files::space::bytes_below;
use dyad_index::Snapshot;
use dyad_indexer::Error;
use dyad_indexer::change::reembed;
use dyad_indexer::control::JobControl;
use dyad_indexer::gc::gc;
use dyad_indexer::job::build_index;
use dyad_indexer::source::{EmbeddedDocument, KeptSource, LocatedDocuments, LongTexts, OnLong, VectorSource};

use crate::bulk::{model_of, some};
use crate::fixture::{DIM, Fixture, row_of};
use crate::hash_source::HashSource;
use crate::life::{Life, check};

/// As many documents as three parts hold and a few more.
const ALL: usize = 3_100;
const PART: usize = 1_024;

/// Counts what is embedded, and fails after the first `after` documents.
struct Failing<'a> {
    inner: HashSource,
    embedded: &'a AtomicUsize,
    after: usize,
    tells_long: bool,
}

impl VectorSource for Failing<'_> {
    fn model(&self) -> &dyad_index::ModelRecord {
        self.inner.model()
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
        if self.embedded.load(Ordering::Relaxed) >= self.after {
            return Err(Error::Cancelled);
        }
        let pulled = self.inner.pull(corpus, cancel)?;
        self.embedded
            .fetch_add(usize::from(pulled.is_some()), Ordering::Relaxed);
        // Every second text.
        let is_long = |embedded: &EmbeddedDocument| embedded.document.key.ends_with(['1', '3', '5', '7', '9']);
        Ok(pulled.map(|embedded| EmbeddedDocument {
            truncated: Some(self.tells_long && is_long(&embedded)),
            ..embedded
        }))
    }
}

/// Builds, and says how many documents were embedded for it.
fn build(fixture: &Fixture, after: usize) -> (Result<Option<u64>, Error>, usize) {
    let embedded = AtomicUsize::new(0);
    let failing = Failing {
        inner: HashSource::default(),
        embedded: &embedded,
        after,
        tells_long: false,
    };
    let mut source = KeptSource::new(failing, &fixture.index());
    let built = build_index(&fixture.config(), &mut source, JobControl::silent());
    let truncated = built.map(|summary| summary.manifest.change.unwrap().truncated);
    (truncated, embedded.load(Ordering::Relaxed))
}

fn kept(fixture: &Fixture) -> usize {
    let names = fs_err::read_dir(fixture.index())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    names
        .filter(|name| name.to_string_lossy().starts_with(".embedded-"))
        .count()
}

/// The vectors of the documents, which have the texts that they should have.
fn rows(fixture: &Fixture, documents: &[Document]) -> Vec<Vec<f32>> {
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    assert_eq!(snapshot.manifest().documents(), documents.len() as u64);
    let row = |document: &Document| {
        let (shard, node) = snapshot.find(&document.key).unwrap().unwrap();
        assert_eq!(snapshot.document(shard, node).unwrap().text, document.text);
        let mut row = Vec::new();
        snapshot.shards()[shard].dense.rows().decode(node, &mut row);
        assert!(
            row_of(&document.passage())
                .iter()
                .zip(&row)
                .all(|(one, other)| (one - other).abs() < 1e-6)
        );
        row
    };
    documents.iter().map(row).collect()
}

#[test]
fn a_build_that_is_repeated_embeds_what_is_left() {
    let mut all: Vec<Document> = some(0..ALL);
    let fixture = Fixture::empty();
    fixture.write_corpus(&all);
    let (ended, embedded) = build(&fixture, 2 * PART + 500);
    assert!(matches!(ended, Err(Error::Cancelled)) && embedded == 2 * PART + 500);
    assert_eq!(kept(&fixture), 1);
    // Ended again; some texts are other ones by now, and their order.
    all[7].text = "w1 w2 w3".to_owned();
    all.rotate_left(40);
    fixture.write_corpus(&all);
    let bytes = || bytes_below(&fixture.index()).unwrap();
    let (ended, embedded) = build(&fixture, 0);
    assert!(matches!(ended, Err(Error::Cancelled)) && embedded == 0);
    let before = bytes();
    let (ended, embedded) = build(&fixture, 300);
    assert!(matches!(ended, Err(Error::Cancelled)) && embedded == 300);
    assert!(
        bytes() - before < 300 * 2 * (4 * DIM as u64 + 64),
        "what was found is not written again"
    );
    let (built, embedded) = build(&fixture, usize::MAX);
    // What neither has embedded, and the changed text.
    assert_eq!(embedded, ALL - (2 * PART + 500) + 1 - 300);
    assert_eq!(built.unwrap(), Some(0));
    assert_eq!(kept(&fixture), 0);
    let rows = rows(&fixture, &all);
    // Without what was kept, all are.
    assert_eq!(build(&fixture, usize::MAX).1, ALL);
    assert_eq!(self::rows(&fixture, &all), rows);
}

#[test]
fn what_is_damaged_of_another_model_or_in_use_is_embedded_again() {
    let all: Vec<Document> = some(0..PART + 10);
    let fixture = Fixture::empty();
    fixture.write_corpus(&all);
    assert!(build(&fixture, PART + 3).0.is_err());
    let dir = fs_err::read_dir(fixture.index())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let dir = dir
        .into_iter()
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with(".embedded-"))
        .unwrap();
    // In use: by a source that has begun.
    let mut documents = all
        .iter()
        .cloned()
        .zip(1..)
        .map(|(value, line)| Ok(dyad_corpus::Located { value, line }));
    let mut other = KeptSource::new(HashSource::default(), &fixture.index());
    other.pull(&mut documents, &JobCancellation::new()).unwrap();
    assert_eq!(other.reused(), PART as u64 + 3);
    let (built, embedded) = build(&fixture, usize::MAX);
    assert!(built.is_ok() && embedded == PART + 10 && dir.exists());
    drop(other);
    // Damaged.
    let vectors = fs_err::read_dir(dir.join("whole"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    for path in vectors.filter(|path| path.extension().is_some_and(|extension| extension == "npy")) {
        let mut bytes = fs_err::read(&path).unwrap();
        let at = bytes.len() - 3;
        bytes[at] ^= 1;
        fs_err::write(&path, bytes).unwrap();
    }
    let (built, embedded) = build(&fixture, usize::MAX);
    assert!(built.is_ok() && embedded == PART + 10 && !dir.exists());
    check(&fixture, &model_of(&all));
    // Of another model, which is not published: what is left goes with `gc`.
    let mut other = KeptSource::new(HashSource::with_fingerprint("beef"), &fixture.index());
    let mut documents = all
        .iter()
        .cloned()
        .zip(1..)
        .map(|(value, line)| Ok(dyad_corpus::Located { value, line }));
    other.pull(&mut documents, &JobCancellation::new()).unwrap();
    assert_eq!(
        gc(&fixture.index(), 3, std::time::Duration::ZERO, false).unwrap().bytes,
        0
    );
    assert_eq!((build(&fixture, usize::MAX).1, kept(&fixture)), (PART + 10, 1));
    drop(other);
    assert!(gc(&fixture.index(), 3, std::time::Duration::ZERO, true).unwrap().bytes > 0);
    assert!(gc(&fixture.index(), 3, std::time::Duration::ZERO, false).unwrap().bytes > 0);
    assert_eq!(kept(&fixture), 0);
}

#[test]
fn a_reembedding_that_is_repeated_embeds_what_is_left() {
    let life = Life::begin(9, PART + 60);
    let config = crate::reembed::config(&life.fixture, 10_000);
    let run = |after: usize| {
        let embedded = AtomicUsize::new(0);
        let failing = Failing {
            inner: HashSource::with_fingerprint("beef"),
            embedded: &embedded,
            after,
            tells_long: false,
        };
        let done = reembed(
            &config,
            &mut KeptSource::new(failing, &life.fixture.index()),
            JobControl::silent(),
        );
        (done.is_ok(), embedded.load(Ordering::Relaxed))
    };
    assert_eq!(run(PART + 50), (false, PART + 50));
    assert_eq!(run(usize::MAX), (true, 10));
    assert_eq!(kept(&life.fixture), 0);
    check(&life.fixture, &life.model);
}

/// Of each vector it is kept whether the model has read the whole text.
#[test]
fn what_was_truncated_is_known_after_a_repetition() {
    let all = some(0..ALL);
    let fixture = Fixture::empty();
    fixture.write_corpus(&all);
    let run = |on_long: OnLong, after: usize| {
        let embedded = AtomicUsize::new(0);
        let failing = Failing {
            inner: HashSource::default(),
            embedded: &embedded,
            after,
            tells_long: true,
        };
        let source = KeptSource::new(failing, &fixture.index());
        let mut source = LongTexts::new(source, on_long, None::<HashSource>);
        let built = build_index(&fixture.config(), &mut source, JobControl::silent());
        (
            built.map(|summary| summary.manifest.documents()),
            embedded.load(Ordering::Relaxed),
        )
    };
    assert!(run(OnLong::Truncate, ALL - 10).0.is_err());
    let (refused, embedded) = run(OnLong::Error, usize::MAX);
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .starts_with("document `k0001` has more than the 64 tokens")
    );
    assert_eq!(
        embedded, 1,
        "it is found among what was kept, ahead of the first that was not"
    );
    // Of the two kinds, what was in whole parts.
    assert!(run(OnLong::Truncate, usize::MAX).1 < 2 * PART);
}
