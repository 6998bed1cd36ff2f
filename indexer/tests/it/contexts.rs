//! Vectors of passages that were read in their documents: an index of these takes no others.

use dyad_corpus::Document;
use dyad_corpus::embeddings::Header;
use dyad_index::{Snapshot, manifest};
use dyad_indexer::Error;
use dyad_indexer::change::{Operation, estimate, merge, reembed};
use dyad_indexer::control::JobControl;
use dyad_indexer::inspect::inspect;
use dyad_indexer::source::FileSource;

use crate::fixture::{Fixture, HashSource, document, documents, header, metadata};
use crate::reembed::config as reembed_config;

fn write(fixture: &Fixture, name: &str, context: &str, documents: &[Document]) -> FileSource {
    fixture.write_corpus(documents);
    let header = Header { context: context.parse().unwrap(), ..header() };
    fixture.write_embeddings(name, header, documents);
    FileSource::open(&fixture.path(name)).unwrap()
}

#[test]
fn an_index_of_one_kind_never_meets_vectors_of_the_other() {
    let fixture = Fixture::empty();
    let mut source = write(&fixture, "late", "title+late", &documents(20));
    fixture.build_from(&mut source).unwrap();
    let current = || manifest::current(&fixture.index()).unwrap();
    assert_eq!((current().format_version, current().context.as_deref()), (3, Some("title+late:0.5")));
    assert!(inspect(&fixture.index()).unwrap().to_string().contains("context       title+late:0.5"));

    // From an encoder service, and of another weight.
    let refused = fixture.upsert(Operation::Upsert, &[document(20)]).unwrap_err();
    let told = refused.to_string();
    assert!(matches!(refused, Error::OtherContext { .. }), "{told}");
    assert!(told.contains("`title+late:0.5`") && told.contains("the new ones `title`"), "{told}");
    let config = fixture.upsert_config(Operation::Upsert);
    let mut other = write(&fixture, "other", "title+late:0.7", &[document(20)]);
    let refused = fixture.upsert_from("corpus.jsonl", &config, &mut other, JobControl::silent());
    assert!(matches!(refused, Err(Error::OtherContext { .. })), "{refused:?}");
    let refused = reembed(&reembed_config(&fixture, 100), &mut HashSource::of("beef"), JobControl::silent());
    assert!(matches!(refused, Err(Error::ReembedContext { .. })), "{refused:?}");
    let refused = estimate(&reembed_config(&fixture, 100), &mut HashSource::of("beef"), JobControl::silent());
    assert!(matches!(refused, Err(Error::ReembedContext { .. })), "{refused:?}");

    // What changes no vector keeps it, and so does what brings vectors of the same kind.
    let mut same = write(&fixture, "same", "title+late:0.5", &[document(20)]);
    fixture.upsert_from("corpus.jsonl", &config, &mut same, JobControl::silent()).unwrap();
    fixture.delete(&["doc-0003".to_owned()]).unwrap();
    let changed = Document { metadata: metadata(&serde_json::json!({ "n": 9 })), ..document(4) };
    fixture.update_metadata(&[changed]).unwrap();
    merge(&fixture.merge_config(true), JobControl::silent()).unwrap();
    assert_eq!((current().generation, current().context.as_deref()), (5, Some("title+late:0.5")));
    assert_eq!(Snapshot::open(&fixture.index()).unwrap().len(), 20);

    // A build replaces all.
    let mut plain = write(&fixture, "plain", "title", &documents(20));
    fixture.build_from(&mut plain).unwrap();
    assert_eq!((current().format_version, current().context), (2, None));
    fixture.upsert(Operation::Upsert, &[document(20)]).unwrap();
}
