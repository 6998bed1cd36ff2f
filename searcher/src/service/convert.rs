//! Converts what is known of indexes to messages.

use dyad_index::{
    Certificate, ExpansionPoint, FilteredRecall, Metric, ModelRecord, QuerySource, RecallPoint, RerankMeasured,
    RerankRecord,
};
use dyad_proto::access::Caller;
use dyad_proto::v1;

use crate::run::{Engine, ServedIndex};

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
    v1::ExpansionPoint {
        ef: ef as u32,
        p50,
        p95,
        p99,
        p90,
    }
}

fn recall_point(point: &RecallPoint) -> v1::RecallPoint {
    let RecallPoint {
        ef,
        recall_at_10,
        recall_at_100,
        distance_computations,
        scored,
    } = *point;
    v1::RecallPoint {
        ef: ef as u32,
        recall_at_10,
        recall_at_100,
        distance_computations,
        scored,
    }
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
        full_dim: model.full_dim.unwrap_or(0) as u32,
    }
}

/// The indexes that the caller may name.
pub(super) fn indexes(engine: &Engine, caller: &Caller) -> v1::ListIndexesResponse {
    let named = engine.indexes().filter(|index| caller.allows_index(index.name()));
    let info = |index| {
        let info = index_info(engine, index, caller);
        // How many documents there are for others is theirs.
        let documents = if caller.filter().is_some() { 0 } else { info.documents };
        v1::IndexInfo { documents, ..info }
    };
    v1::ListIndexesResponse {
        indexes: named.map(|index| info(index)).collect(),
    }
}

/// What is known of an index without asking its tower.
fn index_info(engine: &Engine, index: &ServedIndex, caller: &Caller) -> v1::IndexInfo {
    let served = index.generation();
    let snapshot = served.snapshot();
    let (record, covered) = (&snapshot.manifest().model, served.coverage());
    let tower = engine.towers().find(record);
    // The reason names files.
    let damage = served.damage().map(|reason| match caller.filter() {
        Some(_) => "a shard is damaged".to_owned(),
        None => reason,
    });
    let failed = tower
        .filter(|one| one.is_down())
        .map(|_| "the question tower has failed for the last question".to_owned());
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
    let RerankMeasured {
        data,
        split,
        questions,
        before,
        after,
        p,
    } = record.measured_on;
    let (depth, questions, weight) = (record.depth as u32, questions as u32, record.weight);
    v1::RerankGain {
        before,
        after,
        p,
        depth,
        questions,
        data,
        split,
        weight,
    }
}
