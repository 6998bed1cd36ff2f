//! `POST /v1/rerank`, texts in the order in which they answer a query, in the form that Cohere and Jina share; and
//! `POST /rerank`, which replies in TEI's.

use std::fmt;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dyad_proto::limits::{MAX_QUERY_BYTES, MAX_TEXTS};
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::app::{EncoderApp, TakenRequest};
use super::json::{self, bounded, room};
use super::refusal::EncoderRefusal;
use super::response;
use crate::model::ModelInfo;
use crate::serve::{EncodeOptions, EncodedReply, Truncation};

/// The body of a request. Unknown fields are ignored, as of `/v1/embeddings`.
#[derive(Debug, Deserialize)]
#[serde(expecting = "a JSON object")]
struct RerankBody {
    query: String,
    #[serde(alias = "texts")]
    documents: Documents,
    model: Option<String>,
    top_n: Option<usize>,
    #[serde(alias = "return_text")]
    return_documents: Option<bool>,
    raw_scores: Option<bool>,
    truncate: Option<bool>,
}

/// Texts, or objects with a `text`.
#[derive(Debug)]
struct Documents(Vec<String>);

/// One of them. Not an untagged enum: serde would hold an item of any form in memory before it chose.
struct RerankDocument(String);

impl<'de> Deserialize<'de> for RerankDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = RerankDocument;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or an object with a `text`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RerankDocument, E> {
                bounded(text)?;
                Ok(RerankDocument(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<RerankDocument, A::Error> {
                let mut found = None;
                while let Some(field) = fields.next_key::<String>()? {
                    if field == "text" {
                        let text: String = fields.next_value()?;
                        bounded(&text)?;
                        found = Some(RerankDocument(text));
                    } else {
                        fields.next_value::<IgnoredAny>()?;
                    }
                }
                found.ok_or_else(|| de::Error::missing_field("text"))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl<'de> Deserialize<'de> for Documents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RerankItems;
        impl<'de> Visitor<'de> for RerankItems {
            type Value = Documents;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of texts, or of objects with a `text`")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Documents, A::Error> {
                let mut texts = Vec::new();
                while let Some(RerankDocument(text)) = items.next_element()? {
                    room(texts.len(), MAX_TEXTS, "texts", "Send them in parts")?;
                    texts.push(text);
                }
                Ok(Documents(texts))
            }
        }
        deserializer.deserialize_seq(RerankItems)
    }
}

/// A request in order, but for what only the model can tell.
#[derive(Debug)]
struct ParsedRerank {
    query: String,
    texts: Vec<String>,
    /// Results of the reply at most.
    top: usize,
    with_texts: bool,
    raw: bool,
    truncation: Truncation,
}

fn parse(bytes: &[u8], model: &ModelInfo) -> Result<ParsedRerank, EncoderRefusal> {
    let wire: RerankBody = json::read(bytes, "query")?;
    json::check_model(wire.model.as_deref(), model)?;
    let bad =
        |field, message: String| EncoderRefusal::invalid(StatusCode::BAD_REQUEST, "invalid_value", message).at(field);
    if wire.query.len() > MAX_QUERY_BYTES {
        return Err(bad(
            "query",
            format!(
                "`query`: expected at most {MAX_QUERY_BYTES} bytes, got {}",
                wire.query.len()
            ),
        ));
    }
    if wire.top_n == Some(0) {
        return Err(bad(
            "top_n",
            "`top_n`: expected at least 1, got 0. Leave it out for all".into(),
        ));
    }
    Ok(ParsedRerank {
        query: wire.query,
        texts: wire.documents.0,
        top: wire.top_n.unwrap_or(usize::MAX),
        with_texts: wire.return_documents.unwrap_or(false),
        raw: wire.raw_scores.unwrap_or(false),
        truncation: if wire.truncate.unwrap_or(true) {
            Truncation::Truncate
        } else {
            Truncation::Refuse
        },
    })
}

#[derive(Debug, Serialize)]
struct RerankReply<'a> {
    model: &'a str,
    results: Vec<RankedText>,
    usage: RerankUsage,
}

#[derive(Debug, Serialize)]
struct RankedText {
    index: usize,
    relevance_score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<RerankText>,
}

#[derive(Debug, Serialize)]
struct RerankText {
    text: String,
}

#[derive(Debug, Serialize)]
struct RerankUsage {
    prompt_tokens: u64,
    total_tokens: u64,
}

