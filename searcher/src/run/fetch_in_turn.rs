//! The documents of replies whose hits were found before: those of a stream are read in turn, so that a reply that
//! waits holds no memory.

use std::sync::Arc;

use super::engine::Engine;
use super::parts::Jobs;
use super::resources::pool::RequestClass;
use super::resources::turns::Turn;
use super::stages::answer::Answers;
use super::stages::batch::QuestionBatch;
use crate::error::{Error, Result};
use crate::plan::SearchCost;

impl Engine {
    /// Reads the documents of the answer to a request of a stream when its turn has come. It waits without a place
    /// among the requests in flight.
    pub(super) async fn fetch_in_turn(
        &self,
        batch: Arc<QuestionBatch>,
        answers: Answers,
        turn: Turn,
        class: RequestClass,
        cost: SearchCost,
    ) -> Result<Answers> {
        if !batch.items.iter().any(|item| item.plan.wants_documents()) {
            return Ok(answers);
        }
        let cancel = Arc::clone(&batch.cancel);
        turn.wait(&cancel).await?;
        let permit = self.pool.admit_many(1, &cancel).await?;
        let mut jobs = Jobs::new(&self.pool, class, cost, permit, cancel);
        jobs.choose_threads(&batch.snapshot);
        self.fetch(&batch, answers, &jobs).await
    }

    /// Reads the documents of answers that have none yet.
    pub(super) async fn fetch(&self, batch: &Arc<QuestionBatch>, answers: Answers, jobs: &Jobs<'_>) -> Result<Answers> {
        if batch.generation.on_leaves().is_some() {
            return Box::pin(self.fetch_from_leaves(batch, answers)).await;
        }
        let read = |(mut answers, budget): Answers| {
            let batch = Arc::clone(batch);
            jobs.start(move || {
                batch.fetch(&mut answers, &budget)?;
                Ok((answers, budget))
            })
        };
        let (without, budget) = answers;
        match read((without.clone(), budget)).await {
            Err(Error::FullReplies { .. }) => read((without, self.memory.reserve(&jobs.cancel).await?)).await,
            read => read,
        }
    }
}
