//! Replies as JSON for programs. Field names are those of the `.proto` files.

use dyad_proto::v1;
use serde_json::{Value, json};

use crate::json_values::with_values;

/// Prints one JSON value, indented. What a field `NAME_json` holds as text is the value of `NAME`.
pub(super) fn print(value: &Value) -> anyhow::Result<()> {
    use std::io::Write as _;
    writeln!(std::io::stdout().lock(), "{}", with_values(&format!("{value:#}")))?;
    Ok(())
}

/// The shortest decimal that reads back as the same f32; `as f64` would print digits that are not there.
fn number(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, |value| json!(value))
}

fn placement(placement: Option<v1::Placement>) -> Value {
    placement.map_or(Value::Null, |place| json!({"rank": place.rank, "score": number(place.score)}))
}

fn document(document: &v1::Document) -> Value {
    let v1::Document { key, title, text, metadata_json } = document;
    json!({"key": key, "title": title, "text": text, "metadata_json": metadata_json})
}

fn hits(all: &[v1::Hit]) -> Value {
    let hit = |hit: &v1::Hit| {
        json!({
            "rank": hit.rank,
            "key": hit.key,
            "score": number(hit.score),
            "dense": placement(hit.dense),
            "bm25": placement(hit.bm25),
            "rerank": placement(hit.rerank),
            "document": hit.document.as_ref().map(document),
            "snippet": hit.snippet.as_ref().map(|v1::Snippet { text, highlights }| json!({
                "text": text,
                "highlights": highlights.iter().map(|range| json!([range.start, range.end])).collect::<Value>(),
            })),
            "surrounding": hit.surrounding.as_ref().map(|v1::Surrounding { before, after, start, end, document_bytes }| json!({
                "before": before, "after": after, "start": start, "end": end, "document_bytes": document_bytes,
            })),
            "group": hit.group.as_ref().map(|group| json!({"value_json": value(group), "hits": hits(&group.hits)})),
        })
    };
    all.iter().map(hit).collect()
}

/// A group's value as text; null where its document has none.
fn value(group: &v1::Group) -> String {
    use v1::filter_value::Value as Of;
    match group.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Of::Text(text)) => json!(text).to_string(),
        Some(Of::Number(number)) => json!(number).to_string(),
        Some(Of::Integer(digits)) => digits.clone(),
        Some(Of::Flag(flag)) => json!(flag).to_string(),
        None => Value::Null.to_string(),
    }
}

/// A reply of `GetDocuments`.
pub(super) fn documents(reply: &v1::GetDocumentsResponse) -> Value {
    json!({"documents": reply.documents.iter().map(document).collect::<Value>(), "missing": reply.missing})
}

/// How two rankings were fused; null where they were not.
fn fusion(reply: &v1::SearchResponse) -> Value {
    let name = reply.fusion().as_str_name().trim_start_matches("FUSION_").to_lowercase();
    let fused = reply.fusion() != v1::Fusion::Unspecified;
    if fused { json!({"method": name, "dense_weight": reply.dense_weight}) } else { Value::Null }
}

/// A reply of `Search`.
pub(super) fn search(query: &str, reply: &v1::SearchResponse) -> Value {
    let timings = reply.timings.unwrap_or_default();
    let mut value = json!({
        "query": query,
        "mode": reply.mode().as_str_name().trim_start_matches("MODE_").to_lowercase(),
        "index": reply.index,
        "generation": reply.generation,
        "fingerprint": reply.fingerprint,
        "ef": reply.ef,
        "recall_note": reply.recall_note,
        "out_of_distribution_shards": reply.out_of_distribution_shards,
        "query_tokens": reply.query_tokens,
        "query_truncated": reply.query_truncated,
        "fusion": fusion(reply),
        "document_weight": reply.document_weight,
        "filter": reply.filter.map(|filter| json!({
            "documents": filter.documents,
            "scanned_shards": filter.scanned_shards,
            "cached": filter.cached,
            "graph_shards": filter.graph_shards,
        })),
        "coverage": reply.coverage.map(|coverage| json!({
            "documents": coverage.documents,
            "shards": coverage.shards,
            "damaged_shards": coverage.damaged_shards,
            "intact_documents": coverage.intact_documents,
        })),
        "notes": reply.notes,
        "distance_computations": reply.distance_computations,
        "reranked": reply.reranked,
        "rerank_weight": reply.rerank_weight,
        "reranker_fingerprint": reply.reranker_fingerprint,
        "degraded": reply.degraded,
        "degraded_reason": reply.degraded_reason,
        "timings": {
            "total_us": timings.total_us,
            "queue_us": timings.queue_us,
            "tokenize_us": timings.tokenize_us,
            "embed_us": timings.embed_us,
            "dense_us": timings.dense_us,
            "bm25_us": timings.bm25_us,
            "filter_us": timings.filter_us,
            "fuse_us": timings.fuse_us,
            "fetch_us": timings.fetch_us,
            "rerank_us": timings.rerank_us,
        },
    });
    match &reply.comparison {
        Some(all) => {
            value["comparison"] = json!({
                "dense": hits(&all.dense),
                "bm25": hits(&all.bm25),
                "hybrid": hits(&all.hybrid),
                "overlap_dense_bm25": number(all.overlap_dense_bm25),
                "overlap_dense_hybrid": number(all.overlap_dense_hybrid),
                "overlap_bm25_hybrid": number(all.overlap_bm25_hybrid),
            });
        }
        None => value["hits"] = hits(&reply.hits),
    }
    value
}

/// A reply of `Explain`.
pub(super) fn explain(reply: &v1::ExplainResponse) -> Value {
    json!({
        "hit": placement(reply.hit),
        "reasons": reply.reasons,
        "allowed": reply.allowed,
        "dense_exact": placement(reply.dense_exact),
        "dense": placement(reply.dense),
        "bm25": placement(reply.bm25),
        "bm25_of_document": number(reply.bm25_of_document),
        "bm25_explanation": serde_json::from_str::<Value>(&reply.bm25_explanation_json).unwrap_or(Value::Null),
        "terms": reply.terms,
        "generation": reply.generation,
        "depth": reply.depth,
        "ef": reply.ef,
    })
}
