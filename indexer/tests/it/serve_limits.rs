//! What calls of the service may hold and how long they may be silent.

use std::process::Command;

use dyad_proto::client::ClientError;
use dyad_proto::v1;
use dyad_proto::v1::index_client::IndexClient as RawClient;
use tonic::Code;

use crate::fixture::Fixture;
use crate::serve::{message, serve, serve_with};

#[test]
fn a_change_that_is_too_large_is_refused_and_not_sent_again() {
    let fixture = Fixture::new(10);
    fixture.build().unwrap();
    let serving = serve(&fixture);
    let large: Vec<_> = (0..70)
        .map(|number| v1::Document {
            text: "x".repeat(1_000_000),
            ..message(number)
        })
        .collect();
    let error = serving.upsert(&large).unwrap_err();
    assert!(
        matches!(
            error,
            ClientError::TooLarge {
                bytes: 70_000_000..,
                limit: 67_108_864,
                ..
            }
        ),
        "{error}"
    );
    // More than one message takes, in as many as it needs.
    let documents: Vec<_> = (0..40)
        .map(|number| v1::Document {
            metadata_json: format!(r#"{{"x":"{}"}}"#, "x".repeat(900_000)),
            ..message(number)
        })
        .collect();
    assert_eq!(serving.upsert(&documents).unwrap().read, 40);
    // The limits of a file hold here too.
    let of = |bytes: usize| format!(r#"{{ "x" : "{}" }}"#, "x".repeat(bytes - 8));
    let upsert = |document: v1::Document| serving.upsert(&[document]).map_err(|error| error.to_string());
    let limit = dyad_corpus::MAX_METADATA_BYTES;
    assert!(
        upsert(v1::Document {
            metadata_json: of(limit),
            ..message(1)
        })
        .is_ok()
    );
    let refused = upsert(v1::Document {
        metadata_json: of(limit + 1),
        ..message(1)
    })
    .unwrap_err();
    assert!(
        refused.contains("`metadata_json`: expected at most 1048576 bytes without white space, got 1048577"),
        "{refused}"
    );
    // Before they are parsed, which would take many times their bytes.
    let unparsed = upsert(v1::Document {
        metadata_json: "[".repeat(limit + 1),
        ..message(1)
    })
    .unwrap_err();
    assert!(unparsed.contains("bytes without white space"), "{unparsed}");
    for key in ["a\nb", "a\rb", "a\0b"] {
        let refused = upsert(v1::Document {
            key: key.into(),
            ..message(1)
        })
        .unwrap_err();
        assert!(
            refused.contains("`documents[0].key`: expected no line break"),
            "{refused}"
        );
    }
    let keys = vec!["k".repeat(1_000_000); 70];
    let error = serving.runtime.block_on(serving.client().delete(&keys)).unwrap_err();
    assert!(
        matches!(error, ClientError::TooLarge { bytes: 70_000_000, .. }),
        "{error}"
    );
    // Clients of others.
    let status = serving.runtime.block_on(async {
        let mut client = RawClient::connect(serving.url.clone()).await.unwrap();
        let requests = large.chunks(10).map(|some| v1::UpsertRequest {
            documents: some.to_vec(),
            ..v1::UpsertRequest::default()
        });
        client
            .upsert(tokio_stream::iter(requests.collect::<Vec<_>>()))
            .await
            .unwrap_err()
    });
    assert!(
        status.message().contains("expected at most 64 MiB in one call"),
        "{status}"
    );
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "-1");
}

/// About 500 KB.
fn large_message(number: usize) -> v1::Document {
    v1::Document {
        metadata_json: format!(r#"{{"x":"{}"}}"#, "x".repeat(500_000)),
        ..message(number)
    }
}

#[test]
fn open_calls_hold_no_more_than_their_memory_and_leave_it_to_others() {
    let fixture = Fixture::new(10);
    fixture.build().unwrap();
    let serving = serve_with(fixture.index().to_str().unwrap(), &["--call-memory", "8MiB"]);
    let (url, mut open) = (serving.url.clone(), Vec::new());
    let refused = serving.runtime.block_on(async {
        let client = RawClient::connect(url).await.unwrap();
        let (ended, mut statuses) = tokio::sync::mpsc::channel(8);
        for _ in 0..6 {
            let (sender, receiver) = tokio::sync::mpsc::channel(8);
            for number in 0..6 {
                let documents = vec![large_message(number)];
                sender
                    .try_send(v1::UpsertRequest {
                        documents,
                        ..v1::UpsertRequest::default()
                    })
                    .unwrap();
            }
            open.push(sender);
            let (mut client, ended) = (client.clone(), ended.clone());
            tokio::spawn(async move {
                let requests = tokio_stream::wrappers::ReceiverStream::new(receiver);
                ended.send(client.upsert(requests).await.unwrap_err()).await
            });
        }
        // Two of 3 MB fit, with what is kept for the beginnings of others.
        let mut refused = Vec::new();
        while refused.len() < 4 {
            refused.push(statuses.recv().await.unwrap());
        }
        refused
    });
    for status in refused {
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "1000");
    }
    assert_eq!(
        serving.upsert(&[message(20)]).unwrap().generation,
        2,
        "small calls pass meanwhile"
    );
    // Their clients end: a call that takes nearly all of the memory finds room.
    drop(open);
    let documents: Vec<_> = (30..42).map(large_message).collect();
    assert_eq!(serving.upsert(&documents).unwrap().read, 12);
}

#[test]
fn a_call_that_is_silent_for_too_long_ends_and_changes_nothing() {
    let fixture = Fixture::new(10);
    fixture.build().unwrap();
    let serving = serve_with(fixture.index().to_str().unwrap(), &["--silence-s", "1"]);
    let (sender, receiver) = tokio::sync::mpsc::channel(4);
    sender
        .blocking_send(v1::UpsertRequest {
            documents: vec![message(20)],
            ..v1::UpsertRequest::default()
        })
        .unwrap();
    let status = serving.runtime.block_on(async {
        let mut client = RawClient::connect(serving.url.clone()).await.unwrap();
        client
            .upsert(tokio_stream::wrappers::ReceiverStream::new(receiver))
            .await
            .unwrap_err()
    });
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    assert!(
        status
            .message()
            .contains("no whole message for 1 s; nothing was changed"),
        "{status}"
    );
    assert_eq!(serving.upsert(&[message(21)]).unwrap().documents, 11);
}

/// A stream that its client has not ended when the server drains is a part of a change: nothing of it is published.
#[test]
fn a_call_that_the_end_of_the_server_cuts_short_changes_nothing() {
    let fixture = Fixture::new(10);
    fixture.build().unwrap();
    let mut serving = serve(&fixture);
    let (sender, receiver) = tokio::sync::mpsc::channel(4);
    let url = serving.url.clone();
    let call = serving.runtime.spawn(async move {
        let mut client = RawClient::connect(url).await.unwrap();
        client
            .delete(tokio_stream::wrappers::ReceiverStream::new(receiver))
            .await
    });
    sender
        .blocking_send(v1::DeleteRequest {
            keys: vec!["doc-0001".into()],
            ..v1::DeleteRequest::default()
        })
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let asked = Command::new("kill")
        .args(["-TERM", &serving.child.id().to_string()])
        .status()
        .unwrap();
    assert!(asked.success());
    let status = serving.runtime.block_on(call).unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(serving.child.wait().unwrap().success());
    drop(sender);
    assert_eq!(
        dyad_index::manifest::current_generation(&fixture.index()).unwrap(),
        Some(1)
    );
}
