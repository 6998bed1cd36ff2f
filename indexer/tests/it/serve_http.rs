//! `dyad-indexer serve --http`: changes as JSON, probes and metrics.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use dyad_index::{Snapshot, manifest};
use dyad_proto::access::{KeyFile, NewKey, Role};
use serde_json::{Value, json};

use crate::command_line::dyad_indexer;
use crate::fixture::Fixture;

/// The program, without an encoder service; ended when it is dropped.
struct HttpServing {
    child: Child,
    address: String,
}

impl Drop for HttpServing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A reply.
struct HttpReply {
    status: u16,
    body: String,
}

impl HttpReply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

fn serve_http(fixture: &Fixture, options: &[&str]) -> HttpServing {
    let mut command = dyad_indexer();
    command.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        "--threads",
        "1",
        "--lame-duck-s",
        "0",
    ]);
    command.args(["--merge", "never", "--keep", "all"]);
    let index = format!("wiki={}", fixture.index().display());
    command.args(["--index", &index]).args(options);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let address = lines.next().unwrap().unwrap();
    HttpServing {
        child,
        address: address.strip_prefix("HTTP on ").unwrap().to_owned(),
    }
}

impl HttpServing {
    fn send(&self, request: &str, headers: &str, body: &str) -> HttpReply {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}",
            self.address
        );
        write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        HttpReply {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            body: body.to_owned(),
        }
    }

    fn get(&self, path: &str) -> HttpReply {
        self.send(&format!("GET {path}"), "", "")
    }

    fn post(&self, path: &str, body: &Value, headers: &str) -> HttpReply {
        let headers = format!("Content-Type: application/json\r\n{headers}");
        self.send(&format!("POST {path}"), &headers, &body.to_string())
    }
}

#[test]
fn documents_are_upserted_and_deleted_as_json() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let model = manifest::current(&fixture.index()).unwrap().model;
    let serving = serve_http(&fixture, &[]);
    let upsert = json!({
        "documents": [{"key": "a", "title": "A", "text": "the text", "metadata": {"year": 2026, "tags": ["x"]}}],
        "vectors": [{"values": vec![1.0; model.dim]}],
        "fingerprint": model.fingerprint,
    });
    let reply = serving.post("/v1/upsert", &upsert, "");
    assert_eq!(reply.status, 200, "{}", reply.body);
    let counts = reply.json();
    assert_eq!(
        (&counts["generation"], &counts["indexed"], &counts["documents"]),
        (&json!(2), &json!(1), &json!(21))
    );
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let (shard, node) = snapshot.find("a").unwrap().unwrap();
    let stored = snapshot.document(shard, node).unwrap();
    assert_eq!(
        (stored.title.as_str(), stored.metadata_json.as_str()),
        ("A", r#"{"year":2026,"tags":["x"]}"#)
    );

    let reply = serving.post("/v1/delete", &json!({"keys": ["a", "absent"]}), "");
    let counts = reply.json();
    assert_eq!(
        (reply.status, &counts["indexed"], &counts["rejected"]),
        (200, &json!(1), &json!(1))
    );
    documents_are_deleted_by_filters(&serving);
    what_is_wrong_is_refused(&serving);
    assert_eq!(serving.get("/v1/upsert").status, 405);
    assert_eq!(
        (
            serving.get("/livez").body.as_str(),
            serving.get("/readyz").body.as_str()
        ),
        ("ok\n", "ok\n")
    );
    let document = serving.get("/v1/openapi.json").json();
    let request = &document["components"]["schemas"]["UpsertRequest"];
    assert_eq!(request["required"], json!(["documents"]));
    assert!(
        document["components"]["schemas"]["Document"]["properties"]
            .get("metadata")
            .is_some()
    );
    let metrics = serving.get("/metrics").body;
    let build = concat!(
        "dyad_indexer_build_info{version=\"",
        env!("CARGO_PKG_VERSION"),
        "\",revision=\""
    );
    assert!(metrics.lines().any(|line| line.starts_with(build)), "{metrics}");
    for line in [
        "dyad_indexer_calls_total{call=\"Index.Upsert\",status=\"OK\"} 1",
        "dyad_indexer_changes_total 3",
        "dyad_indexer_documents_changed_total 4",
        "dyad_indexer_generation 4",
        "dyad_indexer_generations 4",
        "dyad_indexer_documents 18",
        "dyad_indexer_waiting_calls 0",
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line}: {metrics}");
    }
}

fn documents_are_deleted_by_filters(serving: &HttpServing) {
    // By a filter: none yet, then the documents 18 and 15 of the fixture.
    for (filter, indexed) in [
        (json!("year>2020"), 0),
        (json!({"number": {">=": 15}, "source": "tests"}), 2),
    ] {
        let reply = serving.post("/v1/delete", &json!({"filter": filter}), "");
        let counts = reply.json();
        assert_eq!(
            (reply.status, &counts["indexed"]),
            (200, &json!(indexed)),
            "{}",
            reply.body
        );
    }
}

fn what_is_wrong_is_refused(serving: &HttpServing) {
    for (path, body, status, expected) in [
        (
            "/v1/delete",
            json!({"keys": []}),
            400,
            "`keys`: expected 1 to 1024 entries, or a `filter`",
        ),
        (
            "/v1/delete",
            json!({"keys": ["a"], "filter": "year>2020"}),
            400,
            "expected `keys` or `filter`, got both",
        ),
        (
            "/v1/delete",
            json!({"filter": {"all": {}}}),
            400,
            "`filter.all.filters`",
        ),
        ("/v1/delete", json!({"kys": ["a"]}), 400, "kys"),
        (
            "/v1/upsert",
            json!({"documents": [{"key": "a", "text": "t"}]}),
            400,
            "no encoder service",
        ),
        (
            "/v1/upsert",
            json!({"documents": [{"key": "", "text": "t"}]}),
            400,
            "`documents[0].key`",
        ),
        (
            "/v1/upsert",
            json!({"documents": [{"key": "a", "text": "t", "metadata": 7}]}),
            400,
            "metadata",
        ),
        ("/v1/search", json!({}), 404, "POST /v1/upsert and /v1/delete"),
    ] {
        let reply = serving.post(path, &body, "");
        assert!(
            reply.status == status && reply.body.contains(expected),
            "{path} {body}: {} {}",
            reply.status,
            reply.body
        );
    }
}

#[test]
fn writing_needs_a_key_with_that_role() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let file = fixture.path("keys.json");
    let key = |name: &str, role: Role, indexes: &[&str]| {
        let indexes = indexes.iter().map(|name| (*name).to_owned()).collect();
        let new = NewKey {
            name: name.into(),
            role,
            indexes,
            filter: None,
            concurrency: None,
        };
        KeyFile::change(&file, |file| file.create(new)).unwrap()
    };
    let reader = key("reader", Role::Read, &[]);
    let writer = key("writer", Role::Write, &["wiki"]);
    let stranger = key("stranger", Role::Write, &["other"]);
    let serving = serve_http(&fixture, &["--keys", file.to_str().unwrap()]);
    let body = json!({"keys": ["doc-0001"]});
    let delete = |headers: &str| serving.post("/v1/delete", &body, headers).status;
    let bearer = |key: &str| format!("Authorization: Bearer {key}\r\n");
    assert_eq!(
        (delete(""), delete(&bearer(&reader)), delete(&bearer(&stranger))),
        (401, 403, 403)
    );
    assert_eq!(serving.get("/metrics").status, 401);
    assert_eq!(delete(&bearer(&writer)), 200);
    assert_eq!(serving.get("/readyz").status, 200);
}
