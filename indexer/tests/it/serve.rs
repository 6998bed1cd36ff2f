//! `dyad-indexer serve`: the program, called through gRPC.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use dyad_index::Snapshot;
use dyad_index::verify::verify_current;
use dyad_proto::access::{KeyFile, NewKey, Role};
use dyad_proto::client::{ClientConfig, ClientError, Credentials, IndexClient};
use dyad_proto::v1;
use tokio::runtime::Runtime;
use tonic::Code;

use crate::command_line::dyad_indexer;
use crate::encoder_service::{Running, encoder_service};
use crate::fixture::{Fixture, document};

/// The program; asked to end when it is dropped.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) url: String,
    pub(crate) runtime: Runtime,
    pub(crate) _encoder: Running,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It has ended already where a test has asked it to.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that only makes the changes that it is asked for.
pub(crate) fn serve(fixture: &Fixture) -> Serving {
    serve_with(
        fixture.index().to_str().unwrap(),
        &["--merge", "never", "--keep", "all"],
    )
}

pub(crate) fn serve_with(index: &str, options: &[&str]) -> Serving {
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
    pub(crate) fn client(&self) -> IndexClient {
        self.runtime
            .block_on(IndexClient::connect(&self.url, ClientConfig::default()))
            .unwrap()
    }

    pub(crate) fn upsert(&self, documents: &[v1::Document]) -> Result<v1::ChangeResponse, ClientError> {
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

pub(crate) fn message(number: usize) -> v1::Document {
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
        etag: None,
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
    // Many at once share generations, and none is lost.
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
        assert!(generations.iter().all(|generation| (4..12).contains(generation)));
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
