//! Calls with names of their own, which are made once.

use dyad_index::{Snapshot, manifest};
use dyad_proto::v1;
use dyad_proto::v1::index_client::IndexClient as RawClient;
use tonic::{Code, Status};

use crate::fixture::Fixture;
use crate::serve::{Serving, message, serve_with};

const OPTIONS: [&str; 4] = ["--merge", "never", "--keep", "all"];

fn named(request_key: &str, numbers: &[usize]) -> v1::UpsertRequest {
    v1::UpsertRequest {
        documents: numbers.iter().map(|number| message(*number)).collect(),
        request_key: request_key.to_owned(),
        ..v1::UpsertRequest::default()
    }
}

fn upsert(serving: &Serving, requests: Vec<v1::UpsertRequest>) -> Result<v1::ChangeResponse, Status> {
    serving.runtime.block_on(async {
        let mut client = RawClient::connect(serving.url.clone()).await.unwrap();
        Ok(client.upsert(tokio_stream::iter(requests)).await?.into_inner())
    })
}

fn delete(serving: &Serving, request: v1::DeleteRequest) -> Result<v1::ChangeResponse, Status> {
    serving.runtime.block_on(async {
        let mut client = RawClient::connect(serving.url.clone()).await.unwrap();
        Ok(client.delete(tokio_stream::iter([request])).await?.into_inner())
    })
}

#[test]
fn a_call_that_was_made_is_answered_again_also_by_another_server() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let index = fixture.index();
    let serving = serve_with(index.to_str().unwrap(), &OPTIONS);
    let next = serve_with(index.to_str().unwrap(), &OPTIONS);
    let first = upsert(&serving, vec![named("x", &[3, 30, 31])]).unwrap();
    assert_eq!((first.generation, first.indexed, first.unchanged), (2, 2, 1));
    // Others delete what it has added; sent again it does not bring that back.
    assert_eq!(serving.delete(&["doc-0030"]).unwrap().generation, 3);
    // However it is divided into messages.
    let divided = vec![named("x", &[3]), named("", &[30, 31])];
    assert_eq!(upsert(&serving, divided).unwrap(), first);
    // By a server that had started before it was made.
    assert_eq!(upsert(&next, vec![named("x", &[3, 30, 31])]).unwrap(), first);
    drop(next);
    let refused = upsert(&serving, vec![named("x", &[3, 30])]).unwrap_err();
    assert!(
        refused.code() == Code::InvalidArgument && refused.message().contains("`request_key`"),
        "{refused}"
    );
    let refused = upsert(&serving, vec![named("y", &[3]), named("z", &[30])]).unwrap_err();
    assert!(refused.message().contains("first message"), "{refused}");
    let gone = || v1::DeleteRequest {
        keys: vec!["doc-0001".to_owned(), "absent".to_owned()],
        request_key: "gone".to_owned(),
        ..v1::DeleteRequest::default()
    };
    let deleted = delete(&serving, gone()).unwrap();
    assert_eq!((deleted.generation, deleted.indexed, deleted.rejected), (4, 1, 1));
    let recorded = manifest::current(&index).unwrap().change.unwrap().calls;
    assert_eq!((recorded.len(), recorded[0].request_key.as_str()), (1, "gone"));
    // As where it had ended before it replied.
    drop(serving);
    let serving = serve_with(index.to_str().unwrap(), &OPTIONS);
    assert_eq!(upsert(&serving, vec![named("x", &[3, 30, 31])]).unwrap(), first);
    assert_eq!(delete(&serving, gone()).unwrap(), deleted);
    assert!(upsert(&serving, vec![named("x", &[30])]).is_err());
    let snapshot = Snapshot::open(&index).unwrap();
    assert!(snapshot.manifest().generation == 4 && snapshot.find("doc-0030").unwrap().is_none());
}

#[test]
fn of_two_calls_with_one_name_at_once_one_is_made() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let serving = serve_with(fixture.index().to_str().unwrap(), &["--gather-ms", "200"]);
    let call = |requests: Vec<v1::UpsertRequest>| {
        let url = serving.url.clone();
        serving.runtime.spawn(async move {
            let mut client = RawClient::connect(url).await.unwrap();
            client
                .upsert(tokio_stream::iter(requests))
                .await
                .map(tonic::Response::into_inner)
        })
    };
    let calls = [
        call(vec![named("x", &[30])]),
        call(vec![named("x", &[30])]),
        call(vec![named("y", &[31, 32])]),
    ];
    let [one, other, third] = calls.map(|call| serving.runtime.block_on(call).unwrap().unwrap());
    // Of one call made twice, the second would find its document unchanged.
    assert_eq!((one, one.indexed, third.indexed), (other, 1, 2));
    let recorded = manifest::current(&fixture.index()).unwrap().change.unwrap().calls;
    let (mut keys, generation): (Vec<&str>, u64) = (
        recorded.iter().map(|call| call.request_key.as_str()).collect(),
        third.generation.max(one.generation),
    );
    keys.sort_unstable();
    assert!(
        keys == ["x", "y"] || generation == 3,
        "both of one generation: {keys:?}"
    );
    // A call that fails is forgotten.
    let wrong = || {
        let mut request = named("z", &[33]);
        request.expected.push(v1::ExpectedDocument {
            key: "doc-0000".to_owned(),
            etag: String::new(),
        });
        upsert(&serving, vec![request])
    };
    assert_eq!(wrong().unwrap_err().code(), Code::Aborted);
    assert_eq!(wrong().unwrap_err().code(), Code::Aborted);
    assert_eq!(upsert(&serving, vec![named("z", &[33])]).unwrap().indexed, 1);
}
