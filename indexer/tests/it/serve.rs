//! `dyad-indexer serve`: the program, called through gRPC.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use dyad_index::Snapshot;
use dyad_index::verify::verify_current;
use dyad_proto::access::{KeyFile, NewKey, Role};
use dyad_proto::client::{ClientConfig, ClientError, Credentials, IndexClient};
use dyad_proto::v1;
use dyad_proto::v1::index_client::IndexClient as RawClient;
use tokio::runtime::Runtime;
use tonic::Code;

use crate::command_line::dyad_indexer;
use crate::encoder::{Running, encoder_service};
use crate::fixture::{Fixture, document};

/// The program; asked to end when it is dropped.
pub(crate) struct Serving {
    child: Child,
    url: String,
    runtime: Runtime,
    _encoder: Running,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It has ended already where a test has asked it to.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn serve(fixture: &Fixture) -> Serving {
    serve_with(fixture.index().to_str().unwrap(), &[])
}

fn serve_with(index: &str, options: &[&str]) -> Serving {
    let encoder = encoder_service();
    let mut command: Command = dyad_indexer();
    command.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--threads",
        "1",
        "--lame-duck-s",
        "0",
        "--index",
    ]);
    command.args([index, "--encoder", &encoder.url]).args(options);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let url = format!("http://{}", line.trim().strip_prefix("listening on ").unwrap());
    Serving {
        child,
        url,
        runtime: Runtime::new().unwrap(),
        _encoder: encoder,
    }
}

impl Serving {
    fn client(&self) -> IndexClient {
        self.runtime
            .block_on(IndexClient::connect(&self.url, ClientConfig::default()))
            .unwrap()
    }

    fn upsert(&self, documents: &[v1::Document]) -> Result<v1::ChangeResponse, ClientError> {
        self.runtime.block_on(self.client().upsert(documents))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn delete(&self, keys: &[&str]) -> Result<v1::ChangeResponse, ClientError> {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        self.runtime.block_on(self.client().delete(&keys))
    }
}

fn message(number: usize) -> v1::Document {
    let made = document(number);
    let metadata_json = made
        .metadata
        .map(|metadata| metadata.as_json().to_owned())
        .unwrap_or_default();
    v1::Document {
        key: made.key,
        title: made.title,
        text: made.text,
        metadata_json,
    }
}

#[test]
fn documents_are_added_replaced_and_deleted_and_calls_may_be_repeated() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let serving = serve(&fixture);
    let changed = v1::Document {
        text: "another text".into(),
        ..message(3)
    };
    let retagged = v1::Document {
        metadata_json: r#"{"tag":1}"#.into(),
        ..message(4)
    };
    let batch = [
        message(30),
        changed.clone(),
        retagged.clone(),
        message(5),
        message(31),
        message(31),
    ];
    let reply = serving.upsert(&batch).unwrap();
    assert_eq!((reply.generation, reply.documents, reply.read), (2, 22, 6));
    assert_eq!(
        (reply.indexed, reply.unchanged, reply.superseded, reply.reused),
        (4, 1, 1, 1)
    );
    let again = serving.upsert(&batch).unwrap();
    assert_eq!(
        (again.generation, again.documents, again.indexed, again.unchanged),
        (0, 22, 0, 5)
    );
    let reply = serving.delete(&["doc-0000", "doc-0030", "absent", "absent"]).unwrap();
    assert_eq!((reply.generation, reply.documents), (3, 20));
    assert_eq!(
        (reply.read, reply.indexed, reply.rejected, reply.superseded),
        (4, 2, 1, 1)
    );
    assert_eq!(serving.delete(&["doc-0000"]).unwrap().generation, 0);
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    for expected in [changed, retagged, message(5), message(31)] {
        let (shard, node) = snapshot.find(&expected.key).unwrap().unwrap();
        let stored = snapshot.document(shard, node).unwrap();
        assert_eq!(
            (stored.text, stored.metadata_json),
            (expected.text, expected.metadata_json)
        );
    }
    assert_eq!(verify_current(&fixture.index()).unwrap().problems, [""; 0]);
    // Many at once: one generation each, and none is lost.
    let client = serving.client();
    serving.runtime.block_on(async {
        let calls = (40..48).map(|number| {
            let client = client.clone();
            tokio::spawn(async move { client.upsert(&[message(number)]).await.unwrap().generation })
        });
        let mut generations = Vec::new();
        for call in calls.collect::<Vec<_>>() {
            generations.push(call.await.unwrap());
        }
        generations.sort_unstable();
        assert_eq!(generations, (4..12).collect::<Vec<u64>>());
    });
    assert_eq!(Snapshot::open(&fixture.index()).unwrap().len(), 28);
}

