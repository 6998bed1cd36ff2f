//! The JSON of a reply of `/v1/embeddings`, and what stands in its headers.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use dyad_proto::vector;
use serde::{Serialize, Serializer};

use super::request::Format;
use crate::model::ModelInfo;
use crate::serve::EncodedReply;

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<EmbeddingRow<'a>>,
    model: &'a str,
    usage: EmbeddingUsage,
}

#[derive(Serialize)]
struct EmbeddingRow<'a> {
    object: &'static str,
    index: usize,
    embedding: EncodedVector<'a>,
}

#[derive(Serialize)]
struct EmbeddingUsage {
    prompt_tokens: u64,
    total_tokens: u64,
}

/// A vector in the format that was asked for.
struct EncodedVector<'a> {
    values: &'a [f32],
    format: Format,
}

impl Serialize for EncodedVector<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.format {
            // Numbers are written with as many digits as bring back the same f32.
            Format::Float => self.values.serialize(serializer),
            Format::Base64 => serializer.serialize_str(&BASE64_STANDARD.encode(vector::pack(self.values))),
        }
    }
}

/// The body.
pub(super) fn body(encoded: &EncodedReply, format: Format, model: &ModelInfo) -> Result<Vec<u8>, serde_json::Error> {
    let tokens = encoded.tokens.iter().map(|&count| u64::from(count)).sum();
    let rows = encoded.vectors.chunks_exact(encoded.dim).enumerate();
    serde_json::to_vec(&List {
        object: "list",
        data: rows
            .map(|(index, values)| EmbeddingRow {
                object: "embedding",
                index,
                embedding: EncodedVector { values, format },
            })
            .collect(),
        model: &model.name,
        usage: EmbeddingUsage {
            prompt_tokens: tokens,
            total_tokens: tokens,
        },
    })
}

/// Values without a field in OpenAI's format: the model's fingerprint, truncated texts, and the times.
pub(super) fn headers(encoded: &EncodedReply, model: &ModelInfo) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(fingerprint) = HeaderValue::from_str(&model.fingerprint) {
        headers.insert(HeaderName::from_static("x-dyad-fingerprint"), fingerprint);
    }
    for (name, value) in [
        ("x-dyad-truncated", encoded.truncated.len() as u64),
        ("x-dyad-queue-us", encoded.queue_us),
        ("x-dyad-tokenize-us", encoded.tokenize_us),
        ("x-dyad-embed-us", encoded.embed_us),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from(value));
    }
    headers
}
