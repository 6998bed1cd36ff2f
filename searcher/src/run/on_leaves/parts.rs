//! A batch of questions whose shards leaves hold: terms are counted while the questions are embedded, then each leaf
//! is asked once for its part of each question, and answers are made of the parts as where all shards are here.

use std::sync::Arc;

use futures_util::future::try_join_all;
use rayon::prelude::*;

use super::super::engine::Engine;
use super::super::parts::Jobs;
use super::super::stages::answer::Answers;
use super::super::stages::batch::{BatchItem, QuestionBatch};
use super::asked::LeavesOfBatch;
use super::counts::CountedQuestion;
use super::merge::MergedReplies;
use super::replied::{LeafReplies, RepliedQuestion, put};
use super::request::search_request;
use crate::error::{Error, Result};
use crate::leaves::GenerationShards;
use crate::plan::SearchPlan;

/// Questions of a batch that are asked of leaves at once.
const AT_ONCE: usize = 16;

impl Engine {
    /// Answers the questions of a batch by leaves.
    pub(in crate::run) async fn answer_by_leaves(
        &self,
        batch: &Arc<QuestionBatch>,
        generation: &GenerationShards,
        jobs: &Jobs<'_>,
    ) -> Result<Answers> {
        let leaves = self.leaves.as_ref().ok_or(Error::Internal)?;
        let asked = LeavesOfBatch {
            leaves,
            generation,
            cancel: &batch.cancel,
        };
        let ((), counted) = tokio::try_join!(self.embed(batch), count_all(asked, batch))?;
        let mut numbered = counted.into_iter().enumerate().peekable();
        let mut replied = Vec::with_capacity(batch.items.len());
        while numbered.peek().is_some() {
            let some = numbered.by_ref().take(AT_ONCE);
            let some = some.map(|(number, counted)| search_question(asked, batch, jobs, number, counted));
            replied.extend(try_join_all(some).await?.into_iter().flatten());
        }
        let (answered, budget) = (Arc::clone(batch), self.memory.budget());
        let answered = jobs.start(move || {
            replied.into_par_iter().try_for_each(|one| one.put_into(&answered))?;
            Ok((answered.answers(&budget)?, budget))
        });
        let (answers, budget) = answered.await?;
        let answers = (answers.ok_or(Error::Internal)?, budget);
        if batch.fetches_later {
            return Ok(answers);
        }
        self.fetch_from_leaves(batch, answers).await
    }
}

/// Counts the terms of all questions.
async fn count_all(asked: LeavesOfBatch<'_>, batch: &QuestionBatch) -> Result<Vec<CountedQuestion>> {
    let mut counted = Vec::with_capacity(batch.items.len());
    for some in batch.items.chunks(AT_ONCE) {
        counted.extend(try_join_all(some.iter().map(|item| asked.count(batch, item))).await?);
    }
    Ok(counted)
}

/// Asks leaves for the parts of a question. What they reply is merged later, in one job with the answer; where it had
/// to be merged to ask on, by groups, it is put into the batch, and none is returned.
pub(super) async fn search_question(
    asked: LeavesOfBatch<'_>,
    batch: &Arc<QuestionBatch>,
    jobs: &Jobs<'_>,
    number: usize,
    counted: CountedQuestion,
) -> Result<Option<RepliedQuestion>> {
    let item = batch.items.get(number).ok_or(Error::Internal)?;
    let replied = asked.parts(batch, jobs, item, number, &counted).await?;
    if item.plan.group_by.is_none() {
        return Ok(Some(replied));
    }
    let parts = jobs.start(move || Ok(Arc::new(replied.results()))).await?;
    let grouped = asked.grouped(batch, jobs, number, &counted, Arc::clone(&parts)).await?;
    let parts = Arc::into_inner(parts).ok_or(Error::Internal)?;
    put(batch, number, parts, Some(grouped))?;
    Ok(None)
}

impl LeavesOfBatch<'_> {
    /// What the leaves find for a question, by its plan.
    pub(super) async fn parts(
        &self,
        batch: &QuestionBatch,
        jobs: &Jobs<'_>,
        item: &BatchItem,
        number: usize,
        counted: &CountedQuestion,
    ) -> Result<RepliedQuestion> {
        let vectors = batch.vectors.get().map_or(&[][..], Vec::as_slice);
        let vector = vectors.get(number).and_then(|vector| vector.values.as_deref());
        let leaves = self.leaves.count_holding(&self.generation.name);
        let request = search_request(batch, self.generation, item, vector, counted.counts.as_ref(), leaves);
        let mut shards = counted.shards.clone();
        let replies = self.ask_some(&mut shards, &request).await?;
        let replies = if self.has_small_shards(&item.plan, &request) {
            let mut merged = jobs.start(move || Ok(MergedReplies::new(replies))).await?;
            self.search_small(&item.plan, &request, &mut shards, &mut merged)
                .await?;
            LeafReplies::Merged(Box::new(merged))
        } else {
            LeafReplies::Received(replies)
        };
        Ok(RepliedQuestion {
            number,
            plan: item.plan.clone(),
            replies,
            has_exactness: request.text.as_ref().is_some_and(|text| text.exactness),
            coverage: shards.coverage(batch, self.generation, counted.existing.as_ref()),
            lost: shards.reason(),
            counts: counted.counts.clone(),
            documents_note: self.documents_note(&item.plan),
            existing: counted.existing.clone(),
        })
    }

    /// Says that the documents of passages do not count, where they would in one process.
    fn documents_note(&self, plan: &SearchPlan) -> Option<String> {
        let would_count = plan.text_depth.is_some() && plan.fusion.document_weight > 0.0;
        let note = "`document_weight` is 0: what the documents of passages add to BM25 is not known where leaves hold the shards";
        (would_count && self.generation.has_documents).then(|| note.to_owned())
    }
}
