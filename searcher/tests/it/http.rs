//! JSON over HTTP on a real port: the replies of gRPC, and everything that is refused.

use std::sync::Arc;

use dyad_proto::v1::{self, Mode};
use serde_json::{Value, json};

use crate::command_line::run_beside;
use crate::fixture::{Searcher, request, searcher};
use crate::http_client::{Http, Reply, over_engine};

/// Calls that the server takes at once.
pub(crate) const REQUESTS: usize = 4;

pub(crate) async fn over(server: &Searcher) -> Http {
    over_engine(Arc::clone(&server.engine)).await
}

pub(crate) fn error(reply: &Reply) -> (u16, &str, &str) {
    let error = &reply.json["error"];
    assert_eq!(error["code"], reply.status);
    (
        reply.status,
        error["status"].as_str().unwrap(),
        error["message"].as_str().unwrap(),
    )
}

/// A hit as it should come.
pub(crate) fn expected(hit: &v1::Hit) -> Value {
    let place = |place: &v1::Placement| json!({"rank": place.rank, "score": shortest(place.score)});
    let mut json = json!({
        "rank": hit.rank,
        "key": hit.key,
        "score": shortest(hit.score),
        "document": hit.document.as_ref().map(|document| json!({
            "key": document.key,
            "title": document.title,
            "text": document.text,
            "metadata": serde_json::from_str::<Value>(&document.metadata_json).unwrap(),
        })),
    });
    for (name, placement) in [("dense", &hit.dense), ("bm25", &hit.bm25)] {
        if let Some(placement) = placement {
            json[name] = place(placement);
        }
    }
    json
}

/// The shortest decimal that reads back as the same f32.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap()
}

/// A reply without the times that it took.
pub(crate) fn without_times(mut reply: Value) -> Value {
    reply.as_object_mut().unwrap().remove("timings");
    reply
}

/// There is one JSON: what a command prints can be read as the reply of the route, and the other way round.
#[tokio::test(flavor = "multi_thread")]
async fn commands_print_the_json_of_the_routes() {
    let server = searcher().await;
    let http = over(&server).await;
    let printed = async |arguments: &[&str]| -> Value {
        let (command, others) = arguments.split_at(1);
        let (_, out, error) = run_beside(&[command, &["--server", &server.url, "--json"], others].concat()).await;
        without_times(serde_json::from_str(&out).unwrap_or_else(|_| panic!("{arguments:?}: {out}{error}")))
    };
    let posted = async |path: &str, body: Value| without_times(http.post(path, &body).await.json);
    let query = "silent metal number 40";
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid, Mode::Compare] {
        let asked = ["query", "--mode", mode.word(), "-k", "3", "--snippet", "100", query];
        let body = json!({"query": query, "mode": mode.as_str_name(), "k": 3, "snippet_bytes": 100});
        assert_eq!(printed(&asked).await, posted("/v1/search", body).await, "{mode:?}");
    }
    let grouped = json!({"query": query, "mode": "MODE_BM25", "k": 2, "group_by": {"field": "thing", "hits": 2}});
    let asked = [
        "query",
        "--mode",
        "bm25",
        "-k",
        "2",
        "--group-by",
        "thing",
        "--group-hits",
        "2",
        query,
    ];
    assert_eq!(printed(&asked).await, posted("/v1/search", grouped).await);
    let body = json!({"key": "doc-40", "search": {"query": query, "mode": "MODE_HYBRID", "k": 10}});
    assert_eq!(
        printed(&["explain", "--key", "doc-40", query]).await,
        posted("/v1/explain", body).await
    );
    let body = json!({"keys": ["doc-07", "none"]});
    assert_eq!(
        printed(&["get", "doc-07", "none"]).await,
        posted("/v1/documents", body).await
    );
    for (action, path) in [("list", "/v1/indexes"), ("status", "/v1/status")] {
        let (mut one, mut other) = (
            printed(&["admin", action]).await,
            http.send("GET", path, "", "").await.json,
        );
        for reply in [&mut one, &mut other].map(Value::as_object_mut).into_iter().flatten() {
            // What the process takes changes from one call to the next.
            reply.remove("memory");
        }
        assert_eq!(one, other, "{action}");
    }
    assert_eq!(printed(&["admin", "verify"]).await["intact"], true);
    let reloaded = json!({"previous_generation": 1, "generation": 1});
    assert_eq!(printed(&["admin", "reload"]).await, reloaded);
}

