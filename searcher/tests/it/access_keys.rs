//! What keys allow: indexes of their own, calls, streams, and the same over HTTP.

use std::time::Duration;

use dyad_proto::access::{KeyFile, Role};
use dyad_proto::v1::{self, Mode};
use serde_json::json;
use tonic::Code;

use crate::access::QUERY;
use crate::fixture::request;
use crate::guarded::{code, equals, guarded};

#[tokio::test]
async fn a_key_for_some_indexes_has_its_own_default() {
    let server = guarded().await;
    let one = server.searcher(&server.key(Role::Read, &["others"], None).await).await;
    assert_eq!(one.search(request(Mode::Bm25, QUERY, 3)).await.unwrap().index, "others");
    let both = server
        .searcher(&server.key(Role::Read, &["all", "others"], None).await)
        .await;
    assert_eq!(both.search(request(Mode::Bm25, QUERY, 3)).await.unwrap().index, "all");
    // Neither of them is the default one.
    let none = server
        .searcher(&server.key(Role::Read, &["others", "third"], None).await)
        .await;
    let error = none.search(request(Mode::Bm25, QUERY, 3)).await.unwrap_err();
    assert!(error.to_string().contains("There are `others`") && code(&error) == Code::InvalidArgument);
    // An admin for one index changes that one.
    let admin = server.admin(&server.key(Role::Admin, &["others"], None).await).await;
    let reload = |index: &str| v1::ReloadRequest { index: index.into() };
    assert_eq!(admin.reload(reload("others")).await.unwrap().generation, 1);
    assert_eq!(code(&admin.reload(reload("all")).await.unwrap_err()), Code::NotFound);
}

