//! Groups of hits whose documents leaves hold: the rankings are read deeper until there are enough.

use std::sync::Arc;

use dyad_proto::limits::MAX_K;
use dyad_proto::v1;

use super::super::parts::Jobs;
use super::super::stages::batch::{BatchItem, QuestionBatch, QuestionVector};
use super::super::stages::groups::{
    Grouped, GroupedQuestion, GroupingPass, HitGroup, are_full, few_groups, next_depth,
};
use super::super::stages::part_results::PartResults;
use super::super::stages::rank::field_value;
use super::asked::LeavesOfBatch;
use super::counts::CountedQuestion;
use super::request::scope_message;
use crate::error::{Error, Result};
use crate::plan::GroupBy;

impl LeavesOfBatch<'_> {
    /// Groups the hits of a question, of which `first` was found.
    pub(super) async fn grouped(
        &self,
        batch: &Arc<QuestionBatch>,
        jobs: &Jobs<'_>,
        number: usize,
        counted: &CountedQuestion,
        first: Arc<PartResults>,
    ) -> Result<Grouped> {
        let item = batch.items.get(number).ok_or(Error::Internal)?;
        let plan = &item.plan;
        let by = plan.group_by.as_ref().ok_or(Error::Internal)?;
        let wanted = plan.offset + plan.k;
        let (mut depth, mut before) = (plan.depth(), None);
        let mut deeper: Option<Arc<PartResults>> = None;
        loop {
            let found = Arc::clone(deeper.as_ref().unwrap_or(&first));
            let (of, by_field) = (Arc::clone(batch), by.clone());
            let pass = jobs
                .start(move || group_pass(&of, &by_field, number, &found, depth))
                .await?;
            let GroupingPass { groups, is_complete } = pass;
            let is_done =
                is_complete || are_full(&groups, by) && !self.have_others(batch, item, by, &groups, counted).await?;
            let note = (!is_done && depth >= MAX_K as usize).then(|| few_groups(&groups, by, wanted));
            if is_done || note.is_some() {
                return Ok(Grouped {
                    groups,
                    depth,
                    deeper: deeper
                        .map(|deeper| Arc::into_inner(deeper).ok_or(Error::Internal))
                        .transpose()?,
                    note,
                });
            }
            depth = next_depth(plan.mode, depth, before == Some(groups.len()));
            before = Some(groups.len());
            let again = BatchItem {
                plan: plan.with_depth(depth),
                ..item.clone()
            };
            let read = self.parts(batch, jobs, &again, number, counted).await?;
            let mut read = jobs.start(move || Ok(read.results())).await?;
            read.add_costs_of(deeper.as_deref().unwrap_or(&first));
            deeper = Some(Arc::new(read));
        }
    }

    /// Whether some documents that are allowed are in none of these groups, or may be.
    async fn have_others(
        &self,
        batch: &QuestionBatch,
        item: &BatchItem,
        by: &GroupBy,
        groups: &[HitGroup],
        counted: &CountedQuestion,
    ) -> Result<bool> {
        let group = |group: &HitGroup| {
            let first = group.hits.first()?;
            Some(v1::LeafGroupValue {
                shard: first.shard as u32,
                node: first.node,
                value: group.value.clone().map(field_value),
            })
        };
        let request = v1::OtherGroupsRequest {
            generation: Some(self.generation.name.clone()),
            shards: Vec::new(),
            filter: item.request_filter.clone(),
            scope: scope_message(batch),
            group_by: by.field.clone(),
            groups: groups.iter().filter_map(group).collect(),
        };
        let replies = self.ask_some(&mut counted.shards.clone(), &request).await?;
        Ok(replies.iter().any(|reply| reply.has_others))
    }
}

fn group_pass(
    batch: &QuestionBatch,
    by: &GroupBy,
    number: usize,
    found: &PartResults,
    depth: usize,
) -> Result<GroupingPass> {
    let item = batch.items.get(number).ok_or(Error::Internal)?;
    let none = QuestionVector::default();
    let vectors = batch.vectors.get().map_or(&[][..], Vec::as_slice);
    let vector = vectors.get(number).unwrap_or(&none);
    let answered = item.answered_with(vector);
    let on_leaves = found.on_leaves.get().ok_or(Error::Internal)?;
    let question = GroupedQuestion {
        item: &answered,
        by,
        vector,
    };
    batch.group_pass(question, found, depth, |hit| Ok(on_leaves.value(hit)))
}