#[tokio::test]
async fn every_call_gives_over_http_what_it_gives_over_grpc() {
    let server = searcher().await;
    let http = over(&server).await;
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
        let reply = server
            .client
            .search(request(mode, "silent metal number 40", 5))
            .await
            .unwrap();
        let body = json!({"query": "silent metal number 40", "mode": mode.as_str_name(), "k": 5});
        let got = http.post("/v1/search", &body).await;
        assert_eq!(got.status, 200, "{}", got.json);
        assert!(got.head.contains("content-type: application/json") && got.head.contains("content-length: "));
        assert_eq!(got.json["hits"], reply.hits.iter().map(expected).collect::<Value>());
        assert_eq!(
            (&got.json["generation"], &got.json["fingerprint"]),
            (&json!(1), &json!("f00d"))
        );
        assert_eq!(got.json["coverage"]["documents"], 60);
        let batch = http.post("/v1/search/batch", &json!({"requests": [body, body]})).await;
        assert_eq!(batch.json["responses"][1]["hits"], got.json["hits"]);
    }
    let got = http
        .post(
            "/v1/documents",
            &json!({"keys": ["doc-07", "none"], "fields": ["thing"]}),
        )
        .await;
    let etag = got.json["documents"][0]["etag"].as_str().unwrap();
    assert_eq!(etag.len(), 32);
    let document = json!({"key": "doc-07", "title": "", "text": "", "metadata": {"thing": "mountain"}, "etag": etag});
    assert_eq!(
        (got.status, &got.json),
        (200, &json!({"documents": [document], "missing": ["none"]}))
    );
    let search = json!({"query": "silent metal number 40", "mode": "MODE_BM25", "k": 1});
    let got = http
        .post("/v1/explain", &json!({"key": "doc-40", "search": search}))
        .await;
    assert_eq!((got.status, &got.json["hit"]["rank"]), (200, &json!(1)));
    assert!(got.json["bm25_explanation"].is_object(), "{}", got.json);
    let got = http.send("GET", "/v1/openapi.json", "", "").await;
    assert_eq!((got.status, &got.json["openapi"]), (200, &json!("3.1.0")));
}

/// What a reply lacks of what its schema requires, with the paths of the fields; counts what was there.
pub(crate) fn missing(document: &Value, schema: &Value, reply: &Value, path: &str, found: &mut usize) -> Vec<String> {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    if let Some(items) = reply.as_array() {
        let each = items.iter();
        return each
            .flat_map(|item| missing(document, &schema["items"], item, path, found))
            .collect();
    }
    let mut lacks = Vec::new();
    for name in schema["required"].as_array().into_iter().flatten() {
        match reply.get(name.as_str().unwrap()) {
            Some(_) => *found += 1,
            None => lacks.push(format!("{path}.{name}")),
        }
    }
    for (name, value) in reply.as_object().into_iter().flatten() {
        let inner = &schema["properties"][name];
        lacks.extend(missing(document, inner, value, &format!("{path}.{name}"), found));
    }
    lacks
}

#[tokio::test]
async fn replies_have_all_that_the_openapi_document_requires_of_them() {
    let server = searcher().await;
    let http = over(&server).await;
    let document = http.send("GET", "/v1/openapi.json", "", "").await.json;
    let search = json!({"query": "silent metal number 40", "k": 2});
    let mut found = 0;
    for (path, body) in [
        ("/v1/search", search.clone()),
        (
            "/v1/search",
            json!({"query": "silent metal number 40", "mode": "MODE_COMPARE"}),
        ),
        ("/v1/search/batch", json!({"requests": [search]})),
        ("/v1/documents", json!({"keys": ["doc-07"]})),
        ("/v1/documents/sample", json!({"count": 1})),
        ("/v1/scroll", json!({"page_size": 2})),
        ("/v1/count", json!({})),
        ("/v1/explain", json!({"key": "doc-40", "search": search})),
    ] {
        let reply = http.post(path, &body).await;
        assert_eq!(reply.status, 200, "{path}");
        let schema = &document["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"];
        assert_eq!(missing(&document, schema, &reply.json, path, &mut found), [""; 0]);
    }
    for path in ["/v1/status", "/v1/indexes", "/v1/fields"] {
        let reply = http.send("GET", path, "", "").await;
        let schema = &document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        assert_eq!(missing(&document, schema, &reply.json, path, &mut found), [""; 0]);
    }
    let refused = http.post("/v1/search", &json!({"k": 0})).await.json;
    let error = &document["components"]["schemas"]["Error"];
    assert_eq!(missing(&document, error, &refused, "error", &mut found), [""; 0]);
    assert!(found > 200, "{found}");
    // What a client sends is as free as before.
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["SearchRequest"].get("required"), None);
    assert_eq!(schemas["GetDocumentsRequest"]["required"], json!(["keys"]));
}

