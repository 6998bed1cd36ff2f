//! What leaves have replied to a question, as the results of its parts.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use dyad_index::lexical::TermCounts;
use dyad_proto::v1;

use super::super::stages::batch::QuestionBatch;
use super::super::stages::groups::Grouped;
use super::super::stages::part_results::PartResults;
use super::merge::MergedReplies;
use crate::error::{Error, Result};
use crate::plan::SearchPlan;

/// The replies of leaves.
pub(super) enum LeafReplies {
    /// As they came.
    Received(Vec<v1::LeafSearchResponse>),
    /// With those of a second round.
    Merged(Box<MergedReplies>),
}

/// A question that leaves have replied to.
pub(super) struct RepliedQuestion {
    /// Its place in the batch.
    pub(super) number: usize,
    pub(super) plan: SearchPlan,
    pub(super) replies: LeafReplies,
    /// Whether the hits of BM25 have an exactness.
    pub(super) has_exactness: bool,
    /// What was searched.
    pub(super) coverage: v1::Coverage,
    /// Why hits may be missing, where some shards were not searched.
    pub(super) lost: Option<String>,
    pub(super) counts: Option<TermCounts>,
    pub(super) documents_note: Option<String>,
    /// The documents of each shard that exist for the caller, where these are not all.
    pub(super) existing: Option<BTreeMap<u32, v1::LeafShardDocuments>>,
}

impl RepliedQuestion {
    /// The results of the question's parts.
    pub(super) fn results(self) -> PartResults {
        let mut merged = match self.replies {
            LeafReplies::Received(replies) => MergedReplies::new(replies),
            LeafReplies::Merged(merged) => *merged,
        };
        let found = PartResults::default();
        if let Some(filtered) = merged.filtered.take() {
            found.filter.get_or_init(|| filtered);
        }
        if let Some((mut text, depth)) = merged.text.take().zip(self.plan.text_depth) {
            text.keep(depth, &merged.hits.keys);
            if self.has_exactness {
                found.exactness.get_or_init(|| text.exactness());
            }
            found.text.get_or_init(|| (text.found, text.took_us));
        }
        if let Some(dense) = merged.joined_dense(&self.plan) {
            found.dense.get_or_init(|| (dense.found, dense.took_us));
        }
        let mut hits = merged.hits;
        hits.coverage = self.coverage;
        hits.damage = self.lost.or(hits.damage.take());
        hits.counts = self.counts;
        hits.documents_note = self.documents_note;
        hits.existing = self.existing;
        found.on_leaves.get_or_init(|| hits);
        found
    }

    /// Puts them into the batch.
    pub(super) fn put_into(self, batch: &QuestionBatch) -> Result<()> {
        let number = self.number;
        put(batch, number, self.results(), None)
    }
}

/// Puts the results of a question's parts into its batch.
pub(super) fn put(batch: &QuestionBatch, number: usize, parts: PartResults, grouped: Option<Grouped>) -> Result<()> {
    let found = batch.found.get(number).ok_or(Error::Internal)?;
    let PartResults {
        filter,
        text,
        exactness,
        dense,
        on_leaves,
        ..
    } = parts;
    move_into(&found.filter, filter.into_inner());
    move_into(&found.text, text.into_inner());
    move_into(&found.exactness, exactness.into_inner());
    move_into(&found.dense, dense.into_inner());
    move_into(&found.on_leaves, on_leaves.into_inner());
    move_into(&found.grouped, grouped.map(Box::new));
    Ok(())
}

/// Sets what nobody else sets.
fn move_into<T>(place: &OnceLock<T>, value: Option<T>) {
    if let Some(value) = value {
        place.get_or_init(|| value);
    }
}
