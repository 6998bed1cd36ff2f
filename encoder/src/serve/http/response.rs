//! The JSON of a reply of `/v1/embeddings`, and what stands in its headers.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use dyad_proto::vector;
use serde::{Serialize, Serializer};

use super::request::Format;
use crate::model::ModelInfo;
use crate::serve::precision::QuantizedVectors;
use crate::serve::{EncodedReply, Precision};

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<EmbeddingRow<'a>>,
    model: &'a str,
    /// Absent for f32, which is all that OpenAI has.
    #[serde(skip_serializing_if = "Option::is_none")]
    precision: Option<Precision>,
    usage: EmbeddingUsage,
}

#[derive(Serialize)]
struct EmbeddingRow<'a> {
    object: &'static str,
    index: usize,
    embedding: EncodedVector<'a>,
    /// The ends of the vector's range, where its precision has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<[f32; 2]>,
}

#[derive(Serialize)]
struct EmbeddingUsage {
    prompt_tokens: u64,
    total_tokens: u64,
}

/// A vector in the format that was asked for.
enum EncodedVector<'a> {
    Floats(&'a [f32], Format),
    /// An array of whole numbers in either format: OpenAI's clients ask for base64 by themselves, take the bytes of a
    /// text for f32, and an array as it is.
    Signed(&'a [u8]),
    Unsigned(&'a [u8]),
}

impl Serialize for EncodedVector<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // Numbers are written with as many digits as bring back the same f32.
            Self::Floats(values, Format::Float) => values.serialize(serializer),
            Self::Floats(values, Format::Base64) => {
                serializer.serialize_str(&BASE64_STANDARD.encode(vector::pack(values)))
            }
            Self::Signed(bytes) => serializer.collect_seq(bytes.iter().map(|byte| byte.cast_signed())),
            Self::Unsigned(bytes) => serializer.collect_seq(*bytes),
        }
    }
}

/// Vectors in their order, each with its range.
fn rows<'a>(
    vectors: impl Iterator<Item = EncodedVector<'a>>,
    ranges: impl Iterator<Item = Option<[f32; 2]>>,
) -> Vec<EmbeddingRow<'a>> {
    let row = |(index, (embedding, range))| EmbeddingRow {
        object: "embedding",
        index,
        embedding,
        range,
    };
    vectors.zip(ranges).enumerate().map(row).collect()
}

/// The body.
pub(super) fn body(
    encoded: &EncodedReply,
    format: Format,
    precision: Precision,
    model: &ModelInfo,
) -> Result<Vec<u8>, serde_json::Error> {
    let tokens = encoded.tokens.iter().map(|&count| u64::from(count)).sum();
    let quantized = precision.quantize(&encoded.vectors, encoded.dim);
    let data = match &quantized {
        None => {
            let vectors = encoded.vectors.chunks_exact(encoded.dim);
            let floats = vectors.map(|values| EncodedVector::Floats(values, format));
            rows(floats, std::iter::repeat(None))
        }
        Some(QuantizedVectors { bytes, ranges }) => {
            let vectors = bytes.chunks_exact(vector::bytes_per_vector(precision.wire(), encoded.dim));
            let as_numbers = if precision.is_signed() {
                EncodedVector::Signed
            } else {
                EncodedVector::Unsigned
            };
            let ranges = ranges.iter().copied().map(Some).chain(std::iter::repeat(None));
            rows(vectors.map(as_numbers), ranges)
        }
    };
    serde_json::to_vec(&List {
        object: "list",
        data,
        model: &model.name,
        precision: quantized.is_some().then_some(precision),
        usage: EmbeddingUsage {
            prompt_tokens: tokens,
            total_tokens: tokens,
        },
    })
}

/// Values without a field in OpenAI's format: the model's fingerprint, truncated texts, and the times.
pub(super) fn headers(encoded: &EncodedReply) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(fingerprint) = HeaderValue::from_str(&encoded.fingerprint) {
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