#[tokio::test]
async fn the_status_comes_as_json_with_the_certificate() {
    let server = searcher().await;
    let http = over(&server).await;
    let name = server.engine.indexes().next().unwrap().name().to_owned();
    for path in ["/v1/status".to_owned(), format!("/v1/status?index={name}")] {
        let reply = http.send("GET", &path, "", "").await;
        assert_eq!(
            (reply.status, &reply.json["name"]),
            (200, &json!(name)),
            "{path}: {}",
            reply.json
        );
        assert_eq!(
            (&reply.json["documents"], &reply.json["generations"]),
            (&json!(60), &json!([1]))
        );
        let shard = &reply.json["shards"][0];
        assert_eq!((&shard["documents"], &shard["deleted"]), (&json!(30), &json!(0)));
        let measured = &shard["certificate"];
        assert_eq!(
            (&measured["by_questions"], &measured["recall"][1]["ef"]),
            (&json!(true), &json!(200))
        );
        assert_eq!(measured["recall"][1]["recall_at_10"], json!(0.99));
        assert!(reply.json["memory"]["needed"].as_u64().unwrap() > 0);
    }
    for (query, status) in [
        ("index=none", 404),
        ("index=..", 400),
        ("index=a&index=b", 400),
        ("name=a", 400),
    ] {
        let reply = http.send("GET", &format!("/v1/status?{query}"), "", "").await;
        assert_eq!(reply.status, status, "{query}: {}", reply.json);
        assert!(
            reply.json["error"]["message"].as_str().unwrap().contains("index"),
            "{query}: {}",
            reply.json
        );
    }
    assert_eq!(http.send("POST", "/v1/status", "", "").await.status, 405);
}

#[tokio::test]
async fn a_sample_comes_as_json() {
    let server = searcher().await;
    let http = over(&server).await;
    let body = json!({"count": 5, "seed": 3, "fields": ["title", "place"]});
    let reply = http.post("/v1/documents/sample", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.json);
    assert_eq!((&reply.json["of"], &reply.json["generation"]), (&json!(60), &json!(1)));
    let documents = reply.json["documents"].as_array().unwrap();
    assert_eq!(documents.len(), 5);
    for document in documents {
        assert!(
            document["metadata"]["place"].is_object() && document["text"] == "",
            "{document}"
        );
    }
    assert_eq!(http.post("/v1/documents/sample", &body).await.json, reply.json);
    let reply = http.post("/v1/documents/sample", &json!({"count": 0})).await;
    assert_eq!(reply.status, 400);
    assert!(
        reply.json["error"]["message"]
            .as_str()
            .unwrap()
            .contains("`count`: expected 1 to 1000, got 0")
    );
}

#[tokio::test]
async fn a_call_ends_with_the_time_that_its_caller_gives() {
    let server = searcher().await;
    let http = over(&server).await;
    // The stand-in for a model takes its time.
    let body = json!({"query": "sleep number 4", "mode": "MODE_DENSE", "k": 1}).to_string();
    let headers = "Content-Type: application/json\r\nX-Request-Timeout: 0.2\r\n";
    let reply = http.send("POST", "/v1/search", headers, &body).await;
    assert_eq!((reply.status, error(&reply).1), (504, "DEADLINE_EXCEEDED"));
}

#[tokio::test]
async fn a_filter_asks_how_texts_begin() {
    let server = searcher().await;
    let http = over(&server).await;
    for (field, prefix, keys) in [
        ("thing", "m", ["doc-01", "doc-04"].as_slice()),
        ("thing", "met", &["doc-04"]),
        (
            "key",
            "doc-0",
            &["doc-00", "doc-01", "doc-02", "doc-03", "doc-04", "doc-05"],
        ),
        ("thing", "etal", &[]),
    ] {
        let first = json!({"range": {"field": "place.number", "below": {"number": 6}}});
        let begins = json!({"prefix": {"field": field, "prefix": prefix}});
        let filter = json!({"all": {"filters": [first, begins]}});
        let body = json!({"query": "river", "mode": "MODE_DENSE", "k": 60, "filter": filter});
        let reply = http.post("/v1/search", &body).await.json;
        let hits = reply["hits"].as_array().unwrap();
        let mut found: Vec<&str> = hits.iter().map(|hit| hit["key"].as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, keys, "{prefix}");
    }
}
