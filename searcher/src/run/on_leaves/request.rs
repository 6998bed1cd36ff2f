//! What is asked of leaves for a question.

use dyad_index::FusionMethod;
use dyad_index::lexical::TermCounts;
use dyad_index::snapshot::{DenseParams, SmallShards};
use dyad_proto::v1;

use super::super::stages::batch::{BatchItem, QuestionBatch};
use crate::leaves::GenerationShards;
use crate::leaves::wire::{counts_message, vector_search};
use crate::plan::StoredFields;

/// The small shards of a search without a filter, by what leaves have reported of all shards of the generation.
pub(super) fn small_shards_of(
    generation: &GenerationShards,
    params: &DenseParams,
    has_filter: bool,
) -> Option<SmallShards> {
    if has_filter {
        return None;
    }
    let documents = generation.shards.iter().map(|shard| shard.documents as usize);
    let certificate = |at: usize| generation.shards.get(at).map(|shard| &shard.certificate);
    SmallShards::new(params, documents, certificate)
}

/// The caller's documents, as leaves are told of them.
pub(super) fn scope_message(batch: &QuestionBatch) -> Option<v1::LeafScope> {
    batch.scope.as_ref().map(|scope| scope.message().clone())
}

/// What all leaves are asked for a question; the shards are those of the call. `counts` are there where BM25 ranks.
pub(super) fn search_request(
    batch: &QuestionBatch,
    generation: &GenerationShards,
    item: &BatchItem,
    vector: Option<&[f32]>,
    counts: Option<&TermCounts>,
) -> v1::LeafSearchRequest {
    let plan = &item.plan;
    let fuses = plan.mode.fuses();
    let text = plan.text_depth.zip(counts).map(|(depth, counts)| v1::LeafTextSearch {
        query: item.query.clone(),
        depth: depth as u32,
        counts: Some(counts_message(counts)),
        exactness: fuses && !batch.snapshot.question(&item.query).terms().is_empty(),
    });
    let search = |params: &DenseParams| {
        let small = small_shards_of(generation, params, plan.filter.is_some());
        let round = small.map(|small| v1::SmallShardRound {
            most_documents: small.most_documents as u64,
            margin: small.margin,
            score: None,
        });
        vector_search(params, round)
    };
    let dense = vector
        .filter(|_| plan.dense.is_some())
        .map(|vector| v1::LeafDenseSearch {
            vector: vector.to_vec(),
            searches: plan.dense_searches().iter().map(search).collect(),
        });
    let noted_fields = match &plan.fields {
        StoredFields::Named { metadata, .. } if batch.scope.is_none() => metadata.clone(),
        _ => Vec::new(),
    };
    v1::LeafSearchRequest {
        generation: Some(generation.name.clone()),
        shards: Vec::new(),
        filter: item.request_filter.clone(),
        scope: scope_message(batch),
        text,
        dense,
        bounded_scores: fuses && plan.fusion.method == FusionMethod::MinMax,
        group_by: plan.group_by.as_ref().map_or_else(String::new, |by| by.field.clone()),
        noted_fields,
    }
}
