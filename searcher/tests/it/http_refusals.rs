//! What the routes refuse: and how they say so.

use dyad_searcher::run::EngineConfig;
use serde_json::{Value, json};

use crate::fixture::{searcher, searcher_with};
use crate::http::{error, over};
use crate::http_client::Reply;

#[tokio::test]
async fn what_is_refused_says_why() {
    let server = searcher().await;
    let http = over(&server).await;
    let fine = json!({"query": "number 4", "mode": "MODE_DENSE", "k": 1});
    let with = |field: &str, value: Value| {
        let mut body = fine.clone();
        body[field] = value;
        body
    };
    for (body, status, part) in [
        (
            with("k", json!(10_001)),
            "INVALID_ARGUMENT",
            "`k`: expected 1 to 10000, got 10001",
        ),
        (with("kk", json!(1)), "INVALID_ARGUMENT", "kk"),
        (with("snippet_bytes", json!(5)), "INVALID_ARGUMENT", "`snippet_bytes`"),
        (with("fingerprint", json!("beef")), "FAILED_PRECONDITION", "beef"),
        (json!([1]), "INVALID_ARGUMENT", "the request's JSON"),
    ] {
        let reply = http.post("/v1/search", &body).await;
        let (code, got, message) = error(&reply);
        assert_eq!((code, got), (400, status), "{body}: {message}");
        assert!(message.contains(part), "{body}: {message}");
    }
    let reply = http.post("/v1/explain", &json!({"key": "none", "search": fine})).await;
    assert_eq!(error(&reply).0, 404);
    let reply = http.send("POST", "/v1/search", "", &fine.to_string()).await;
    assert!(reply.status == 415 && error(&reply).2.contains("application/json, got none"));
    let reply = http
        .send("POST", "/v1/search", "Content-Type: text/plain\r\n", &fine.to_string())
        .await;
    assert!(reply.status == 415 && error(&reply).2.contains("got text/plain"));
    let reply = http.send("GET", "/v1/search", "", "").await;
    assert!(
        reply.status == 405 && reply.head.contains("allow: post"),
        "{}",
        reply.head
    );
    let reply = http.send("GET", "/v2", "", "").await;
    assert!(reply.status == 404 && error(&reply).2.contains("POST /v1/search"));
    let headers = "Content-Type: application/json\r\nX-Request-Timeout: soon\r\n";
    let reply = http.send("POST", "/v1/search", headers, &fine.to_string()).await;
    assert!(reply.status == 400 && error(&reply).2.contains("X-Request-Timeout"));
    let length = dyad_proto::limits::MAX_SEARCH_BYTES + 1;
    let head = "POST /v1/search HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let reply = http
        .raw(format!("{head}Content-Length: {length}\r\n\r\n").as_bytes())
        .await;
    assert!(
        reply.status == 413 && error(&reply).2.contains("4194304"),
        "{}",
        reply.json
    );
}

#[tokio::test]
async fn more_calls_than_fit_are_told_when_to_come_again() {
    let server = searcher_with(EngineConfig {
        max_requests: 2,
        ..EngineConfig::default()
    })
    .await;
    let http = over(&server).await;
    let body = json!({"query": "sleep number 4", "mode": "MODE_DENSE", "k": 1});
    let replies = futures_util::future::join_all((0..12).map(|_| http.post("/v1/search", &body))).await;
    let refused: Vec<&Reply> = replies.iter().filter(|reply| reply.status == 429).collect();
    assert!(!refused.is_empty() && replies.iter().any(|reply| reply.status == 200));
    for reply in refused {
        assert_eq!(error(reply).1, "RESOURCE_EXHAUSTED");
        assert!(
            reply.head.contains("retry-after: ") && reply.head.contains("retry-after-ms: "),
            "{}",
            reply.head
        );
    }
}

#[tokio::test]
async fn a_request_says_once_where_it_goes_and_what_it_holds() {
    let server = searcher().await;
    let http = over(&server).await;
    let body = r#"{"query": "river", "mode": "MODE_BM25", "k": 1}"#;
    let post = |target: &str, headers: &str, body: &str| {
        let length = body.len();
        let head = format!("POST {target} HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\n");
        format!("{head}Content-Length: {length}\r\n{headers}\r\n{body}").into_bytes()
    };
    let local = "Host: localhost\r\n";
    for (target, headers, body, expected) in [
        ("/v1/search", local.to_owned(), body, (200, "")),
        ("http://localhost/v1/search", local.to_owned(), body, (200, "")),
        ("/v1/search", String::new(), body, (400, "expected one, got none")),
        (
            "/v1/search",
            format!("{local}{local}"),
            body,
            (400, "expected one, got several"),
        ),
        (
            "/v1/search",
            format!("{local}Host: evil.example\r\n"),
            body,
            (400, "expected one, got several"),
        ),
        (
            "http://evil.example/v1/search",
            local.to_owned(),
            body,
            (400, "expected `evil.example`"),
        ),
        (
            "http://evil.example/v1/search",
            "Host: evil.example\r\n".to_owned(),
            body,
            (403, "evil.example"),
        ),
        (
            "/v1/search",
            format!("{local}Content-Encoding: identity\r\n"),
            body,
            (200, ""),
        ),
        (
            "/v1/search",
            format!("{local}Content-Encoding: gzip\r\n"),
            body,
            (400, "no gzip that can be read"),
        ),
        (
            "/v1/search",
            format!("{local}Content-Encoding: br\r\n"),
            body,
            (415, "got `br`"),
        ),
        (
            "/v1/search",
            local.to_owned(),
            r#"{"query": "river", "query": "ocean"}"#,
            (400, "`query` is there twice"),
        ),
        (
            "/v1/search",
            local.to_owned(),
            r#"{"query": "a", "scoreThreshold": 1, "score_threshold": 2}"#,
            (400, "twice"),
        ),
    ] {
        let reply = http.raw(&post(target, &headers, body)).await;
        let said = reply.json["error"]["message"].as_str().unwrap_or_default();
        assert!(
            reply.status == expected.0 && said.contains(expected.1),
            "{target} {headers}: {} {said}",
            reply.status
        );
    }
    for path in ["/metrics", "/livez", "/"] {
        let reply = http
            .raw(format!("GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n").as_bytes())
            .await;
        assert_eq!(reply.status, 400, "{path}");
    }
    let old = http.raw(b"GET /livez HTTP/1.0\r\n\r\n").await;
    assert_eq!(old.status, 200, "HTTP/1.0 has no host");
}
