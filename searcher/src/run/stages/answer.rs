//! The answer to a question: what the reply says, and what only this process needs to know of it.

use dyad_index::lexical::StoredDocument;
use dyad_proto::v1;

use crate::fusion::Fusion;
use crate::metrics::{Answered, CacheKind, SearcherMetrics};
use crate::run::resources::reply_memory::ReplyBudget;

/// A hit, and where its document is stored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AnswerHit {
    /// The hit as the reply has it, without its rank.
    pub hit: v1::Hit,
    /// Shard of the snapshot.
    pub shard: usize,
    /// Node of the shard.
    pub node: u32,
    /// The next best hits of its group, where hits are grouped.
    pub members: Vec<AnswerHit>,
}

/// Three rankings of one question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ComparedRankings {
    /// Nearest vectors.
    pub dense: Vec<AnswerHit>,
    /// BM25.
    pub bm25: Vec<AnswerHit>,
    /// Both, fused.
    pub hybrid: Vec<AnswerHit>,
}

/// Answers in the order of their questions, and the reply memory that their documents take.
pub(in crate::run) type Answers = (Vec<Answer>, ReplyBudget);

/// The answer to one question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The reply but for its hits.
    pub response: v1::SearchResponse,
    /// How the two rankings were fused, where they were; all the weight is on one of them where the other is missing.
    pub fusion: Option<Fusion>,
    /// How exactly each hit of the BM25 ranking has the words of the question,
    /// [`crate::fusion::Bm25Ranking::exactness`]; empty where the rankings were not fused.
    pub exactness: Vec<f32>,
    /// The ranking; empty with `MODE_COMPARE`.
    pub hits: Vec<AnswerHit>,
    /// The three rankings of `MODE_COMPARE`.
    pub compared: Option<ComparedRankings>,
    /// Number of hits asked for.
    pub k: usize,
    /// Number of better hits that were left out.
    pub offset: usize,
}

impl Answer {
    /// Adds a reason why a part of the answer is missing.
    pub(in crate::run) fn degrade(&mut self, reason: &str) {
        let known = &mut self.response.degraded_reason;
        if !known.is_empty() {
            known.push_str("; ");
        }
        known.push_str(reason);
        self.response.degraded = true;
    }

    /// Times that have passed.
    pub(in crate::run) fn timings(&mut self) -> &mut v1::Timings {
        self.response.timings.get_or_insert_default()
    }

    /// The reply.
    pub fn into_response(self) -> v1::SearchResponse {
        let k = self.k;
        v1::SearchResponse {
            hits: ranked(self.hits, self.offset),
            comparison: self.compared.map(|compared| comparison(compared, k)),
            ..self.response
        }
    }

    /// Counts it.
    pub(in crate::run) fn count(&self, metrics: &SearcherMetrics) {
        let v1::SearchResponse {
            index, generation, ef, ..
        } = &self.response;
        let timings = self.response.timings.unwrap_or_default();
        tracing::debug!(index, generation, hits = self.hits.len(), ef, ?timings, "answered");
        metrics.answer(&Answered {
            mode: self.response.mode().word(),
            degraded: self.response.degraded,
            truncated: self.response.query_truncated,
            out_of_distribution: self.response.out_of_distribution_shards > 0,
            stages_us: [
                ("queue", timings.queue_us),
                ("tokenize", timings.tokenize_us),
                ("embed", timings.embed_us),
                ("filter", timings.filter_us),
                ("dense", timings.dense_us),
                ("bm25", timings.bm25_us),
                ("fuse", timings.fuse_us),
                ("fetch", timings.fetch_us),
                ("rerank", timings.rerank_us),
            ],
        });
        if let Some(filter) = &self.response.filter {
            metrics.cache(CacheKind::Filters, filter.cached);
        }
    }
}