/// A result as TEI writes it.
#[derive(Debug, Serialize)]
struct Rank {
    index: usize,
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

pub(super) async fn rerank(State(app): State<Arc<EncoderApp>>, request: Request) -> Result<Response, EncoderRefusal> {
    answer(&app, request, |ranked, scored, model| {
        let tokens = scored.tokens.iter().map(|&count| u64::from(count)).sum();
        let result = |Rank { index, score, text }| RankedText {
            index,
            relevance_score: score,
            document: text.map(|text| RerankText { text }),
        };
        serde_json::to_vec(&RerankReply {
            model: &model.name,
            results: ranked.into_iter().map(result).collect(),
            usage: RerankUsage {
                prompt_tokens: tokens,
                total_tokens: tokens,
            },
        })
    })
    .await
}

pub(super) async fn rerank_as_tei(
    State(app): State<Arc<EncoderApp>>,
    request: Request,
) -> Result<Response, EncoderRefusal> {
    answer(&app, request, |ranked, _, _| serde_json::to_vec(&ranked)).await
}

/// A reply's body, of results in their order.
type Write = fn(Vec<Rank>, &EncodedReply, &ModelInfo) -> serde_json::Result<Vec<u8>>;

async fn answer(app: &EncoderApp, request: Request, write: Write) -> Result<Response, EncoderRefusal> {
    let TakenRequest {
        parsed,
        deadline,
        room,
        under_way: _under_way,
    } = app.take(request, parse).await?;
    let ParsedRerank {
        query,
        texts,
        top,
        with_texts,
        raw,
        truncation,
    } = parsed;
    let mut kept = if with_texts { texts.clone() } else { Vec::new() };
    let options = EncodeOptions {
        truncation,
        ..EncodeOptions::until(deadline)
    };
    // Ordered by logits: a sigmoid makes the best of them equal in f32.
    let scored = app.handle.score(query, texts, true, options).await;
    let scored = scored.map_err(|error| EncoderRefusal::of(&error, "documents"))?;
    let (model, activation) = (app.handle.info().clone(), app.handle.activation());
    let score = move |logit| if raw { logit } else { activation.of(logit) };
    let written = move || {
        let order = order(&scored.vectors).into_iter().take(top);
        let ranked = order.map(|(index, logit)| {
            let text = kept.get_mut(index).map(std::mem::take);
            Rank {
                index,
                score: score(logit),
                text,
            }
        });
        let body = write(ranked.collect(), &scored, &model);
        (response::headers(&scored), body)
    };
    let (headers, body) = app.handle.compute(deadline, written).await?;
    drop(room);
    Ok((headers, body.map_err(|error| EncoderRefusal::unwritten(&error))?).into_response())
}

/// Places and scores, best first; of equal ones the earlier first.
fn order(scores: &[f32]) -> Vec<(usize, f32)> {
    let mut order: Vec<(usize, f32)> = scores.iter().copied().enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_scores_keep_the_order_of_the_request() {
        assert_eq!(order(&[0.5, 0.9, 0.5, 0.1]), [(1, 0.9), (0, 0.5), (2, 0.5), (3, 0.1)]);
    }

    #[test]
    fn documents_are_texts_or_objects_under_either_name() {
        let read = |body: &str| serde_json::from_str::<RerankBody>(body).map_err(|error| error.to_string());
        for body in [
            r#"{"query": "q", "documents": ["a", "b"], "top_n": 1}"#,
            r#"{"query": "q", "documents": [{"text": "a"}, "b"], "id": "ignored"}"#,
            r#"{"query": "q", "texts": ["a", "b"], "return_text": true}"#,
        ] {
            assert_eq!(read(body).unwrap().documents.0, ["a", "b"], "{body}");
        }
        let many = format!(r#"{{"query": "q", "texts": [{}"a"]}}"#, "\"a\",".repeat(MAX_TEXTS));
        assert!(
            read(&many)
                .unwrap_err()
                .starts_with("expected at most 1024 texts, got 1025 or more")
        );
        assert!(
            read(r#"{"query": "q", "documents": "a"}"#)
                .unwrap_err()
                .contains("an array of texts")
        );
        assert!(
            read(r#"{"query": "q", "documents": [["a"]]}"#)
                .unwrap_err()
                .contains("an object with a `text`")
        );
        assert!(
            read(r#"{"query": "q", "documents": [{"title": "a"}]}"#)
                .unwrap_err()
                .contains("`text`")
        );
        assert!(read(r#"{"documents": ["a"]}"#).unwrap_err().contains("query"));
    }
}
