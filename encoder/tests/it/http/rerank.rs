//! Texts in the order of a cross encoder's scores: those of gRPC, in the forms of Cohere, Jina and TEI.

use dyad_encoder::serve::EncoderService;
use dyad_proto::v1;
use dyad_proto::v1::encoder_server::Encoder as _;
use serde_json::{Value, json};
use tonic::Request;

use super::{Reply, Server, grpc_request, serve_model, simple};
use crate::service::one_thread;

const QUERY: &str = "who was the king";
const TEXTS: [&str; 4] = ["the queen", "water and light", "the king of the city", "the queen"];

async fn cross() -> Server {
    serve_model("cross-classic", one_thread()).await
}

impl Server {
    async fn rerank(&self, path: &str, body: &Value) -> Reply {
        self.post_to(path, "", body.to_string().as_bytes()).await
    }

    async fn scores(&self, texts: &[&str]) -> v1::ScoreResponse {
        let texts = texts.iter().map(ToString::to_string).collect();
        let request = v1::ScoreRequest {
            id: 3,
            query: QUERY.into(),
            texts,
            ..Default::default()
        };
        EncoderService::new(self.handle.clone())
            .score(Request::new(request))
            .await
            .unwrap()
            .into_inner()
    }
}

/// Places and scores of a reply's results, best first.
fn ranked(results: &Value, score: &str) -> Vec<(u64, f32)> {
    let one = |result: &Value| {
        (
            result["index"].as_u64().unwrap(),
            result[score].as_f64().unwrap() as f32,
        )
    };
    results.as_array().unwrap().iter().map(one).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scores_are_those_of_grpc_and_the_best_come_first() {
    let server = cross().await;
    let scores = server.scores(&TEXTS).await;
    assert_eq!(
        (scores.id, scores.tokens.len(), scores.truncated_texts.len()),
        (3, 4, 0)
    );
    assert_eq!(scores.fingerprint, server.handle.info().fingerprint);
    let mut expected: Vec<(u64, f32)> = (0..).zip(scores.scores).collect();
    expected.sort_by(|a, b| b.1.total_cmp(&a.1));
    assert!(expected[0].1 > expected[3].1, "the scores tell nothing apart");

    let reply = server
        .rerank(
            "/v1/rerank",
            &json!({"query": QUERY, "documents": TEXTS, "model": "cross-classic"}),
        )
        .await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, Some("application/json")),
        "{}",
        reply.text()
    );
    assert_eq!(
        reply.header("x-dyad-fingerprint"),
        Some(server.handle.info().fingerprint.as_str())
    );
    let body = reply.json();
    assert_eq!(ranked(&body["results"], "relevance_score"), expected);
    assert_eq!(
        (&body["model"], body["results"][0].get("document")),
        (&json!("cross-classic"), None)
    );
    assert_eq!(body["usage"]["total_tokens"], json!(scores.tokens.iter().sum::<u32>()));

    let documents: Vec<Value> = TEXTS.iter().map(|text| json!({"text": text, "title": 5})).collect();
    let asked = json!({"query": QUERY, "documents": documents, "top_n": 2, "return_documents": true});
    let body = server.rerank("/v1/rerank", &asked).await.json();
    assert_eq!(ranked(&body["results"], "relevance_score"), expected[..2]);
    let best = TEXTS[expected[0].0 as usize];
    assert_eq!(body["results"][0]["document"], json!({"text": best}));

    let body = server
        .rerank("/rerank", &json!({"query": QUERY, "texts": TEXTS, "return_text": true}))
        .await
        .json();
    assert_eq!(ranked(&body, "score"), expected);
    assert_eq!(body[0]["text"], json!(best));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_ranked_is_refused_with_the_field() {
    let server = cross().await;
    for (body, status, code, param, part) in [
        (
            json!({"query": QUERY, "documents": []}),
            400,
            "empty_input",
            "documents",
            "`documents` is empty",
        ),
        (
            json!({"query": QUERY, "documents": ["a", " "]}),
            400,
            "empty_input",
            "documents",
            "`documents[1]` is empty",
        ),
        (
            json!({"query": " ", "documents": ["a"]}),
            400,
            "empty_input",
            "query",
            "`query` is empty",
        ),
        (
            json!({"query": QUERY, "documents": ["a"], "top_n": 0}),
            400,
            "invalid_value",
            "top_n",
            "at least 1",
        ),
        (
            json!({"query": QUERY, "documents": [5]}),
            400,
            "invalid_value",
            "documents",
            "documents[0]",
        ),
        (
            json!({"query": QUERY, "documents": ["a"], "model": "other"}),
            404,
            "model_not_found",
            "model",
            "other",
        ),
        (
            json!({"query": QUERY, "documents": vec!["a"; 1025]}),
            413,
            "input_too_large",
            "documents",
            "expected at most 1024 texts",
        ),
        (
            json!({"query": "a".repeat(40_000), "documents": ["a"]}),
            400,
            "invalid_value",
            "query",
            "at most 32768 bytes, got 40000",
        ),
        (
            json!({"query": QUERY, "documents": ["a", "the river ".repeat(60)], "truncate": false}),
            422,
            "context_length_exceeded",
            "documents",
            "`documents[1]` has 1",
        ),
    ] {
        let reply = server.rerank("/v1/rerank", &body).await;
        let error = reply.json()["error"].clone();
        assert_eq!(
            (reply.status, &error["code"], &error["param"]),
            (status, &json!(code), &json!(param)),
            "{error}"
        );
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
    }
    // Each kind of model for its calls.
    let reply = server.post(&json!({"input": "the river"})).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (400, &json!("other_model_kind")),
        "{}",
        reply.text()
    );
    let status = server
        .grpc(grpc_request(v1::Tower::Answer, &["the river"]))
        .await
        .unwrap_err();
    assert!(
        status.code() == tonic::Code::FailedPrecondition && status.message().contains("Score"),
        "{status}"
    );
    let towers = simple().await;
    let reply = towers
        .rerank("/v1/rerank", &json!({"query": QUERY, "documents": TEXTS}))
        .await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (400, &json!("other_model_kind")),
        "{}",
        reply.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cross_encoder_is_ready_and_says_what_it_is() {
    let server = cross().await;
    assert_eq!(server.get("/readyz").await.status, 200);
    let model = server.get("/v1/models/cross-classic").await.json();
    assert_eq!(
        (&model["kind"], &model["dimensions"]),
        (&json!("cross-encoder"), &Value::Null)
    );
    let model = simple().await.get("/v1/models").await.json();
    assert_eq!(model["data"][0]["kind"], json!("dual-encoder"));
}
