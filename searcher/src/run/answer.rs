//! The answer to a question.

use std::sync::Arc;

use dyad_index::lexical::{FieldValue, Snippet, StoredDocument};
use dyad_index::snapshot::Coverage;

use super::reply_memory::ReplyBudget;
use super::surrounding::Surrounding;
use crate::fusion::{Fusion, Placement};
use crate::metrics::{Answered, CacheKind, Metrics};
use crate::plan::Mode;

/// A hit with its placements in the rankings that ran.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerHit {
    /// Document key.
    pub key: String,
    /// Cosine, BM25 or fused score.
    pub score: f32,
    /// Placement in the dense ranking.
    pub dense: Option<Placement>,
    /// Placement in the BM25 ranking.
    pub bm25: Option<Placement>,
    /// Placement among the hits that the cross encoder has scored.
    pub rerank: Option<Placement>,
    /// Shard of the snapshot.
    pub shard: usize,
    /// Node of the shard.
    pub node: u32,
    /// Stored fields, where asked for.
    pub document: Option<StoredDocument>,
    /// Part of the text, where asked for.
    pub snippet: Option<Snippet>,
    /// What stands around it in its document, where asked for.
    pub surrounding: Option<Surrounding>,
    /// The group of which it is the best hit, where hits are grouped.
    pub group: Option<AnswerGroup>,
}

/// A group of hits.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerGroup {
    /// The field's value; absent where the document has none.
    pub value: Option<FieldValue>,
    /// Its hits after the best.
    pub hits: Vec<AnswerHit>,
}

/// Three rankings of one question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Compared {
    /// Nearest vectors.
    pub dense: Vec<AnswerHit>,
    /// BM25.
    pub bm25: Vec<AnswerHit>,
    /// Both, fused.
    pub hybrid: Vec<AnswerHit>,
}

/// Shared keys among the first `k` of two rankings, divided by `k`, or by the longer ranking's length where that is smaller.
pub(crate) fn overlap(a: &[AnswerHit], b: &[AnswerHit], k: usize) -> f32 {
    let k = k.min(a.len().max(b.len()));
    let keys: std::collections::HashSet<&str> = a.iter().take(k).map(|hit| hit.key.as_str()).collect();
    let shared = b.iter().take(k).filter(|hit| keys.contains(hit.key.as_str())).count();
    shared as f32 / k.max(1) as f32
}

/// Time per stage, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageTimings {
    /// From the request's arrival to the answer.
    pub total_us: u64,
    /// Waiting for the question tower.
    pub queue_us: u64,
    /// Text to tokens.
    pub tokenize_us: u64,
    /// Question tower.
    pub embed_us: u64,
    /// Vectors.
    pub dense_us: u64,
    /// BM25.
    pub bm25_us: u64,
    /// The filter: from conditions to sets of nodes.
    pub filter_us: u64,
    /// Fusion.
    pub fuse_us: u64,
    /// Stored fields.
    pub fetch_us: u64,
    /// Texts for the cross encoder, and its scores.
    pub rerank_us: u64,
}

/// How a filter was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterExecution {
    /// Documents that it allows.
    pub documents: u64,
    /// Shards of which every allowed vector was compared: by its code, and the best exactly, or all exactly.
    pub scanned_shards: u32,
    /// Shards whose graph was searched.
    pub graph_shards: u32,
    /// Whether the filter was known, and its nodes not looked up again.
    pub cached: bool,
}

/// What a cross encoder has done for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reranked {
    /// Hits that it has scored.
    pub hits: usize,
    /// Weight of its scores in their order.
    pub weight: f64,
    /// Its fingerprint.
    pub fingerprint: Arc<str>,
}

/// Answers in the order of their questions, and the reply memory that their documents take.
pub(super) type Answers = (Vec<Answer>, ReplyBudget);

