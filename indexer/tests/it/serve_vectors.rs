//! `dyad-indexer serve`: documents that come with their vectors.

use dyad_index::{Snapshot, manifest};
use dyad_proto::v1;
use dyad_proto::v1::index_client::IndexClient as RawClient;
use tonic::{Code, Status};

use crate::fixture::Fixture;
use crate::serve::{Serving, message, serve_with};

fn request(fixture: &Fixture, number: usize, values: Vec<f32>) -> v1::UpsertRequest {
    v1::UpsertRequest {
        documents: vec![message(number)],
        vectors: vec![v1::DocumentVector { values }],
        fingerprint: manifest::current(&fixture.index()).unwrap().model.fingerprint,
        ..v1::UpsertRequest::default()
    }
}

pub(crate) fn upsert(serving: &Serving, requests: Vec<v1::UpsertRequest>) -> Result<v1::ChangeResponse, Status> {
    serving.runtime.block_on(async {
        let mut client = RawClient::connect(serving.url.clone()).await.unwrap();
        Ok(client.upsert(tokio_stream::iter(requests)).await?.into_inner())
    })
}

#[test]
fn vectors_that_are_given_are_indexed_without_the_encoder_and_checked() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let model = manifest::current(&fixture.index()).unwrap().model;
    let serving = serve_with(
        fixture.index().to_str().unwrap(),
        &["--merge", "never", "--keep", "all"],
    );
    let mut values = vec![0.0; model.dim];
    values[1] = 3.0;
    let reply = upsert(&serving, vec![request(&fixture, 30, values.clone())]).unwrap();
    assert_eq!((reply.generation, reply.read, reply.indexed), (2, 1, 1));
    let stored = |key: &str| {
        let snapshot = Snapshot::open(&fixture.index()).unwrap();
        let (shard, node) = snapshot.find(key).unwrap().unwrap();
        let mut row = Vec::new();
        snapshot.shards()[shard].dense.rows().decode(node, &mut row);
        row
    };
    let unit = |at: usize| {
        (0..model.dim)
            .map(|number| if number == at { 1.0 } else { 0.0 })
            .collect::<Vec<f32>>()
    };
    assert_eq!(stored(&message(30).key), unit(1), "scaled to length 1");
    // The text is as it was, and the vector is another one.
    let reply = upsert(&serving, vec![request(&fixture, 30, unit(2))]).unwrap();
    assert_eq!((reply.generation, reply.indexed, reply.unchanged), (3, 1, 0));
    assert_eq!(stored(&message(30).key), unit(2));
}

#[test]
fn vectors_that_do_not_fit_are_refused_by_field() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let model = manifest::current(&fixture.index()).unwrap().model;
    let serving = serve_with(
        fixture.index().to_str().unwrap(),
        &["--merge", "never", "--keep", "all"],
    );
    let one = || request(&fixture, 31, vec![1.0; model.dim]);
    for (wrong, code, expected) in [
        (
            v1::UpsertRequest {
                fingerprint: "beef".into(),
                ..one()
            },
            Code::FailedPrecondition,
            "expected that of the index",
        ),
        (
            v1::UpsertRequest {
                fingerprint: String::new(),
                ..one()
            },
            Code::InvalidArgument,
            "`fingerprint`: expected that of",
        ),
        (
            v1::UpsertRequest {
                vectors: Vec::new(),
                ..one()
            },
            Code::InvalidArgument,
            "expected none without `vectors`",
        ),
        (
            v1::UpsertRequest {
                context: "none".into(),
                ..one()
            },
            Code::FailedPrecondition,
            "`context`",
        ),
        (
            v1::UpsertRequest {
                context: "late:x".into(),
                ..one()
            },
            Code::InvalidArgument,
            "`context`",
        ),
        (
            request(&fixture, 31, vec![1.0; model.dim + 1]),
            Code::InvalidArgument,
            "values, as those of the index",
        ),
        (
            request(&fixture, 31, vec![0.0; model.dim]),
            Code::InvalidArgument,
            "`vectors`",
        ),
        (
            request(&fixture, 31, vec![f32::NAN; model.dim]),
            Code::InvalidArgument,
            "`vectors[0].values[0]`: expected a finite",
        ),
    ] {
        let status = upsert(&serving, vec![wrong]).unwrap_err();
        assert!(
            status.code() == code && status.message().contains(expected),
            "{expected}: {status:?}"
        );
    }
    let mixed = vec![
        one(),
        v1::UpsertRequest {
            documents: vec![message(32)],
            ..Default::default()
        },
    ];
    let status = upsert(&serving, mixed).unwrap_err();
    assert!(
        status.message().contains("in every message of a call, or in none"),
        "{status:?}"
    );
    assert_eq!(manifest::current(&fixture.index()).unwrap().generation, 1);
}

#[test]
fn a_call_that_is_refused_fails_no_other_that_came_with_it() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let model = manifest::current(&fixture.index()).unwrap().model;
    let serving = serve_with(fixture.index().to_str().unwrap(), &["--gather-ms", "1000"]);
    let good = request(&fixture, 30, vec![1.0; model.dim]);
    let bad = request(&fixture, 31, vec![1.0; model.dim + 1]);
    let call = |request: v1::UpsertRequest| {
        let url = serving.url.clone();
        serving.runtime.spawn(async move {
            let mut client = RawClient::connect(url).await.unwrap();
            client
                .upsert(tokio_stream::iter([request]))
                .await
                .map(tonic::Response::into_inner)
        })
    };
    let calls = [call(bad), call(good)];
    let [bad, good] = calls.map(|call| serving.runtime.block_on(call).unwrap());
    assert_eq!(bad.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(good.unwrap().indexed, 1);
}