/// Hits with their ranks, after `offset` that were left out.
fn ranked(hits: Vec<AnswerHit>, offset: usize) -> Vec<v1::Hit> {
    let with_rank = |(rank, AnswerHit { mut hit, members, .. }): (u32, AnswerHit)| {
        hit.rank = rank;
        if let Some(group) = &mut hit.group {
            // The best hit is the first of its group.
            group.hits = ranked(members, 1);
        }
        hit
    };
    (offset as u32 + 1..).zip(hits).map(with_rank).collect()
}

fn comparison(compared: ComparedRankings, k: usize) -> v1::Comparison {
    v1::Comparison {
        overlap_dense_bm25: overlap(&compared.dense, &compared.bm25, k),
        overlap_dense_hybrid: overlap(&compared.dense, &compared.hybrid, k),
        overlap_bm25_hybrid: overlap(&compared.bm25, &compared.hybrid, k),
        dense: ranked(compared.dense, 0),
        bm25: ranked(compared.bm25, 0),
        hybrid: ranked(compared.hybrid, 0),
    }
}

/// Shared keys among the first `k` of two rankings, divided by `k`, or by the longer ranking's length where that is
/// smaller.
fn overlap(a: &[AnswerHit], b: &[AnswerHit], k: usize) -> f32 {
    let k = k.min(a.len().max(b.len()));
    let keys: std::collections::HashSet<&str> = a.iter().take(k).map(|answer| answer.hit.key.as_str()).collect();
    let shared = b
        .iter()
        .take(k)
        .filter(|answer| keys.contains(answer.hit.key.as_str()))
        .count();
    shared as f32 / k.max(1) as f32
}

/// A stored document as replies have it.
pub(in crate::run) fn reply_document(document: StoredDocument) -> v1::Document {
    let StoredDocument {
        key,
        title,
        text,
        metadata_json,
    } = document;
    v1::Document {
        key,
        title,
        text,
        metadata_json,
        etag: None,
    }
}

#[cfg(test)]
pub(in crate::run) mod tests {
    use super::*;

    /// A hit for each letter, which is its key.
    pub(in crate::run) fn hits(keys: &str) -> Vec<AnswerHit> {
        let hit = |key: char| v1::Hit {
            key: key.to_string(),
            score: 0.5,
            ..v1::Hit::default()
        };
        keys.chars()
            .map(|key| AnswerHit {
                hit: hit(key),
                ..AnswerHit::default()
            })
            .collect()
    }

    #[test]
    fn overlap_counts_shared_keys_among_the_first_k() {
        assert!((overlap(&hits("abcd"), &hits("dcxy"), 4) - 0.5).abs() < 1e-6);
        assert!((overlap(&hits("abcd"), &hits("dcxy"), 2) - 0.0).abs() < 1e-6);
        assert!((overlap(&hits("ab"), &hits("a"), 10) - 0.5).abs() < 1e-6);
        assert!(overlap(&hits(""), &hits(""), 10).abs() < 1e-6);
    }

    #[test]
    fn hits_have_the_ranks_of_their_page_and_members_those_after_the_best() {
        let mut all = hits("ab");
        all[1].hit.group = Some(v1::Group::default());
        all[1].members = hits("cd");
        let reply = Answer {
            hits: all,
            offset: 5,
            ..Answer::default()
        }
        .into_response();
        let ranks = |hits: &[v1::Hit]| hits.iter().map(|hit| (hit.key.clone(), hit.rank)).collect::<Vec<_>>();
        assert_eq!(ranks(&reply.hits), [("a".into(), 6), ("b".into(), 7)]);
        assert_eq!(
            ranks(&reply.hits[1].group.as_ref().unwrap().hits),
            [("c".into(), 2), ("d".into(), 3)]
        );
    }

    #[test]
    fn every_reason_is_told() {
        let mut answer = Answer::default();
        answer.degrade("one");
        answer.degrade("two");
        assert_eq!(
            (answer.response.degraded, answer.response.degraded_reason.as_str()),
            (true, "one; two")
        );
    }
}
