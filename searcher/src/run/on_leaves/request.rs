//! What is asked of leaves for a question.

use dyad_index::FusionMethod;
use dyad_index::lexical::TermCounts;
use dyad_index::snapshot::{DenseParams, SmallShards};
use dyad_proto::v1::{self, Mode};

use super::super::stages::batch::{BatchItem, QuestionBatch};
use crate::leaves::GenerationShards;
use crate::leaves::wire::{counts_message, vector_search};
use crate::plan::StoredFields;

/// Hits whose documents are in the replies to a search, at most.
const MOST_SHOWN: usize = 20;

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

/// What replies to a question show of documents.
pub(super) fn shown_message(item: &BatchItem, counts: Option<&TermCounts>) -> v1::LeafShown {
    let plan = &item.plan;
    v1::LeafShown {
        keys_only: plan.fields == StoredFields::None,
        fields: plan.fields.names(),
        max_text_bytes: u32::try_from(plan.max_text_bytes).unwrap_or_default(),
        snippet_bytes: plan.snippet_bytes as u32,
        surrounding_bytes: plan.surrounding_bytes as u32,
        query: item.query.clone(),
        counts: counts.map(counts_message),
    }
}

/// Of how many of the best hits of each of so many leaves it is shown with their search: none where they are not the
/// hits of the answer as they are, or are too many. A leaf has about its share of them, seldom twice as many; what is
/// missing is fetched.
fn shown_hits(batch: &QuestionBatch, item: &BatchItem, leaves: usize) -> usize {
    let plan = &item.plan;
    let hits = plan.offset + plan.k;
    let are_those_of_the_answer = matches!(plan.mode, Mode::Dense | Mode::Bm25) && plan.group_by.is_none();
    // The replies to all questions of a batch are held until the last one is answered.
    let is_alone = batch.items.len() == 1;
    if !is_alone || !plan.wants_documents() || batch.fetches_later || !are_those_of_the_answer || hits > MOST_SHOWN {
        return 0;
    }
    hits.min(2 * hits.div_ceil(leaves.max(1)) + 2)
}

/// What all leaves are asked for a question; the shards are those of the call, which are at so many leaves. `counts`
/// are there where BM25 ranks.
pub(super) fn search_request(
    batch: &QuestionBatch,
    generation: &GenerationShards,
    item: &BatchItem,
    vector: Option<&[f32]>,
    counts: Option<&TermCounts>,
    leaves: usize,
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
    let shown_hits = shown_hits(batch, item, leaves);
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
        shown: (shown_hits > 0).then(|| shown_message(item, counts)),
        shown_hits: shown_hits as u32,
    }
}
