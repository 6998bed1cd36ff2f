//! The parts of a batch of questions as jobs: the filter, BM25 and the dense part, for some of its filters at a time.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::Either;

use super::engine::Engine;
use super::gather::DenseSearch;
use super::parts::Jobs;
use super::resources::pool::RequestClass;
use super::stages::answer::Answers;
use super::stages::batch::QuestionBatch;
use super::stages::chunk::Chunk;
use super::stages::part_results::Allowed;
use crate::error::{Error, Result};

impl Engine {
    /// Answers the questions: some of the filters at a time, each with BM25 and the dense part in parallel.
    pub(super) async fn answer(&self, batch: &Arc<QuestionBatch>, jobs: &Jobs<'_>) -> Result<Answers> {
        if let Some(generation) = batch.generation.on_leaves() {
            return Box::pin(self.answer_by_leaves(batch, generation, jobs)).await;
        }
        let mut embedding = Some(self.embed(batch));
        // The threads of a tower spin while they wait for each other, also for one that BM25 has displaced from its
        // core: a batch takes more CPU time in parallel with BM25 than before it. A single question is too short for
        // that to matter.
        if batch.items.len() > 1
            && self
                .tower_of(&batch.snapshot)
                .is_some_and(|one| one.tower.takes_all_cores())
            && let Some(embedding) = embedding.take()
        {
            embedding.await?;
        }
        let mut answered = None;
        for chunk in batch.chunks() {
            let vectors = embedding.take();
            let vectors = async {
                match vectors {
                    Some(embedding) => embedding.await,
                    None => Ok(()),
                }
            };
            let parts = jobs.run_parts(
                chunk.has_filter.then(|| work(batch, chunk, QuestionBatch::filter)),
                chunk.has_text.then(|| self.part(batch, chunk, QuestionBatch::text)),
                vectors,
                chunk
                    .has_dense
                    .then_some(|allowed| self.dense(batch, chunk, allowed, jobs)),
            );
            match parts.await {
                Ok(parts) => answered = parts.into_iter().flatten().flatten().next(),
                // All parts are done, but the reply memory is full.
                Err(Error::FullReplies { .. }) => return self.answer_with_memory(batch, jobs).await,
                Err(error) => return Err(error),
            }
        }
        match answered {
            Some(answers) => Ok(answers),
            // Rankings have to be read deeper.
            None => self.answer_deeper(batch, jobs).await,
        }
    }

    /// Starts the dense part: that of a single question together with others that wait for a thread.
    fn dense(
        &self,
        batch: &Arc<QuestionBatch>,
        chunk: &Chunk,
        allowed: Arc<Vec<Allowed>>,
        jobs: &Jobs<'_>,
    ) -> impl Future<Output = Result<Option<Answers>>> {
        // A grouped search reads documents for its answer, and others would wait for them.
        let is_grouped = batch.items.iter().any(|item| item.plan.group_by.is_some());
        if jobs.class != RequestClass::Bulk && !is_grouped && batch.only_dense().is_some() {
            let (batch, budget) = (Arc::clone(batch), self.memory.budget());
            let is_single_shard = jobs.class == RequestClass::SingleShard;
            let gather = if is_single_shard {
                &self.gather_single_shard
            } else {
                &self.gather
            };
            return Either::Left(jobs.gather(gather, |permit, done| DenseSearch {
                batch,
                allowed,
                budget,
                permit,
                done,
            }));
        }
        let part = self.part(batch, chunk, QuestionBatch::dense);
        Either::Right(jobs.start_dense(move || part(&allowed)))
    }

    /// A part of a batch for some of its filters; the last one goes on to the answers.
    fn part(
        &self,
        batch: &Arc<QuestionBatch>,
        chunk: &Chunk,
        part: impl Fn(&QuestionBatch, &Chunk, &[Allowed]) -> Result<()> + Send + 'static,
    ) -> impl FnOnce(&Vec<Allowed>) -> Result<Option<Answers>> + Send + 'static {
        let (batch, chunk, budget) = (Arc::clone(batch), chunk.clone(), self.memory.budget());
        move |allowed| {
            part(&batch, &chunk, allowed)?;
            batch.finish_part(budget)
        }
    }
}

/// A part of a batch's work for some of its filters, to be run on another thread.
fn work<T>(
    batch: &Arc<QuestionBatch>,
    chunk: &Chunk,
    work: impl FnOnce(&QuestionBatch, &Chunk) -> T + Send + 'static,
) -> impl FnOnce() -> T + Send + 'static {
    let (batch, chunk) = (Arc::clone(batch), chunk.clone());
    move || work(&batch, &chunk)
}
