//! The replies of a stream one after another: each reads its documents when the one before has been sent.
//!
//! A reply that is made before its turn would hold reply memory until those before it are sent, which may wait for that
//! very memory. So a reply that waits for its turn holds none, one that waits for memory at most its first 64 KiB, and
//! those that hold more wait for their clients alone.

use std::convert::Infallible;

use tokio::sync::oneshot;

use super::cancellation::SearchCancellation;
use crate::error::Result;

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
    pub(in crate::run) async fn wait(self, cancel: &SearchCancellation) -> Result<()> {
        let come = tokio::time::timeout_at(cancel.deadline().into(), self.0);
        come.await.map(drop).map_err(|_| cancel.deadline_error())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::error::Error;

    #[tokio::test]
    async fn a_turn_comes_when_the_one_before_has_ended_and_not_when_a_later_one_has() {
        let mut turns = Turns::default();
        let [(first, end), (second, second_end), (third, third_end)] = std::array::from_fn(|_| turns.add());
        let soon = || SearchCancellation::with_deadline(Instant::now(), Duration::from_millis(20));
        let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), Duration::from_mins(1));
        first.wait(&cancel).await.unwrap();
        drop(third_end);
        assert!(matches!(second.wait(&soon().0).await, Err(Error::Deadline(_))));
        let (fourth, _end) = turns.add();
        fourth.wait(&cancel).await.unwrap();
        drop((end, second_end));
        third.wait(&cancel).await.unwrap();
    }
}