/// The answer to one question.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// As asked.
    pub mode: Mode,
    /// How the two rankings were fused, where they were; all the weight is on one of them where the other is missing.
    pub fusion: Option<Fusion>,
    /// Weight of documents' BM25 in the scores of their passages; 0 where it counts for none.
    pub document_weight: f64,
    /// How exactly each hit of the BM25 ranking has the words of the question, [`crate::fusion::Bm25Ranking::exactness`]; empty where the
    /// rankings were not fused.
    pub exactness: Vec<f32>,
    /// The ranking; empty with [`Mode::Compare`].
    pub hits: Vec<AnswerHit>,
    /// The three rankings of [`Mode::Compare`].
    pub compared: Option<Compared>,
    /// Hits asked for.
    pub k: usize,
    /// Better hits that were left out.
    pub offset: usize,
    /// Time per stage.
    pub timings: StageTimings,
    /// What is missing and why.
    pub degraded: Option<String>,
    /// Name of the index that answered.
    pub index: Arc<str>,
    /// Generation that answered.
    pub generation: u64,
    /// Fingerprint of its model.
    pub fingerprint: String,
    /// Beam width, 0 where no graph is searched.
    pub ef: u32,
    /// Why the target recall is not guaranteed.
    pub recall_note: Option<String>,
    /// Inner products computed.
    pub distance_computations: u64,
    /// Shards from whose documents the question is farther than those that calibrated them.
    pub out_of_distribution_shards: u32,
    /// What was searched.
    pub coverage: Coverage,
    /// How the filter was run, where there is one.
    pub filter: Option<FilterExecution>,
    /// What the cross encoder has scored, where it was asked and answered.
    pub reranked: Option<Reranked>,
    /// Tokens that the question tower has read of the question, 0 where it was not asked.
    pub query_tokens: u32,
    /// Whether the question has more.
    pub query_truncated: bool,
    /// What the request refers to that does not exist.
    pub notes: Vec<String>,
}

impl Answer {
    /// Counts it.
    pub(super) fn count(&self, metrics: &Metrics) {
        let StageTimings {
            total_us: _,
            queue_us,
            tokenize_us,
            embed_us,
            dense_us,
            bm25_us,
            filter_us,
            fuse_us,
            fetch_us,
            rerank_us,
        } = self.timings;
        tracing::debug!(
            index = &*self.index,
            generation = self.generation,
            hits = self.hits.len(),
            ef = self.ef,
            queue_us,
            tokenize_us,
            embed_us,
            dense_us,
            bm25_us,
            filter_us,
            fuse_us,
            fetch_us,
            rerank_us,
            "answered"
        );
        metrics.answer(&Answered {
            mode: match self.mode {
                Mode::Dense => "dense",
                Mode::Bm25 => "bm25",
                Mode::Hybrid => "hybrid",
                Mode::Compare => "compare",
            },
            degraded: self.degraded.is_some(),
            truncated: self.query_truncated,
            out_of_distribution: self.out_of_distribution_shards > 0,
            stages_us: [
                ("queue", queue_us),
                ("tokenize", tokenize_us),
                ("embed", embed_us),
                ("filter", filter_us),
                ("dense", dense_us),
                ("bm25", bm25_us),
                ("fuse", fuse_us),
                ("fetch", fetch_us),
                ("rerank", rerank_us),
            ],
        });
        if let Some(filter) = &self.filter {
            metrics.cache(CacheKind::Filters, filter.cached);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A hit for each letter, which is its key.
    pub(in super::super) fn hits(keys: &str) -> Vec<AnswerHit> {
        let hit = |key: char| AnswerHit {
            key: key.to_string(),
            score: 0.5,
            dense: None,
            bm25: None,
            rerank: None,
            shard: 0,
            node: 0,
            document: None,
            snippet: None,
            surrounding: None,
            group: None,
        };
        keys.chars().map(hit).collect()
    }

    #[test]
    fn overlap_counts_shared_keys_among_the_first_k() {
        assert!((overlap(&hits("abcd"), &hits("dcxy"), 4) - 0.5).abs() < 1e-6);
        assert!((overlap(&hits("abcd"), &hits("dcxy"), 2) - 0.0).abs() < 1e-6);
        assert!((overlap(&hits("ab"), &hits("a"), 10) - 0.5).abs() < 1e-6);
        assert!(overlap(&hits(""), &hits(""), 10).abs() < 1e-6);
    }
}
