//! The replies of a stream one after another: each reads its documents when the one before has been sent.
//!
//! A reply that is made before its turn would hold reply memory until those before it are sent, which may wait for that very memory. So a
//! reply that waits, for its turn or for memory, holds none, and those that hold some wait for their clients alone.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::answer::Answers;
use super::batch::Batch;
use super::cancellation::Cancellation;
use super::engine::Engine;
use super::parts::Jobs;
use super::pool::Class;
use crate::error::{Error, Result};

/// The turns of one stream.
#[derive(Debug)]
pub struct Turns(oneshot::Receiver<Infallible>);

/// Comes when the reply before has been sent.
#[derive(Debug)]
pub struct Turn(oneshot::Receiver<Infallible>);

/// To be dropped when a reply has been sent, or will not be.
#[derive(Debug)]
pub struct UntilNext(#[expect(dead_code, reason = "dropped")] oneshot::Sender<Infallible>);

impl Default for Turns {
    fn default() -> Self {
        // The first turn has come.
        Self(oneshot::channel().1)
    }
}

impl Turns {
    /// The turn of the next reply, and what ends it.
    pub fn add(&mut self) -> (Turn, UntilNext) {
        let (end, ended) = oneshot::channel();
        (Turn(std::mem::replace(&mut self.0, ended)), UntilNext(end))
    }
}

impl Turn {
    async fn come(self, cancel: &Cancellation) -> Result<()> {
        let come = tokio::time::timeout_at(cancel.deadline().into(), self.0);
        come.await.map(drop).map_err(|_| cancel.deadline_error())
    }
}

impl Engine {
    /// Reads the documents of the answer to a request of a stream when its turn has come. It waits without a place among the requests in
    /// flight.
    pub(super) async fn fetch_in_turn(
        &self,
        batch: Arc<Batch>,
        answers: Answers,
        turn: Turn,
        class: Class,
    ) -> Result<Answers> {
        if !batch.items.iter().any(|item| item.plan.wants_documents()) {
            return Ok(answers);
        }
        let cancel = Arc::clone(&batch.cancel);
        turn.come(&cancel).await?;
        let permit = self.pool.admit_many(1, &cancel).await?;
        let jobs = Jobs::new(&self.pool, class, permit, Arc::clone(&cancel));
        let read = |(mut answers, budget): Answers| {
            let batch = Arc::clone(&batch);
            jobs.start(move || {
                batch.fetch(&mut answers, &budget)?;
                Ok((answers, budget))
            })
        };
        let (without, budget) = answers;
        match read((without.clone(), budget)).await {
            Err(Error::FullReplies { .. }) => read((without, self.memory.reserve(&cancel).await?)).await,
            read => read,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[tokio::test]
    async fn a_turn_comes_when_the_one_before_has_ended_and_not_when_a_later_one_has() {
        let mut turns = Turns::default();
        let [(first, end), (second, second_end), (third, third_end)] = std::array::from_fn(|_| turns.add());
        let soon = || Cancellation::with_deadline(Instant::now(), Duration::from_millis(20));
        let (cancel, _guard) = Cancellation::with_deadline(Instant::now(), Duration::from_mins(1));
        first.come(&cancel).await.unwrap();
        drop(third_end);
        assert!(matches!(second.come(&soon().0).await, Err(Error::Deadline(_))));
        let (fourth, _end) = turns.add();
        fourth.come(&cancel).await.unwrap();
        drop((end, second_end));
        third.come(&cancel).await.unwrap();
    }
}
