//! Vectors: those of gRPC bit for bit, whatever the form of the question and of the answer.

use std::io::Write as _;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use dyad_encoder::Tower;
use dyad_proto::limits::MAX_MESSAGE_BYTES;
use dyad_proto::{v1, vector};
use serde_json::{Value, json};

use super::{MODEL, bits, grpc_request, simple};
use crate::fixture::{embed, open, read_json, tiny, worst};

const TEXTS: [&str; 3] = ["the river", "who was the queen in the city", "water, water"];

#[tokio::test(flavor = "multi_thread")]
async fn float_and_base64_are_the_vectors_of_grpc_bit_for_bit() {
    let server = simple().await;
    for (input_type, tower, of_model) in [
        ("question", v1::Tower::Question, Tower::Question),
        ("query", v1::Tower::Question, Tower::Question),
        ("answer", v1::Tower::Answer, Tower::Answer),
        ("document", v1::Tower::Answer, Tower::Answer),
        ("passage", v1::Tower::Answer, Tower::Answer),
    ] {
        let expected = server.grpc(grpc_request(tower, &TEXTS)).await.unwrap();
        let request = json!({"input": TEXTS, "input_type": input_type, "encoding_format": "float"});
        let floats = server.vectors(request.clone()).await;
        assert_eq!(bits(&floats), bits(&expected), "{input_type}");
        let owned: Vec<String> = TEXTS.iter().map(ToString::to_string).collect();
        assert!(worst(&floats, &embed(&open(&tiny(MODEL)), of_model, &owned)) > 0.999_999);

        let mut request = request;
        request["encoding_format"] = json!("base64");
        let reply = server.post(&request).await.json();
        let decoded: Vec<Vec<f32>> = reply["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| BASE64_STANDARD.decode(item["embedding"].as_str().unwrap()).unwrap())
            .map(|bytes| vector::unpack(&bytes, 1, 36, "embedding").unwrap())
            .collect();
        assert_eq!(bits(&decoded), bits(&expected), "{input_type}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_may_be_compressed() {
    let server = simple().await;
    let request = json!({"input": TEXTS});
    let expected = bits(&server.vectors(request.clone()).await);
    let plain = request.to_string();
    for (name, packed) in [
        ("gzip", gzip(plain.as_bytes())),
        ("x-gzip", gzip(plain.as_bytes())),
        ("zstd", zstd::encode_all(plain.as_bytes(), 19).unwrap()),
        ("identity", plain.clone().into_bytes()),
    ] {
        let header = format!("Content-Encoding: {name}\r\n");
        let reply = server.post_bytes(&header, &packed).await;
        assert_eq!(
            (reply.status, bits(&reply.vectors())),
            (200, expected.clone()),
            "{name}"
        );
    }
    let too_large = vec![b' '; MAX_MESSAGE_BYTES + 1];
    for (headers, body, status, expected) in [
        (
            "Content-Encoding: br\r\n",
            plain.as_bytes(),
            415,
            "expected one of identity,gzip,zstd, got `br`",
        ),
        (
            "Content-Encoding: gzip, gzip\r\n",
            plain.as_bytes(),
            415,
            "got `gzip, gzip`",
        ),
        (
            "Content-Encoding: gzip\r\n",
            plain.as_bytes(),
            400,
            "no gzip that can be read",
        ),
        (
            "Content-Encoding: zstd\r\n",
            plain.as_bytes(),
            400,
            "no zstd that can be read",
        ),
        ("Content-Encoding: gzip\r\n", &gzip(&too_large), 413, "larger than"),
    ] {
        let reply = server.post_bytes(headers, body).await;
        let said = reply.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(
            reply.status == status && said.contains(expected),
            "{headers}: {} {said}",
            reply.status
        );
    }
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_has_openais_shape() {
    let server = simple().await;
    let fingerprint = server.handle.info().fingerprint.clone();
    // Fields that OpenAI's clients send, unknown fields, and nulls.
    let request = json!({"input": "the river", "model": MODEL, "user": {"id": 7}, "dimensions": null, "later": [1]});
    let reply = server.post(&request).await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, Some("application/json"))
    );
    assert_eq!(reply.header("x-dyad-fingerprint"), Some(fingerprint.as_str()));
    assert_eq!(reply.header("x-dyad-truncated"), Some("0"));
    let mut reply = reply.json();
    assert_eq!(
        reply["data"][0]["embedding"]
            .as_array_mut()
            .map(std::mem::take)
            .unwrap()
            .len(),
        36
    );
    let tokens = reply["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(tokens >= 4, "two words and two special tokens: {tokens}");
    let expected = json!({
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": []}],
        "model": MODEL,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    });
    assert_eq!(reply, expected);
    // By its fingerprint, and without a name.
    for model in [json!(fingerprint), Value::Null] {
        assert_eq!(
            server
                .post(&json!({"input": ["the river"], "model": model}))
                .await
                .status,
            200
        );
    }
    // Without `input_type` a text is a document.
    let plain = server.vectors(json!({"input": "the river"})).await;
    assert_eq!(
        bits(&plain),
        bits(
            &server
                .grpc(grpc_request(v1::Tower::Answer, &["the river"]))
                .await
                .unwrap()
        )
    );
    assert_ne!(
        bits(&plain),
        bits(
            &server
                .vectors(json!({"input": "the river", "input_type": "query"}))
                .await
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn dimensions_are_the_leading_values_of_unit_length_over_both() {
    let server = simple().await;
    let whole = server.vectors(json!({"input": TEXTS})).await;
    for dimensions in [1_usize, 5, 35, 36] {
        let ours = server.vectors(json!({"input": TEXTS, "dimensions": dimensions})).await;
        let cut: Vec<Vec<f32>> = whole.iter().map(|row| row[..dimensions].to_vec()).collect();
        assert!(worst(&ours, &cut) > 0.999_999, "{dimensions}");
        for row in &ours {
            let length: f64 = row.iter().map(|value| f64::from(*value).powi(2)).sum();
            assert!((length - 1.0).abs() < 1e-6, "{dimensions}: {length}");
        }
        let request = v1::EncodeRequest {
            dimensions: dimensions as u32,
            ..grpc_request(v1::Tower::Answer, &TEXTS)
        };
        assert_eq!(bits(&ours), bits(&server.grpc(request).await.unwrap()), "{dimensions}");
    }
    let all = v1::EncodeRequest {
        dimensions: 0,
        ..grpc_request(v1::Tower::Answer, &TEXTS)
    };
    assert_eq!(bits(&server.grpc(all).await.unwrap()), bits(&whole), "0 keeps all");
}

/// Ids of words by the model's own vocabulary.
fn ids(words: &[&str]) -> Vec<u64> {
    let vocabulary = read_json(&tiny(MODEL).join("tokenizer.json"))["model"]["vocab"].clone();
    words.iter().map(|word| vocabulary[word].as_u64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn token_ids_give_the_vectors_of_their_text() {
    let server = simple().await;
    for input_type in ["question", "answer"] {
        let text = server
            .vectors(json!({"input": "the river", "input_type": input_type}))
            .await;
        let one = server
            .vectors(json!({"input": ids(&["the", "river"]), "tokenizer": MODEL, "input_type": input_type}))
            .await;
        assert_eq!(bits(&one), bits(&text), "{input_type}");

        let texts = server
            .vectors(json!({"input": ["the river", "the king"], "input_type": input_type}))
            .await;
        let lists = [ids(&["the", "river"]), ids(&["the", "king"])];
        let both = server
            .vectors(json!({"input": lists, "tokenizer": MODEL, "input_type": input_type}))
            .await;
        assert_eq!(bits(&both), bits(&texts), "{input_type}");
    }
    // Cut where a text is cut, and said to be.
    let long = server
        .post(&json!({"input": ids(&["the", "river"].repeat(50)), "tokenizer": MODEL}))
        .await;
    assert_eq!(long.header("x-dyad-truncated"), Some("1"));
    assert_eq!(long.json()["usage"]["prompt_tokens"], 24);
    assert_eq!(
        bits(&long.vectors()),
        bits(&server.vectors(json!({"input": "the river ".repeat(50)})).await)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_characters_are_cut_and_counted() {
    let server = simple().await;
    let text = "the river ".repeat(100_000);
    let reply = server.post(&json!({"input": [text, "the river"]})).await;
    assert_eq!((reply.status, reply.header("x-dyad-truncated")), (200, Some("1")));
    assert_eq!(reply.vectors().len(), 2);
    // The same beginning, the same vector.
    let short = server
        .vectors(json!({"input": ["the river ".repeat(30), "the river".to_owned()]}))
        .await;
    assert_eq!(bits(&reply.vectors()), bits(&short));
}
