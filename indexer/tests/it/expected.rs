//! Changes that are made only where documents are as their callers expect them.

use dyad_index::{Snapshot, manifest};
use dyad_indexer::Error;
use dyad_indexer::change::{
    ChangeConditions, ChangeStart, DeleteConfig, ExpectedContent, Operation, delete_documents, merge, upsert_after,
};
use dyad_indexer::control::JobControl;
use dyad_indexer::source::Corpus;
use dyad_proto::client::{ChangeTerms, ClientError};
use dyad_proto::v1;
use tonic::Code;

use crate::fixture::{Fixture, document};
use crate::hash_source::HashSource;
use crate::pairs::when_reached;
use crate::serve::{Serving, message, serve_with};

fn etag(fixture: &Fixture, key: &str) -> String {
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let (shard, node) = snapshot.find(key).unwrap().unwrap();
    snapshot.document(shard, node).unwrap().etag()
}

fn expects(key: &str, etag: &str) -> v1::ExpectedDocument {
    v1::ExpectedDocument {
        key: key.to_owned(),
        etag: etag.to_owned(),
    }
}

fn expecting(expected: &[v1::ExpectedDocument]) -> ChangeTerms<'_> {
    ChangeTerms {
        expected,
        ..ChangeTerms::default()
    }
}

fn with_text(number: usize, text: &str) -> v1::Document {
    v1::Document {
        text: text.to_owned(),
        ..message(number)
    }
}

fn upsert(
    serving: &Serving,
    documents: &[v1::Document],
    expected: &[v1::ExpectedDocument],
) -> Result<v1::ChangeResponse, ClientError> {
    serving
        .runtime
        .block_on(serving.client().upsert_on(documents, expecting(expected)))
}

fn aborted(made: Result<v1::ChangeResponse, ClientError>) -> String {
    match made.unwrap_err() {
        ClientError::Refused {
            code: Code::Aborted,
            message,
            ..
        } => message,
        other => unreachable!("{other}"),
    }
}

#[test]
fn a_change_is_made_only_where_documents_are_as_expected() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let index = fixture.index();
    let serving = serve_with(index.to_str().unwrap(), &["--merge", "never", "--keep", "all"]);
    let read = etag(&fixture, "doc-0003");
    let added = [with_text(3, "the second"), message(30)];
    let reply = upsert(&serving, &added, &[expects("doc-0003", &read), expects("doc-0030", "")]).unwrap();
    assert_eq!((reply.generation, reply.indexed), (2, 2));
    let told = aborted(upsert(
        &serving,
        &[with_text(3, "lost"), with_text(31, "lost")],
        &[
            expects("doc-0003", &read),
            expects("doc-0030", ""),
            expects("doc-0004", "beef"),
            expects("doc-0031", ""),
        ],
    ));
    assert!(
        told.contains("not as `expected` says: 3") && told.contains("`doc-0003`, `doc-0004`, `doc-0030`"),
        "{told}"
    );
    assert_eq!(manifest::current(&index).unwrap().generation, 2, "nothing is changed");
    // Merges move documents, and leave them as they are.
    let before = etag(&fixture, "doc-0003");
    merge(&fixture.merge_config(true), JobControl::silent()).unwrap();
    let client = serving.client();
    let delete = |expected: &[v1::ExpectedDocument]| {
        let keys = ["doc-0003".to_owned()];
        serving.runtime.block_on(client.delete_on(&keys, expecting(expected)))
    };
    aborted(delete(&[expects("doc-0003", &read)]));
    assert_eq!(delete(&[expects("doc-0003", &before)]).unwrap().indexed, 1);
    assert_eq!(delete(&[expects("doc-0003", "")]).unwrap().rejected, 1);
}

#[test]
fn of_calls_at_once_with_one_etag_one_is_made() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let serving = serve_with(fixture.index().to_str().unwrap(), &["--gather-ms", "200"]);
    let read = etag(&fixture, "doc-0003");
    let call = |number: usize| {
        let (client, expected) = (serving.client(), [expects("doc-0003", &read)]);
        let documents = [with_text(3, &format!("text {number}")), message(40 + number)];
        serving
            .runtime
            .spawn(async move { client.upsert_on(&documents, expecting(&expected)).await })
    };
    let calls: Vec<_> = (0..6).map(call).collect();
    let ended: Vec<_> = calls
        .into_iter()
        .map(|call| serving.runtime.block_on(call).unwrap())
        .collect();
    let made = ended.iter().filter(|made| made.is_ok()).count();
    assert_eq!(made, 1, "{ended:?}");
    assert_eq!(Snapshot::open(&fixture.index()).unwrap().len(), 21, "of one call alone");
    for refused in ended.into_iter().filter(Result::is_err) {
        assert!(aborted(refused).contains("`doc-0003`"));
    }
}

/// What is expected is looked at in the generation that the change follows in the end.
#[test]
fn a_document_that_changes_meanwhile_is_not_as_expected() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let dir = fixture.path(".");
    let with = |text: &str| dyad_corpus::Document {
        text: text.to_owned(),
        ..document(3)
    };
    let other = |text: &str| {
        let (dir, changed) = (dir.clone(), with(text));
        move || {
            drop(
                Fixture::at(&dir)
                    .upsert(Operation::Upsert, std::slice::from_ref(&changed))
                    .unwrap(),
            );
        }
    };
    let read = etag(&fixture, "doc-0003");
    let conditions = || {
        let mut conditions = ChangeConditions::default();
        conditions.expect(ExpectedContent {
            key: "doc-0003",
            etag: Some(&read),
            scope: None,
        });
        conditions
    };
    fixture.write_corpus(&[with("of the caller")]);
    fs_err::rename(fixture.path("corpus.jsonl"), fixture.path("own.jsonl")).unwrap();
    when_reached("publish-begin", other("of another"));
    let corpus = Corpus::File {
        path: fixture.path("own.jsonl"),
        read: dyad_corpus::ReadOptions::default(),
    };
    let start = ChangeStart {
        conditions: conditions(),
        ..ChangeStart::default()
    };
    let mut batch = corpus.open(true).unwrap();
    let config = fixture.upsert_config(Operation::Upsert);
    let made = upsert_after(
        &config,
        &start,
        batch.as_mut(),
        &mut HashSource::default(),
        JobControl::silent(),
    );
    assert!(
        matches!(made, Err(Error::NotAsExpected { total: 1, ref first }) if *first == ["doc-0003"]),
        "{made:?}"
    );
    // As it was read, and another one while it is deleted.
    fixture.upsert(Operation::Upsert, &[document(3)]).unwrap();
    when_reached("publish-begin", other("of another again"));
    let index = fixture.index();
    let start = ChangeStart {
        conditions: conditions(),
        ..ChangeStart::default()
    };
    let config = DeleteConfig {
        index: &index,
        start: &start,
        passages: false,
        named_missing: 1,
        dry_run: false,
    };
    let made = delete_documents(&config, &["doc-0003".to_owned()], JobControl::silent());
    assert!(matches!(made, Err(Error::NotAsExpected { .. })), "{made:?}");
}
