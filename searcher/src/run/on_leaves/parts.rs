//! A batch of questions whose shards leaves hold: terms are counted while the questions are embedded, then each leaf
//! is asked once for its part of each question, and answers are made of the parts as where all shards are here.

use std::sync::{Arc, OnceLock};

use futures_util::future::try_join_all;

use super::super::engine::Engine;
use super::super::parts::Jobs;
use super::super::stages::answer::Answers;
use super::super::stages::batch::{BatchItem, QuestionBatch};
use super::super::stages::part_results::PartResults;
use super::asked::LeavesOfBatch;
use super::counts::CountedQuestion;
use super::merge::MergedReplies;
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
        while numbered.peek().is_some() {
            let some = numbered.by_ref().take(AT_ONCE);
            try_join_all(some.map(|(number, counted)| search_question(asked, batch, jobs, number, counted))).await?;
        }
        let (answered, budget) = (Arc::clone(batch), self.memory.budget());
        let answered = jobs.start(move || Ok((answered.answers(&budget)?, budget))).await?;
        let (answers, budget) = answered;
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

/// The parts of a question, and the groups of its hits.
pub(super) async fn search_question(
    asked: LeavesOfBatch<'_>,
    batch: &Arc<QuestionBatch>,
    jobs: &Jobs<'_>,
    number: usize,
    counted: CountedQuestion,
) -> Result<()> {
    let (Some(item), Some(found)) = (batch.items.get(number), batch.found.get(number)) else {
        return Err(Error::Internal);
    };
    let parts = asked.parts(batch, jobs, item, number, &counted).await?;
    let grouped = match &item.plan.group_by {
        Some(_) => Some(asked.grouped(batch, jobs, number, &counted, Arc::clone(&parts)).await?),
        None => None,
    };
    let parts = Arc::into_inner(parts).ok_or(Error::Internal)?;
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

impl LeavesOfBatch<'_> {
    /// What the leaves find for a question, by its plan.
    pub(super) async fn parts(
        &self,
        batch: &QuestionBatch,
        jobs: &Jobs<'_>,
        item: &BatchItem,
        number: usize,
        counted: &CountedQuestion,
    ) -> Result<Arc<PartResults>> {
        let vectors = batch.vectors.get().map_or(&[][..], Vec::as_slice);
        let vector = vectors.get(number).and_then(|vector| vector.values.as_deref());
        let request = search_request(batch, self.generation, item, vector, counted.counts.as_ref());
        let has_exactness = request.text.as_ref().is_some_and(|text| text.exactness);
        let mut shards = counted.shards.clone();
        let replies = self.ask_some(&mut shards, &request).await?;
        let mut merged = jobs.start(move || Ok(MergedReplies::new(replies))).await?;
        self.search_small(&item.plan, &request, &mut shards, &mut merged)
            .await?;
        let coverage = shards.coverage(batch, self.generation, counted.existing.as_ref());
        let lost = shards.reason();
        let (plan, counts) = (item.plan.clone(), counted.counts.clone());
        let documents_note = self.documents_note(&plan);
        let finished = jobs.start(move || {
            let found = PartResults::default();
            if let Some(filtered) = merged.filtered.take() {
                found.filter.get_or_init(|| filtered);
            }
            if let Some((mut text, depth)) = merged.text.take().zip(plan.text_depth) {
                text.keep(depth, &merged.hits.keys);
                if has_exactness {
                    found.exactness.get_or_init(|| text.exactness());
                }
                found.text.get_or_init(|| (text.found, text.took_us));
            }
            if let Some(dense) = merged.joined_dense(&plan) {
                found.dense.get_or_init(|| (dense.found, dense.took_us));
            }
            let mut hits = merged.hits;
            hits.coverage = coverage;
            hits.damage = lost.or(hits.damage.take());
            hits.counts = counts;
            hits.documents_note = documents_note;
            found.on_leaves.get_or_init(|| hits);
            Ok(Arc::new(found))
        });
        finished.await
    }

    /// Says that the documents of passages do not count, where they would in one process.
    fn documents_note(&self, plan: &SearchPlan) -> Option<String> {
        let would_count = plan.text_depth.is_some() && plan.fusion.document_weight > 0.0;
        let note = "`document_weight` is 0: what the documents of passages add to BM25 is not known where leaves hold the shards";
        (would_count && self.generation.has_documents).then(|| note.to_owned())
    }
}
