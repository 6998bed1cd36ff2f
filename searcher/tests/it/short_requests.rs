//! Requests as people write them by hand: defaults, words of enums, short filters, and from pages of other servers.

use dyad_proto::v1;
use serde_json::{Value, json};

use crate::fixture::searcher;
use crate::http::{error, over};

/// A reply's hits.
fn hits(reply: &Value) -> &Value {
    assert!(reply["hits"].as_array().is_some_and(|hits| !hits.is_empty()), "{reply}");
    &reply["hits"]
}

#[tokio::test]
async fn what_a_request_leaves_out_has_a_default_on_every_face() {
    let server = searcher().await;
    let http = over(&server).await;
    let query = "silent metal number 40";
    let full = http
        .post("/v1/search", &json!({"query": query, "mode": "MODE_HYBRID", "k": 10}))
        .await;
    let short = http.post("/v1/search", &json!({"query": query})).await;
    assert_eq!(
        (short.status, hits(&short.json)),
        (200, hits(&full.json)),
        "{}",
        short.json
    );
    let batch = http
        .post("/v1/search/batch", &json!({"requests": [{"query": query}]}))
        .await;
    assert_eq!(batch.json["responses"][0]["hits"], full.json["hits"], "{}", batch.json);
    let key = full.json["hits"][0]["key"].clone();
    let explained = http
        .post("/v1/explain", &json!({"key": key, "search": {"query": query}}))
        .await;
    assert_eq!(explained.status, 200, "{}", explained.json);

    let question = v1::SearchRequest {
        query: query.into(),
        ..v1::SearchRequest::default()
    };
    let reply = server.client.search(question.clone()).await.unwrap();
    assert_eq!(reply.hits.len(), 10);
    let keys: Vec<Value> = reply.hits.iter().map(|hit| json!(hit.key)).collect();
    let expected: Vec<Value> = full.json["hits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["key"].clone())
        .collect();
    assert_eq!(keys, expected);
    let wrong = http.post("/v1/search", &json!({"query": query, "k": 10_001})).await;
    assert_eq!(error(&wrong).1, "INVALID_ARGUMENT");
}

#[tokio::test]
async fn words_and_short_filters_ask_for_what_their_standard_forms_do() {
    let server = searcher().await;
    let http = over(&server).await;
    let query = "silent metal number 40";
    let standard = json!({"equals": {"field": "thing", "value": {"text": "mountain"}}});
    let asked = |mode: &str, filter: &Value| json!({"query": query, "mode": mode, "k": 3, "filter": filter});
    let expected = http.post("/v1/search", &asked("MODE_BM25", &standard)).await;
    for filter in [
        json!({"thing": "mountain"}),
        json!("thing=mountain"),
        json!({"thing": ["mountain"]}),
        json!(["thing=mountain"]),
    ] {
        let got = http.post("/v1/search", &asked("bm25", &filter)).await;
        assert_eq!(
            (got.status, hits(&got.json)),
            (200, hits(&expected.json)),
            "{filter}: {}",
            got.json
        );
    }
    for (body, told) in [
        (
            json!({"query": query, "mode": "sparse"}),
            "expected one of `dense`, `bm25`, `hybrid`, `compare`",
        ),
        (json!({"query": query, "filter": {"thing": {"~": "m"}}}), "got `~`"),
        (json!({"query": query, "filter": "thing"}), "there is no operator"),
        (json!({"query": query, "filtre": "thing=mountain"}), "filtre"),
    ] {
        let refused = http.post("/v1/search", &body).await;
        let (status, name, message) = error(&refused);
        assert!(
            (status, name) == (400, "INVALID_ARGUMENT") && message.contains(told),
            "{body}: {message}"
        );
    }
}

/// A browser asks before it sends JSON to another server, and reads a reply only where that server allows it.
#[tokio::test]
async fn pages_of_named_origins_are_answered_and_others_are_not() {
    let server = searcher().await;
    let http = over(&server).await;
    let preflight = async |origin: &str| {
        let headers = format!(
            "Origin: {origin}\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type,authorization\r\n"
        );
        http.send("OPTIONS", "/v1/search", &headers, "").await.head
    };
    let allowed = preflight("https://app.example").await;
    assert!(
        allowed.contains("access-control-allow-origin: https://app.example"),
        "{allowed}"
    );
    for header in [
        "access-control-allow-headers: content-type,authorization",
        "access-control-allow-methods: get,post",
    ] {
        assert!(allowed.contains(header), "{allowed}");
    }
    assert!(
        !preflight("https://evil.example")
            .await
            .contains("access-control-allow-origin")
    );
    let body = json!({"query": "number 4"}).to_string();
    let from = |origin: &str| format!("Content-Type: application/json\r\nOrigin: {origin}\r\n");
    let answered = http
        .send("POST", "/v1/search", &from("https://app.example"), &body)
        .await;
    assert_eq!(answered.status, 200, "{}", answered.json);
    assert!(
        answered
            .head
            .contains("access-control-allow-origin: https://app.example"),
        "{}",
        answered.head
    );
    let refused = http
        .send("POST", "/v1/search", &from("https://evil.example"), &body)
        .await;
    assert_eq!(error(&refused).1, "PERMISSION_DENIED");
    assert!(
        !refused.head.contains("access-control-allow-origin"),
        "{}",
        refused.head
    );
}
