//! Everything that is refused, with status, OpenAI's error shape and the reason.

use dyad_encoder::serve::ServedModelOptions;
use dyad_proto::{limits, v1};
use serde_json::{Value, json};
use tonic::Code;

use super::{Reply, Server, grpc_request, serve, simple};
use crate::service::one_thread;

/// The error's message, after its shape is checked.
fn error(reply: &Reply, status: u16, code: &str, param: Option<&str>) -> String {
    let json: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    assert_eq!(
        (reply.status, &json["error"]["code"]),
        (status, &json!(code)),
        "{}",
        String::from_utf8_lossy(&reply.body)
    );
    assert_eq!(json["error"]["param"], json!(param), "{json}");
    assert!(
        json["error"]["type"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("_error")),
        "{json}"
    );
    assert_eq!(reply.header("content-type"), Some("application/json"));
    json["error"]["message"].as_str().unwrap().to_owned()
}

async fn refused(server: &Server, body: Value, status: u16, code: &str, param: &str) -> String {
    error(&server.post(&body).await, status, code, Some(param))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_400() {
    let server = simple().await;
    for (body, code, param, expected) in [
        (&b"{\"input\": \"\xff\xfe\"}"[..], "invalid_utf8", None, "byte 11"),
        (b"{\"input\": ", "invalid_json", None, "EOF"),
        (b"", "invalid_json", None, "EOF"),
        (b"{\"input\": \"a\"} b", "invalid_json", None, "trailing"),
        (b"input=a", "invalid_json", None, "expected value"),
        (
            b" [\"a\", null, null, null, null, null]",
            "invalid_value",
            None,
            "a JSON object",
        ),
        (b"\"a\"", "invalid_value", None, "a JSON object"),
        (b"{}", "invalid_value", None, "missing field `input`"),
        (b"{\"input\": 5}", "invalid_value", Some("input"), "an array of texts"),
        (
            b"{\"input\": null}",
            "invalid_value",
            Some("input"),
            "an array of texts",
        ),
        (
            b"{\"input\": [\"a\", 5]}",
            "invalid_value",
            Some("input"),
            "items of one kind",
        ),
        (b"{\"input\": [\"a\", 1.5]}", "invalid_value", Some("input"), "input[1]"),
        (b"{\"input\": [[5, -1]]}", "invalid_value", Some("input"), "-1"),
        (b"{\"input\": [[5], [[5]]]}", "invalid_value", Some("input"), "input[1]"),
        (
            b"{\"input\": [4294967296]}",
            "invalid_value",
            Some("input"),
            "4294967296",
        ),
        (
            b"{\"input\": \"a\", \"encoding_format\": \"hex\"}",
            "invalid_value",
            Some("encoding_format"),
            "base64",
        ),
        (
            b"{\"input\": \"a\", \"input_type\": \"both\"}",
            "invalid_value",
            Some("input_type"),
            "question",
        ),
        (
            b"{\"input\": \"a\", \"dimensions\": -1}",
            "invalid_value",
            Some("dimensions"),
            "-1",
        ),
        (
            b"{\"input\": \"a\", \"dimensions\": 1.5}",
            "invalid_value",
            Some("dimensions"),
            "1.5",
        ),
        (
            b"{\"input\": \"a\", \"truncate\": \"no\"}",
            "invalid_value",
            Some("truncate"),
            "boolean",
        ),
        (
            b"{\"input\": \"a\", \"model\": 5}",
            "invalid_value",
            Some("model"),
            "string",
        ),
    ] {
        let message = error(&server.post_bytes("", body).await, 400, code, param);
        assert!(
            message.contains(expected),
            "{}: {message}",
            String::from_utf8_lossy(body)
        );
    }
    for timeout in ["0", "-3", "soon"] {
        let reply = server
            .post_bytes(&format!("X-Request-Timeout: {timeout}\r\n"), b"{\"input\": \"a\"}")
            .await;
        let message = error(&reply, 400, "invalid_timeout", None);
        assert!(
            message.contains("X-Request-Timeout") && message.contains(timeout),
            "{message}"
        );
    }
    // What is not HTTP at all.
    assert_eq!(server.raw(b"\x16\x03\x01 hello\r\n\r\n").await.status, 400);
    assert_eq!(server.post(&json!({"input": "a"})).await.status, 200, "and goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_input_is_400_and_names_its_place() {
    let server = simple().await;
    let empty = async |input: Value| {
        let request = json!({"input": input, "tokenizer": super::MODEL});
        refused(&server, request, 400, "empty_input", "input").await
    };
    assert!(empty(json!([])).await.contains("`input` is empty"));
    assert!(empty(json!("")).await.contains("`input[0]`"));
    assert!(empty(json!(["a", " \n"])).await.contains("`input[1]`"));
    assert!(empty(json!([[5, 6], []])).await.contains("`input[1]`"));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_model_or_route_is_404_and_another_method_405() {
    let server = simple().await;
    let other = json!({"input": "a", "model": "text-embedding-3-small"});
    let message = refused(&server, other, 404, "model_not_found", "model").await;
    assert!(
        message.contains("text-embedding-3-small") && message.contains(super::MODEL),
        "{message}"
    );
    assert!(error(&server.get("/v2/embeddings").await, 404, "not_found", None).contains("/v1/embeddings"));
    error(
        &server.get("/v1/models/other").await,
        404,
        "model_not_found",
        Some("model"),
    );
    // A name that is no UTF-8 once its escapes are read.
    for path in ["/v1/models/%FF", "/v1/models/a%C3%28"] {
        let message = error(&server.get(path).await, 400, "invalid_path", Some("model"));
        assert!(message.contains("UTF-8") && message.contains(super::MODEL), "{message}");
    }
    let reply = server.get("/v1/embeddings").await;
    error(&reply, 405, "method_not_allowed", None);
    assert_eq!(reply.header("allow"), Some("post"));
}

#[tokio::test(flavor = "multi_thread")]
async fn dimensions_outside_the_model_are_refused_over_both() {
    let server = simple().await;
    for dimensions in [0, 37, 4096] {
        let message = refused(
            &server,
            json!({"input": "a", "dimensions": dimensions}),
            400,
            "dimensions",
            "dimensions",
        );
        let message = message.await;
        assert!(
            message.contains("1 to 36") && message.contains(&dimensions.to_string()),
            "{message}"
        );
    }
    let request = v1::EncodeRequest {
        dimensions: 37,
        ..grpc_request(v1::Tower::Answer, &["a"])
    };
    let status = server.grpc(request).await.unwrap_err();
    assert!(
        status.code() == Code::InvalidArgument && status.message().contains("1 to 36, "),
        "{status}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn token_ids_that_are_not_the_models_are_refused_by_name() {
    let server = simple().await;
    let vocabulary = crate::fixture::read_json(&crate::fixture::tiny(super::MODEL).join("tokenizer.json"));
    let id = |token: &str| vocabulary["model"]["vocab"][token].as_u64().unwrap();
    let named = |input: Value| json!({"input": input, "tokenizer": super::MODEL});
    let message = refused(&server, named(json!([[5], [5, 99_999]])), 400, "unknown_token", "input").await;
    assert!(
        message.contains("`input[1][1]` is token id 99999, the vocabulary has"),
        "{message}"
    );
    for (ids, place) in [([id("[CLS]"), 5], "`input[0][0]`"), ([5, id("[SEP]")], "`input[0][1]`")] {
        let message = refused(&server, named(json!(ids)), 400, "special_token", "input").await;
        assert!(
            message.contains(place) && message.contains("add_special_tokens=False"),
            "{message}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_long_a_text_is_refused_where_it_must_not_be_cut() {
    let server = simple().await;
    let long = "the river ".repeat(20);
    let message = refused(
        &server,
        json!({"input": ["the river", long, long], "truncate": false}),
        422,
        "context_length_exceeded",
        "input",
    )
    .await;
    // 40 words, two special tokens, and the prompt of documents.
    let tokens: usize = message.split(' ').find_map(|word| word.parse().ok()).unwrap();
    assert!(
        tokens >= 42 && message.contains("`input[1]`") && message.contains("the model reads 24"),
        "{message}"
    );
    let texts = ["the river", &long, &long];
    let request = v1::EncodeRequest {
        truncation: v1::Truncation::Refuse.into(),
        ..grpc_request(v1::Tower::Answer, &texts)
    };
    let status = server.grpc(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(
        status
            .message()
            .contains(&format!("`texts[1]` has {tokens} tokens, the model reads 24")),
        "{status}"
    );
    // As many tokens as the same words in ids.
    let words = server.post(&json!({"input": ["the", "river"]})).await.json();
    assert_eq!(
        words["usage"]["total_tokens"].as_u64().unwrap() as usize,
        2 * (tokens - 40) + 2
    );
    let vocabulary = crate::fixture::read_json(&crate::fixture::tiny(super::MODEL).join("tokenizer.json"));
    let the = vocabulary["model"]["vocab"]["the"].as_u64().unwrap();
    let ids = json!({"input": [[the], vec![the; 40]], "tokenizer": super::MODEL, "truncate": false});
    let message = refused(&server, ids, 422, "context_length_exceeded", "input").await;
    assert!(
        message.contains(&format!("`input[1]` has {tokens} tokens")),
        "{message}"
    );
    // What fits is embedded.
    assert_eq!(
        server
            .post(&json!({"input": "the river", "truncate": false}))
            .await
            .status,
        200
    );
    for (count, status) in [(24, 200), (25, 422)] {
        let ids = vec![the; count - (tokens - 40)];
        let reply = server
            .post(&json!({"input": ids, "tokenizer": super::MODEL, "truncate": false}))
            .await;
        assert_eq!(reply.status, status);
    }
    // Of a very long one the beginning is counted.
    let endless = json!({"input": "the river ".repeat(100_000), "truncate": false});
    let message = refused(&server, endless, 422, "context_length_exceeded", "input").await;
    let counted: usize = message.split(' ').find_map(|word| word.parse().ok()).unwrap();
    assert!(
        (13_000..14_000).contains(&counted) && message.contains("has more than"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_at_once_is_413() {
    let server = serve(ServedModelOptions {
        queue_tokens: 100,
        ..one_thread()
    })
    .await;
    // Larger than the queue, in every form.
    for input in [json!(vec!["the river and the king"; 50]), json!(vec![vec![5; 30]; 50])] {
        let request = json!({"input": input, "tokenizer": super::MODEL});
        let message = refused(&server, request, 413, "too_many_tokens", "input").await;
        assert!(message.contains("the queue holds 100"), "{message}");
    }
    let many = json!({"input": vec!["a"; limits::MAX_TEXTS + 1]});
    assert!(
        refused(&server, many, 413, "input_too_large", "input")
            .await
            .contains("at most 1024 texts, got 1025")
    );
    let long = json!({"input": ["a", "b".repeat(limits::MAX_TEXT_BYTES + 1)]});
    assert!(
        refused(&server, long, 413, "input_too_large", "input")
            .await
            .contains("`input[1]`")
    );
    let ids = json!({"input": vec![5; limits::MAX_TEXT_BYTES / 4 + 1]});
    assert!(
        refused(&server, ids, 413, "input_too_large", "input")
            .await
            .contains("token ids")
    );
    let ids = json!({"input": [[5], vec![5; limits::MAX_TEXT_BYTES / 4 + 1]]});
    assert!(
        refused(&server, ids, 413, "input_too_large", "input")
            .await
            .contains("`input[1]")
    );
    // A body of nothing but items: refused at the 1,025th, whatever follows it.
    let many = [&b"{\"input\": [[]"[..], &b",[]".repeat(1_000_000), b", what is no JSON"].concat();
    let message = error(
        &server.post_bytes("", &many).await,
        413,
        "input_too_large",
        Some("input"),
    );
    assert_eq!(
        message,
        "`input`: expected at most 1024 texts, got 1025 or more. Send them in parts"
    );
    // A body too large is refused before it is sent.
    let head = "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let announced = format!("{head}Content-Length: {}\r\n\r\n", limits::MAX_MESSAGE_BYTES + 1);
    error(&server.raw(announced.as_bytes()).await, 413, "body_too_large", None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_passes_is_504() {
    let server = simple().await;
    let body = json!({"input": vec!["the river"; 200]}).to_string();
    let reply = server
        .post_bytes("X-Request-Timeout: 0.000001\r\n", body.as_bytes())
        .await;
    // The body comes late already, or the vectors do.
    assert!([408, 504].contains(&reply.status), "{}", reply.text());
    assert_eq!(
        server
            .post_bytes("X-Request-Timeout: 60\r\n", body.as_bytes())
            .await
            .status,
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn token_ids_of_an_unnamed_or_another_tokenizer_are_refused() {
    let server = simple().await;
    for input in [json!([5, 6]), json!([[5], [6]])] {
        let message = refused(&server, json!({"input": input}), 400, "tokenizer_missing", "tokenizer").await;
        assert!(message.contains("check_embedding_ctx_length=False"), "{message}");
        assert!(
            message.contains(&format!("\"tokenizer\": \"{}\"", super::MODEL)),
            "{message}"
        );
        // The model's name alone says nothing: clients send it with ids of OpenAI's tokenizers.
        let modelled = json!({"input": input, "model": super::MODEL});
        refused(&server, modelled, 400, "tokenizer_missing", "tokenizer").await;
        for name in [super::MODEL, &server.handle.info().fingerprint] {
            assert_eq!(
                server.post(&json!({"input": input, "tokenizer": name})).await.status,
                200
            );
        }
    }
    // Also where texts came with it: the caller believes in another one.
    let other = json!({"input": "a", "tokenizer": "cl100k_base"});
    let message = refused(&server, other, 400, "tokenizer_not_served", "tokenizer").await;
    assert!(
        message.contains("cl100k_base") && message.contains(super::MODEL),
        "{message}"
    );
}