#[test]
fn what_cannot_be_indexed_is_refused_by_field() {
    let fixture = Fixture::new(10);
    fixture.build().unwrap();
    let serving = serve(&fixture);
    let refused = |document: v1::Document, parts: &[&str]| {
        let error = serving.upsert(&[message(3), document]).unwrap_err();
        assert!(
            matches!(
                &error,
                ClientError::Refused {
                    code: Code::InvalidArgument,
                    ..
                }
            ),
            "{error}"
        );
        assert!(parts.iter().all(|part| error.to_string().contains(part)), "{error}");
    };
    refused(
        v1::Document {
            key: " ".into(),
            ..message(1)
        },
        &["documents[1].key"],
    );
    refused(
        v1::Document {
            text: " ".into(),
            title: String::new(),
            ..message(1)
        },
        &["documents[1].text"],
    );
    refused(
        v1::Document {
            text: "x".repeat(2 << 20),
            ..message(1)
        },
        &["documents[1]", "1048576"],
    );
    refused(
        v1::Document {
            metadata_json: "[1]".into(),
            ..message(1)
        },
        &["document 1", "metadata_json"],
    );
    assert_eq!(
        dyad_index::manifest::current_generation(&fixture.index()).unwrap(),
        Some(1)
    );
}

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
                sender.try_send(v1::UpsertRequest { documents }).unwrap();
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

#[test]
fn an_encoder_of_another_model_is_refused_at_the_start() {
    let fixture = Fixture::new(10);
    fixture.build().unwrap();
    let encoder = encoder_service();
    let other = Fixture::new(10);
    let header = dyad_corpus::embeddings::EmbeddingsHeader {
        model: dyad_corpus::embeddings::EmbeddingsModel {
            fingerprint: "beef".into(),
            ..crate::fixture::header().model
        },
        ..crate::fixture::header()
    };
    fs_err::remove_dir_all(other.path("embeddings")).unwrap();
    other.write_embeddings("embeddings", header, &crate::fixture::documents(10));
    other.build().unwrap();
    let run = |index: &std::path::Path| {
        let mut command = dyad_indexer();
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--encoder", &encoder.url, "--index"])
            .arg(index);
        command.output().unwrap()
    };
    for (index, part) in [
        (other.index(), "fingerprint"),
        (other.path("nowhere"), "holds no index"),
    ] {
        let output = run(&index);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(part), "{said}");
    }
}

/// What the program says where it does not start.
fn refused_to_start(index: &str, keys: &std::path::Path) -> String {
    let mut command = dyad_indexer();
    command.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--encoder",
        "http://127.0.0.1:1",
        "--index",
        index,
        "--keys",
    ]);
    let output = command.arg(keys).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_key_is_for_the_index_of_that_name_and_not_for_folders_that_are_called_so() {
    let all: Vec<Fixture> = (0..2).map(|_| Fixture::new(20)).collect();
    let keys = all[0].path("keys.json");
    let create = |name: &str, indexes: &[&str]| {
        let indexes = indexes.iter().map(|name| (*name).to_owned()).collect();
        let new = NewKey {
            name: name.into(),
            role: Role::Write,
            indexes,
            filter: None,
            concurrency: None,
        };
        KeyFile::change(&keys, |file| file.create(new)).unwrap()
    };
    let (wiki, by_folder) = (create("wiki", &["wiki"]), create("folder", &["index"]));
    for fixture in &all {
        fixture.build().unwrap();
        // Both folders are called `index`.
        let refused = refused_to_start(fixture.index().to_str().unwrap(), &keys);
        assert!(
            refused.contains("--index NAME=DIR") && refused.contains("`wiki`"),
            "{refused}"
        );
    }
    let at = all[0].index().display().to_string();
    let refused = refused_to_start(&format!("news={at}"), &keys);
    assert!(
        refused.contains("for one that is served here: `news`") && refused.contains("`wiki`"),
        "{refused}"
    );
    assert!(refused_to_start(&format!("a b={at}"), &keys).contains("expected the name of an index"));
    let serving = serve_with(&format!("wiki={at}"), &["--keys", keys.to_str().unwrap()]);
    let delete = |key: &str| {
        let credentials = Credentials::default().with_api_key(key).unwrap();
        let config = ClientConfig {
            credentials,
            ..ClientConfig::default()
        };
        serving.runtime.block_on(async {
            let client = IndexClient::connect(&serving.url, config).await.unwrap();
            client.delete(&["doc-0001".to_owned()]).await
        })
    };
    let refused = delete(&by_folder).unwrap_err();
    assert!(
        refused.to_string().contains("may not change the index `wiki`"),
        "{refused}"
    );
    assert_eq!(delete(&wiki).unwrap().documents, 19);
}
