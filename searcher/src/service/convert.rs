//! Converts answers to messages.

use dyad_index::lexical::{FieldValue, Snippet, StoredDocument};
use dyad_index::snapshot::Coverage;
use dyad_index::{
    Certificate, ExpansionPoint, FilteredRecall, FusionMethod, Metric, ModelRecord, QuerySource, RecallPoint,
    RerankMeasured, RerankRecord,
};
use dyad_proto::access::Caller;
use dyad_proto::v1;

use crate::fusion::Placement;
use crate::plan::Mode;
use crate::run::{
    Answer, AnswerGroup, AnswerHit, Compared, Engine, Explanation, FilterExecution, Sample, ServedIndex, StageTimings,
    Surrounding,
};

pub(super) fn document(document: StoredDocument) -> v1::Document {
    let StoredDocument { key, title, text, metadata_json } = document;
    v1::Document { key, title, text, metadata_json }
}

pub(super) fn sample(sample: Sample) -> v1::SampleDocumentsResponse {
    let Sample { documents, of, generation } = sample;
    v1::SampleDocumentsResponse { documents: documents.into_iter().map(document).collect(), of, generation }
}

pub(super) fn certificate(certificate: &Certificate) -> v1::Certificate {
    let filtered = certificate.filtered.iter().flatten();
    let filtered = filtered.map(|FilteredRecall { share, recall }| v1::FilteredRecall {
        share: *share,
        recall: recall.iter().map(recall_point).collect(),
    });
    v1::Certificate {
        queries: certificate.queries,
        by_questions: certificate.source == QuerySource::HeldOut,
        recall: certificate.recall.iter().map(recall_point).collect(),
        filtered: filtered.collect(),
        expansions: certificate.expansions.iter().map(expansion_point).collect(),
        vectors: certificate.vectors,
        lost_since: certificate.lost_since,
        adaptive: certificate.adaptive.iter().map(recall_point).collect(),
        out_of_distribution: certificate.out_of_distribution.iter().map(recall_point).collect(),
    }
}

fn expansion_point(point: &ExpansionPoint) -> v1::ExpansionPoint {
    let ExpansionPoint { ef, p50, p90, p95, p99 } = *point;
    v1::ExpansionPoint { ef: ef as u32, p50, p95, p99, p90 }
}

fn recall_point(point: &RecallPoint) -> v1::RecallPoint {
    let RecallPoint { ef, recall_at_10, recall_at_100, distance_computations, scored } = *point;
    v1::RecallPoint { ef: ef as u32, recall_at_10, recall_at_100, distance_computations, scored }
}

pub(super) fn model(model: &ModelRecord) -> v1::ModelInfo {
    v1::ModelInfo {
        name: model.name.clone(),
        fingerprint: model.fingerprint.clone(),
        dim: model.dim as u32,
        metric: match model.metric {
            Metric::Cosine => v1::Metric::Cosine.into(),
            Metric::Dot => v1::Metric::Dot.into(),
            Metric::L2 => v1::Metric::L2.into(),
        },
        max_tokens: model.max_tokens as u32,
        device: String::new(),
        dtype: String::new(),
        kind: v1::ModelKind::DualEncoder.into(),
        two_towers: None,
    }
}

/// All indexes that an engine serves.
/// The indexes that the caller may name.
pub(super) fn indexes(engine: &Engine, caller: &Caller) -> v1::ListIndexesResponse {
    let named = engine.indexes().filter(|index| caller.allows_index(index.name()));
    let info = |index| {
        let info = index_info(engine, index, caller);
        // How many documents there are for others is theirs.
        let documents = if caller.filter().is_some() { 0 } else { info.documents };
        v1::IndexInfo { documents, ..info }
    };
    v1::ListIndexesResponse { indexes: named.map(|index| info(index)).collect() }
}

/// What is known of an index without asking its tower.
fn index_info(engine: &Engine, index: &ServedIndex, caller: &Caller) -> v1::IndexInfo {
    let snapshot = index.snapshot();
    let (record, covered) = (&snapshot.manifest().model, snapshot.coverage());
    let tower = engine.towers().of(record);
    // The error names files.
    let damage = snapshot.damage().map(|error| match caller.filter() {
        Some(_) => "a shard is damaged".to_owned(),
        None => error.to_string(),
    });
    let failed =
        tower.filter(|one| one.is_down()).map(|_| "the question tower has failed for the last question".to_owned());
    v1::IndexInfo {
        name: index.name().to_owned(),
        is_default: engine.is_default(index),
        generation: snapshot.manifest().generation,
        documents: covered.documents,
        shards: covered.shards,
        damaged_shards: covered.damaged_shards,
        model: Some(model(record)),
        has_question_tower: tower.is_some(),
        degraded_reason: damage.into_iter().chain(failed).collect::<Vec<_>>().join("; "),
        language: snapshot.manifest().language.code().to_owned(),
    }
}

/// What a cross encoder has brought an index.
pub(super) fn rerank_gain(record: RerankRecord) -> v1::RerankGain {
    let RerankMeasured { data, split, questions, before, after, p } = record.measured_on;
    let (depth, questions, weight) = (record.depth as u32, questions as u32, record.weight);
    v1::RerankGain { before, after, p, depth, questions, data, split, weight }
}

fn placement(placement: Placement) -> v1::Placement {
    v1::Placement { rank: placement.rank, score: placement.score }
}

