//! Indexes that earlier revisions have written, in `tests/golden`: they must open for ever. `manifest-1`, of 10
//! documents, was built by revision 1718426.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_corpus::Document;
use dyad_index::TextLanguage;
use dyad_index::snapshot::{DenseParams, SearchMode};
use dyad_index::verify::verify_current;
use dyad_index::{Never, Snapshot};
use dyad_indexer::change::{MergeConfig, Operation, merge};
use dyad_indexer::control::JobControl;
use dyad_indexer::gc::gc;
use dyad_indexer::inspect::inspect;

use crate::fixture::{Fixture, document, documents, row_of};

pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn with_metadata(number: usize) -> Document {
    let metadata = serde_json::json!({ "changed": true });
    Document {
        metadata: crate::fixture::metadata(&metadata),
        ..document(number)
    }
}

/// Writes it again, where a format has changed and the old one has been kept under its own name.
/// `cargo test -p dyad-indexer --test it -- --ignored write_the_golden_index`
#[test]
#[ignore = "writes into the sources"]
fn write_the_golden_index() {
    let fixture = Fixture::new(8);
    fixture.build().unwrap();
    fixture
        .upsert(Operation::Append { skip_existing: false }, &[document(8), document(9)])
        .unwrap();
    fixture.update_metadata(&[with_metadata(2)]).unwrap();
    fixture.delete(&["doc-0003".to_owned(), "doc-0009".to_owned()]).unwrap();
    gc(&fixture.index(), 1, Duration::ZERO, false).unwrap();
    copy(&fixture.index(), &golden("manifest-2"));
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else if entry.file_name() != "LOCK" && path.extension().is_none_or(|extension| extension != "lock") {
            fs_err::copy(&path, to).unwrap();
        }
    }
}

/// The index holds these documents and no others, and can be changed.
fn opens_answers_and_changes(name: &str, format_version: u32, live: &[Document]) {
    let fixture = Fixture::empty();
    copy(&golden(name), &fixture.index());
    assert_eq!(verify_current(&fixture.index()).unwrap().problems, [""; 0]);
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    assert_eq!(
        (snapshot.len(), snapshot.manifest().format_version),
        (live.len(), format_version)
    );
    for document in live {
        for mode in [SearchMode::Exact, SearchMode::Beam { ef: 64 }] {
            let row = row_of(&document.passage());
            let found = snapshot
                .search_dense(&[&row], &DenseParams { k: 1, mode }, None, &Never)
                .unwrap();
            let hit = found[0].hits[0];
            assert_eq!(snapshot.key(hit.shard, hit.node), Some(document.key.as_str()));
            let stored = snapshot.document(hit.shard, hit.node).unwrap();
            assert_eq!(
                (stored.title, stored.text),
                (document.title.clone(), document.text.clone())
            );
            let metadata = document.metadata.as_ref().map(|metadata| metadata.as_json().to_owned());
            assert_eq!(stored.metadata_json, metadata.unwrap_or_default());
        }
    }
    let hits = snapshot
        .search_text(
            &snapshot.question("document 8"),
            10,
            None,
            snapshot.statistics(),
            &Never,
        )
        .unwrap()
        .hits;
    assert_eq!(snapshot.key(hits[0].shard, hits[0].node), Some("doc-0008"));
    drop(snapshot);
    assert!(
        analyzers(&fixture)
            .iter()
            .all(|analyzer| *analyzer == Some("dyad_en_1"))
    );
    // The same word for people: only the terms of this release have both as one.
    let decomposed = Document {
        text: "Beyonce\u{301} sang".to_owned(),
        ..document(20)
    };
    fixture.upsert(Operation::Upsert, &[document(4), decomposed]).unwrap();
    fixture.delete(&["doc-0001".to_owned()]).unwrap();
    assert_eq!(verify_current(&fixture.index()).unwrap().problems, [""; 0]);
    let found = || {
        let snapshot = Snapshot::open(&fixture.index()).unwrap();
        assert_eq!(snapshot.len(), live.len());
        let first = |question: &str| {
            let question = snapshot.question(question);
            let hits = snapshot
                .search_text(&question, 1, None, snapshot.statistics(), &Never)
                .unwrap()
                .hits;
            snapshot.key(hits[0].shard, hits[0].node).unwrap().to_owned()
        };
        [first("document 8"), first("beyonc\u{e9}"), first("Beyonce")]
    };
    let expected = ["doc-0008", "doc-0020", "doc-0020"];
    assert_eq!(found(), expected, "by the terms of two releases");
    assert_eq!(
        analyzers(&fixture).last(),
        Some(&Some(TextLanguage::English.analyzer()))
    );
    assert!(
        inspect(&fixture.index())
            .unwrap()
            .to_string()
            .contains("terms by dyad_en_1; `merge --all --rebuild`")
    );
    merge(
        &MergeConfig {
            rebuild: true,
            ..fixture.merge_config(true)
        },
        JobControl::silent(),
    )
    .unwrap();
    assert_eq!(found(), expected, "by the terms of this one");
    assert!(
        analyzers(&fixture)
            .iter()
            .all(|analyzer| *analyzer == Some(TextLanguage::English.analyzer()))
    );
}

/// Those that made the terms of its shards.
fn analyzers(fixture: &Fixture) -> Vec<Option<&'static str>> {
    inspect(&fixture.index())
        .unwrap()
        .shards
        .iter()
        .map(|shard| shard.analyzer)
        .collect()
}

#[test]
fn an_index_from_before_deletions() {
    opens_answers_and_changes("manifest-1", 1, &documents(10));
}

#[test]
fn an_index_with_deletions_and_changed_metadata() {
    let mut live: Vec<Document> = documents(9);
    live[2] = with_metadata(2);
    live.remove(3);
    opens_answers_and_changes("manifest-2", 2, &live);
}