#[tokio::test]
async fn a_read_key_reads_and_what_changes_something_is_recorded() {
    let server = guarded().await;
    let (read, admin) = (
        server.key(Role::Read, &[], None).await,
        server.key(Role::Admin, &[], None).await,
    );
    let reader = server.admin(&read).await;
    assert_eq!(reader.status(v1::StatusRequest::default()).await.unwrap().documents, 60);
    assert_eq!(
        code(&reader.reload(v1::ReloadRequest::default()).await.unwrap_err()),
        Code::PermissionDenied
    );
    let rollback = v1::RollbackRequest {
        generation: 1,
        ..Default::default()
    };
    assert_eq!(
        code(&reader.rollback(rollback.clone()).await.unwrap_err()),
        Code::PermissionDenied
    );
    assert_eq!(
        code(&reader.verify(v1::VerifyRequest::default()).await.unwrap_err()),
        Code::PermissionDenied
    );
    let administrator = server.admin(&admin).await;
    assert!(
        administrator
            .verify(v1::VerifyRequest { index: "others".into() })
            .await
            .unwrap()
            .intact
    );
    assert_eq!(
        code(
            &administrator
                .reload(v1::ReloadRequest { index: "none".into() })
                .await
                .unwrap_err()
        ),
        Code::NotFound
    );
    let text = fs_err::read_to_string(&server.audit).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<(&str, &str, &str)> = lines
        .iter()
        .map(|line| {
            ["call", "status", "key_name"]
                .map(|field| line[field].as_str().unwrap())
                .into()
        })
        .collect();
    assert_eq!(
        told,
        [
            ("Admin.Reload", "PERMISSION_DENIED", "read"),
            ("Admin.Rollback", "PERMISSION_DENIED", "read"),
            ("Admin.Verify", "PERMISSION_DENIED", "read"),
            ("Admin.Verify", "OK", "admin"),
            ("Admin.Reload", "NOT_FOUND", "admin"),
        ]
    );
    assert_eq!(lines[3]["details"], json!({"index": "others"}));
    assert!(
        lines
            .iter()
            .all(|line| line["peer"].as_str().unwrap().starts_with("127.0.0.1:"))
    );
    for key in [&read, &admin] {
        let secret = key.rsplit('_').next().unwrap();
        assert!(!text.contains(secret) && !fs_err::read_to_string(&server.keys).unwrap().contains(secret));
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_key() {
    let server = guarded().await;
    let client = server.searcher(&server.key(Role::Read, &["others"], None).await).await;
    let (ask, asked) = tokio::sync::mpsc::channel(1);
    let asked = tokio_stream::wrappers::ReceiverStream::new(asked);
    ask.send(request(Mode::Bm25, QUERY, 3)).await.unwrap();
    let mut replies = client.search_stream(asked, Duration::from_mins(1)).await.unwrap();
    assert_eq!(
        replies.message().await.unwrap().unwrap().response.unwrap().index,
        "others"
    );
    let revoke = |file: &mut KeyFile| {
        let id = file.keys[0].id.clone();
        file.revoke(&server.keys, &id).map(drop)
    };
    KeyFile::change(&server.keys, revoke).unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let status = loop {
        assert!(std::time::Instant::now() < deadline);
        if ask.send(request(Mode::Bm25, QUERY, 3)).await.is_err() {
            continue;
        }
        match replies.message().await {
            Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            Err(status) => break status,
        }
    };
    assert!(
        status.code() == Code::Unauthenticated && status.message().contains("was revoked"),
        "{status}"
    );
}

#[tokio::test]
async fn keys_hold_over_http_too() {
    let server = guarded().await;
    let key = server.key(Role::Read, &["all"], Some(equals("thing", "planet"))).await;
    let header = |key: &str| format!("Content-Type: application/json\r\nAuthorization: Bearer {key}\r\n");
    let post = async |path: &str, key: &str, body: serde_json::Value| {
        server.http.send("POST", path, &header(key), &body.to_string()).await
    };
    let search = json!({"query": QUERY, "mode": "MODE_HYBRID", "k": 60});
    let reply = post("/v1/search", &key, search.clone()).await;
    assert_eq!((reply.status, reply.json["hits"].as_array().unwrap().len()), (200, 10));
    assert!(reply.head.contains("x-request-id: "), "{}", reply.head);
    let batch = post("/v1/search/batch", &key, json!({"requests": [search]})).await;
    assert_eq!(batch.json["responses"][0]["hits"].as_array().unwrap().len(), 10);
    let documents = post("/v1/documents", &key, json!({"keys": ["doc-00", "doc-02"]})).await;
    assert_eq!(documents.json["missing"], json!(["doc-00"]));
    assert_eq!(
        post("/v1/explain", &key, json!({"key": "doc-00", "search": search}))
            .await
            .status,
        404
    );
    assert_eq!(
        post(
            "/v1/search",
            &key,
            json!({"query": "x", "mode": "MODE_BM25", "k": 1, "index": "others"})
        )
        .await
        .status,
        404
    );
    let indexes = server.http.send("GET", "/v1/indexes", &header(&key), "").await;
    assert_eq!(indexes.json["indexes"].as_array().unwrap().len(), 1);
    let wrong = format!("{key}0");
    for (method, path) in [
        ("POST", "/v1/search"),
        ("POST", "/v1/search/batch"),
        ("POST", "/v1/documents"),
        ("POST", "/v1/documents/sample"),
        ("GET", "/v1/status"),
        ("GET", "/metrics"),
        ("POST", "/v1/explain"),
        ("GET", "/v1/indexes"),
        ("GET", "/none"),
        ("PUT", "/v1/search"),
    ] {
        for headers in ["Content-Type: application/json\r\n".to_owned(), header(&wrong)] {
            let reply = server.http.send(method, path, &headers, "{}").await;
            assert_eq!(
                (reply.status, reply.json["error"]["status"].as_str()),
                (401, Some("UNAUTHENTICATED")),
                "{path}"
            );
            assert!(reply.head.contains("www-authenticate: bearer") && reply.head.contains("x-request-id: "));
        }
    }
    let key = header(&key);
    let sample = server
        .http
        .send("POST", "/v1/documents/sample", &key, r#"{"count": 60}"#)
        .await;
    assert_eq!(sample.json["documents"].as_array().unwrap().len(), 10);
    for path in ["/v1/status", "/metrics"] {
        assert_eq!(server.http.send("GET", path, &key, "").await.status, 403, "{path}");
    }
    for path in ["/v1/openapi.json", "/livez", "/readyz", "/", "/page/main.js"] {
        assert_eq!(server.http.text("GET", path).await.0, 200, "{path}");
    }
}