/// Hits with their ranks, after `offset` that were left out.
fn hits(all: Vec<AnswerHit>, offset: usize) -> Vec<v1::Hit> {
    let hit = |(rank, hit): (u32, AnswerHit)| v1::Hit {
        rank,
        key: hit.key,
        score: hit.score,
        dense: hit.dense.map(placement),
        bm25: hit.bm25.map(placement),
        rerank: hit.rerank.map(placement),
        document: hit.document.map(document),
        snippet: hit.snippet.map(snippet),
        surrounding: hit.surrounding.map(surrounding),
        // The best hit is the first of its group.
        group: hit.group.map(|AnswerGroup { value, hits: others }| v1::Group {
            value: value.map(field_value),
            hits: hits(others, 1),
        }),
    };
    (offset as u32 + 1..).zip(all).map(hit).collect()
}

fn snippet(snippet: Snippet) -> v1::Snippet {
    let highlight = |range: std::ops::Range<usize>| v1::Highlight { start: range.start as u32, end: range.end as u32 };
    v1::Snippet { text: snippet.text, highlights: snippet.highlights.into_iter().map(highlight).collect() }
}

fn surrounding(surrounding: Surrounding) -> v1::Surrounding {
    let Surrounding { before, after, bytes, document_bytes } = surrounding;
    let (start, end, document_bytes) = (bytes.start as u32, bytes.end as u32, document_bytes as u32);
    v1::Surrounding { before, after, start, end, document_bytes }
}

fn field_value(value: FieldValue) -> v1::FilterValue {
    use v1::filter_value::Value;
    let value = match value {
        FieldValue::Text(text) => Value::Text(text),
        FieldValue::Number(number) => number.digits().map_or(Value::Number(number.nearest()), Value::Integer),
        FieldValue::Flag(flag) => Value::Flag(flag),
    };
    v1::FilterValue { value: Some(value) }
}

fn comparison(compared: Compared, k: usize) -> v1::Comparison {
    use crate::run::overlap;
    v1::Comparison {
        overlap_dense_bm25: overlap(&compared.dense, &compared.bm25, k),
        overlap_dense_hybrid: overlap(&compared.dense, &compared.hybrid, k),
        overlap_bm25_hybrid: overlap(&compared.bm25, &compared.hybrid, k),
        dense: hits(compared.dense, 0),
        bm25: hits(compared.bm25, 0),
        hybrid: hits(compared.hybrid, 0),
    }
}

fn timings(timings: StageTimings) -> v1::Timings {
    let StageTimings {
        total_us,
        queue_us,
        tokenize_us,
        embed_us,
        dense_us,
        bm25_us,
        filter_us,
        fuse_us,
        fetch_us,
        rerank_us,
    } = timings;
    v1::Timings {
        total_us,
        queue_us,
        tokenize_us,
        embed_us,
        dense_us,
        bm25_us,
        fuse_us,
        fetch_us,
        filter_us,
        rerank_us,
    }
}

pub(crate) fn fusion_method(method: FusionMethod) -> v1::Fusion {
    match method {
        FusionMethod::Rrf => v1::Fusion::Rrf,
        FusionMethod::WeightedSum => v1::Fusion::WeightedSum,
        FusionMethod::MinMax => v1::Fusion::MinMax,
        FusionMethod::LogOdds => v1::Fusion::LogOdds,
    }
}

pub(super) fn answer(answer: Answer) -> v1::SearchResponse {
    let mode = match answer.mode {
        Mode::Dense => v1::Mode::Dense,
        Mode::Bm25 => v1::Mode::Bm25,
        Mode::Hybrid => v1::Mode::Hybrid,
        Mode::Compare => v1::Mode::Compare,
    };
    v1::SearchResponse {
        hits: hits(answer.hits, answer.offset),
        comparison: answer.compared.map(|compared| comparison(compared, answer.k)),
        mode: mode.into(),
        timings: Some(timings(answer.timings)),
        degraded: answer.degraded.is_some(),
        degraded_reason: answer.degraded.unwrap_or_default(),
        index: answer.index.to_string(),
        generation: answer.generation,
        fingerprint: answer.fingerprint,
        ef: answer.ef,
        recall_note: answer.recall_note.unwrap_or_default(),
        distance_computations: answer.distance_computations,
        out_of_distribution_shards: answer.out_of_distribution_shards,
        notes: answer.notes,
        fusion: answer.fusion.map_or(v1::Fusion::Unspecified, |fusion| fusion_method(fusion.method)).into(),
        dense_weight: answer.fusion.map_or(0.0, |fusion| fusion.dense_weight),
        document_weight: answer.document_weight,
        query_tokens: answer.query_tokens,
        query_truncated: answer.query_truncated,
        coverage: Some(coverage(answer.coverage)),
        filter: answer.filter.map(|FilterExecution { documents, scanned_shards, graph_shards, cached }| {
            v1::FilterExecution { documents, scanned_shards, graph_shards, cached }
        }),
        reranked: answer.reranked.as_ref().map_or(0, |reranked| reranked.hits as u32),
        rerank_weight: answer.reranked.as_ref().map_or(0.0, |reranked| reranked.weight),
        reranker_fingerprint: answer.reranked.map(|reranked| reranked.fingerprint.to_string()).unwrap_or_default(),
    }
}

fn coverage(coverage: Coverage) -> v1::Coverage {
    let Coverage { documents, shards, damaged_shards, intact_documents } = coverage;
    v1::Coverage { documents, shards, damaged_shards, intact_documents }
}

pub(super) fn explanation(explanation: Explanation, generation: u64) -> v1::ExplainResponse {
    v1::ExplainResponse {
        hit: explanation.hit.map(placement),
        reasons: explanation.reasons,
        allowed: explanation.allowed,
        dense_exact: explanation.dense_exact.map(placement),
        dense: explanation.dense.map(placement),
        bm25: explanation.bm25.map(placement),
        bm25_explanation_json: explanation.bm25_json,
        bm25_of_document: explanation.bm25_of_document,
        terms: explanation.terms,
        generation,
        depth: explanation.depth,
        ef: explanation.ef,
    }
}
