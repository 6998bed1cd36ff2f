//! What leaves have said of the hits of a question.

use std::collections::{BTreeMap, HashMap};

use dyad_index::lexical::{FieldValue, TermCounts};
use dyad_index::snapshot::DocumentHit;
use dyad_proto::v1;

use super::bounded_rankings::BoundedRankings;
use crate::leaves::GenerationShards;

/// Shard, by its number in the manifest, and node.
pub(in crate::run) type HitPlace = (usize, u32);

/// What leaves have said of a question and its hits.
#[derive(Debug, Default)]
pub(in crate::run) struct LeafHits {
    pub(in crate::run) keys: HashMap<HitPlace, String>,
    pub(in crate::run) bounded: HashMap<HitPlace, v1::LeafBoundedScores>,
    /// Of the field that hits are grouped by; not of documents that have none.
    pub(in crate::run) values: HashMap<HitPlace, FieldValue>,
    /// What the replies show of documents of the best hits, where they were asked for it.
    pub(in crate::run) shown: HashMap<HitPlace, v1::Hit>,
    /// Says that the documents of passages do not count, where they would.
    pub(in crate::run) documents_note: Option<String>,
    /// Fields that were asked for and no document has.
    pub(in crate::run) field_notes: Vec<String>,
    /// Why hits may be missing; absent where no shard is damaged.
    pub(in crate::run) damage: Option<String>,
    /// What was searched.
    pub(in crate::run) coverage: v1::Coverage,
    /// The documents of each shard that exist for the caller, by its number, where these are not all.
    pub(in crate::run) existing: Option<BTreeMap<u32, v1::LeafShardDocuments>>,
    /// BM25's counts of the question's terms over all shards, where they were needed.
    pub(in crate::run) counts: Option<TermCounts>,
}

impl LeafHits {
    /// The documents of a shard that exist for the caller, and count as intact.
    pub(in crate::run) fn documents_of(&self, number: u32, generation: &GenerationShards) -> u64 {
        match &self.existing {
            Some(existing) => existing
                .get(&number)
                .filter(|of_shard| !of_shard.is_damaged)
                .map_or(0, |of_shard| of_shard.documents),
            None => generation.intact_documents_of(number),
        }
    }

    /// The key of a hit.
    pub(in crate::run) fn key(&self, hit: &DocumentHit) -> Option<&str> {
        self.keys.get(&(hit.shard, hit.node)).map(String::as_str)
    }

    /// The value of the field that hits are grouped by.
    pub(in crate::run) fn value(&self, hit: &DocumentHit) -> Option<FieldValue> {
        self.values.get(&(hit.shard, hit.node)).cloned()
    }

    /// Hits of the rankings with both scores from 0 to 1.
    pub(in crate::run) fn bounded(&self, hits: &[DocumentHit]) -> BoundedRankings {
        let mut rankings = BoundedRankings::default();
        for hit in hits {
            let Some(scores) = self.bounded.get(&(hit.shard, hit.node)) else {
                continue;
            };
            if let Some(score) = scores.dense {
                rankings.dense.push(DocumentHit { score, ..*hit });
            }
            rankings.text.push(DocumentHit {
                score: scores.bm25,
                ..*hit
            });
            rankings.exactness.push(scores.exactness);
        }
        rankings
    }
}
