//! Answers of a batch whose parts are done, and whose first try has not made them: rankings have too few groups and
//! have to be read deeper, or the reply memory was full.

use std::sync::Arc;

use super::engine::Engine;
use super::parts::Jobs;
use super::resources::reply_memory::ReplyBudget;
use super::stages::answer::Answers;
use super::stages::batch::QuestionBatch;
use crate::error::{Error, Result};

impl Engine {
    /// With rankings that are read deeper. That is bulk work, and a request that does not queue is admitted to it, or
    /// refused.
    pub(super) async fn answer_deeper(&self, batch: &Arc<QuestionBatch>, jobs: &Jobs<'_>) -> Result<Answers> {
        let jobs = jobs.for_bulk(batch.cost_of_deeper_reads())?;
        match answer(batch, &jobs, self.memory.budget()).await {
            Err(Error::FullReplies { .. }) => self.answer_with_memory(batch, &jobs).await,
            answered => answered,
        }
    }

    /// With reply memory that is waited for.
    pub(super) async fn answer_with_memory(&self, batch: &Arc<QuestionBatch>, jobs: &Jobs<'_>) -> Result<Answers> {
        answer(batch, jobs, self.memory.reserve(&jobs.cancel).await?).await
    }
}

async fn answer(batch: &Arc<QuestionBatch>, jobs: &Jobs<'_>, budget: ReplyBudget) -> Result<Answers> {
    batch.read_deeper_from_now_on(true);
    let batch = Arc::clone(batch);
    let answered = jobs.start_dense(move || Ok((batch.answers(&budget)?, budget))).await?;
    let (answers, budget) = answered;
    Ok((answers.ok_or(Error::Internal)?, budget))
}
