//! Vectors of passages that were read in their documents: an index of these takes no others.

use dyad_corpus::embeddings::EmbeddingsHeader;
use dyad_corpus::{Document, ReadOptions, Split};
use dyad_index::{Snapshot, manifest};
use dyad_indexer::Error;
use dyad_indexer::change::{ChangeOutcome, Operation, Passages, UpsertConfig, merge, upsert};
use dyad_indexer::context_error::ContextError;
use dyad_indexer::control::JobControl;
use dyad_indexer::inspect::inspect;
use dyad_indexer::job::{BuildConfig, BuildSummary, build_index};
use dyad_indexer::source::{Corpus, FileSource};

use crate::fixture::{Fixture, document, documents, header, metadata};

fn write(fixture: &Fixture, name: &str, context: &str, documents: &[Document]) -> FileSource {
    fixture.write_corpus(documents);
    let header = EmbeddingsHeader {
        context: context.parse().unwrap(),
        ..header()
    };
    let passages: Vec<Document> = documents
        .iter()
        .flat_map(|document| split().passages(document).unwrap())
        .collect();
    fixture.write_embeddings(name, header, &passages);
    FileSource::open(&fixture.path(name)).unwrap()
}

/// Each document has one passage.
fn split() -> Split {
    Split::new(50, 0).unwrap()
}

fn corpus(fixture: &Fixture) -> Corpus {
    let read = ReadOptions {
        split: Some(split()),
        ..ReadOptions::default()
    };
    Corpus::File {
        path: fixture.path("corpus.jsonl"),
        read,
    }
}

fn build(fixture: &Fixture, source: &mut FileSource) -> Result<BuildSummary, Error> {
    let config = BuildConfig {
        corpus: corpus(fixture),
        ..fixture.config()
    };
    build_index(&config, source, JobControl::silent())
}

fn upsert_from(fixture: &Fixture, source: &mut FileSource) -> Result<ChangeOutcome, Error> {
    let config = UpsertConfig {
        passages: Passages::Batch,
        ..fixture.upsert_config(Operation::Upsert)
    };
    upsert(
        &config,
        corpus(fixture).open(false)?.as_mut(),
        source,
        JobControl::silent(),
    )
}

#[test]
fn an_index_of_one_kind_never_meets_vectors_of_the_other() {
    let fixture = Fixture::empty();
    let mut source = write(&fixture, "late", "title+late", &documents(20));
    build(&fixture, &mut source).unwrap();
    let current = || manifest::current(&fixture.index()).unwrap();
    assert_eq!(
        (current().format_version, current().context.as_deref()),
        (3, Some("title+late:0.5"))
    );
    assert!(
        inspect(&fixture.index())
            .unwrap()
            .to_string()
            .contains("context       title+late:0.5")
    );

    // From an encoder service, and of another weight.
    let refused = fixture.upsert(Operation::Upsert, &[document(20)]).unwrap_err();
    let told = refused.to_string();
    assert!(matches!(refused, Error::Context(ContextError::Other { .. })), "{told}");
    assert!(
        told.contains("`title+late:0.5`") && told.contains("the new ones `title`"),
        "{told}"
    );
    let mut other = write(&fixture, "other", "title+late:0.7", &[document(20)]);
    let refused = upsert_from(&fixture, &mut other);
    assert!(
        matches!(refused, Err(Error::Context(ContextError::Other { .. }))),
        "{refused:?}"
    );

    // What changes no vector keeps it, and so does what brings vectors of the same kind.
    let mut same = write(&fixture, "same", "title+late:0.5", &[document(20)]);
    upsert_from(&fixture, &mut same).unwrap();
    fixture.delete(&["doc-0003#0".to_owned()]).unwrap();
    let changed = Document {
        key: "doc-0004#0".to_owned(),
        metadata: metadata(&serde_json::json!({ "n": 9 })),
        ..document(4)
    };
    fixture.update_metadata(&[changed]).unwrap();
    merge(&fixture.merge_config(true), JobControl::silent()).unwrap();
    assert_eq!(
        (current().generation, current().context.as_deref()),
        (5, Some("title+late:0.5"))
    );
    assert_eq!(Snapshot::open(&fixture.index()).unwrap().len(), 20);

    // Vectors that know a document belong to it alone: the corpus has to be split as it was, and the document to be the
    // same.
    let mut whole = write(&fixture, "whole", "title+late", &documents(20));
    let refused = fixture.build_from(&mut whole).unwrap_err();
    assert!(refused.to_string().contains("`doc-0000`"), "{refused}");

    // A build replaces all.
    let mut plain = write(&fixture, "plain", "title", &documents(20));
    build(&fixture, &mut plain).unwrap();
    assert_eq!((current().format_version, current().context), (2, None));
    fixture.upsert(Operation::Upsert, &[document(20)]).unwrap();
}
