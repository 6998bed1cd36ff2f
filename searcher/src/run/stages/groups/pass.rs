//! The groups that one look at a ranking gives.

use std::sync::OnceLock;

use dyad_index::lexical::FieldValue;
use dyad_index::snapshot::DocumentHit;
use dyad_proto::limits::MAX_K;

use super::super::batch::{BatchItem, QuestionBatch, QuestionVector};
use super::super::part_results::{HitGroup, PartResults, Timed};
use super::group;
use crate::error::Result;
use crate::plan::GroupBy;

/// A question whose hits are grouped.
#[derive(Debug, Clone, Copy)]
pub(in crate::run) struct GroupedQuestion<'a> {
    pub(in crate::run) item: &'a BatchItem,
    pub(in crate::run) by: &'a GroupBy,
    pub(in crate::run) vector: &'a QuestionVector,
}

/// Groups of hits that were read to some depth.
pub(in crate::run) struct GroupingPass {
    pub(in crate::run) groups: Vec<HitGroup>,
    /// Whether no deeper ranking adds any.
    pub(in crate::run) is_complete: bool,
}

/// Whether each group has as many hits as are wanted.
pub(in crate::run) fn are_full(groups: &[HitGroup], by: &GroupBy) -> bool {
    groups.iter().all(|group| group.hits.len() == by.hits)
}

/// Why there are too few groups, where all hits that may be read were.
pub(in crate::run) fn few_groups(groups: &[HitGroup], by: &GroupBy, wanted: usize) -> String {
    format!(
        "the best {MAX_K} hits are in {} groups by `{}`, and the request asks for {wanted}",
        groups.len(),
        by.field
    )
}

impl QuestionBatch {
    /// The groups of what was read to this depth.
    pub(in crate::run) fn group_pass(
        &self,
        question: GroupedQuestion<'_>,
        found: &PartResults,
        depth: usize,
        mut value_of: impl FnMut(&DocumentHit) -> Result<Option<FieldValue>>,
    ) -> Result<GroupingPass> {
        let GroupedQuestion { item, by, vector } = question;
        let plan = &item.plan;
        let wanted = plan.offset + plan.k;
        let whole = self.whole_ranking(plan, &item.query, vector, found, usize::MAX)?;
        let ranking = plan.above_threshold(&whole).copied();
        let groups = group(ranking, wanted, by.hits, |hit| {
            self.cancel.check()?;
            value_of(hit)
        })?;
        let is_cut = whole
            .last()
            .is_some_and(|last| plan.score_threshold.is_some_and(|least| last.score < least));
        let read = |part: &OnceLock<Timed>| part.get().map_or(0, |(hits, _)| hits.hits.len());
        let is_all = read(&found.dense).max(read(&found.text)) < depth;
        let is_complete = groups.len() >= wanted || is_cut || is_all;
        Ok(GroupingPass { groups, is_complete })
    }
}
