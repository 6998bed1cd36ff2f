//! How much may wait, and who is refused: a budget of tokens over everything that is not answered yet.
//!
//! A text is first charged what it can have at most (a token takes at least one byte, and the model cuts at its longest
//! input), so that nothing unbounded is tokenized; afterwards what it has.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use super::error::EncodeError;

/// Special tokens around a text, generously.
const SPECIAL_TOKENS: usize = 8;

/// The budget.
#[derive(Debug, Clone)]
pub(crate) struct EncodeAdmission {
    free: Arc<Semaphore>,
    limit: u32,
}

/// A share of the budget, given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit(OwnedSemaphorePermit);

impl Permit {
    /// Gives back all but `tokens`, or takes what is missing; refused where that is not free.
    pub(crate) fn fit(&mut self, admission: &EncodeAdmission, tokens: usize) -> Result<(), EncodeError> {
        let excess = self.0.num_permits().saturating_sub(tokens);
        drop(self.0.split(excess));
        let missing = tokens.saturating_sub(self.0.num_permits());
        if missing > 0 {
            // None of it could ever be admitted otherwise.
            admission.wanted(tokens)?;
            self.0.merge(admission.try_admit(missing)?.0);
        }
        Ok(())
    }
}

/// Tokens that texts can have at most; `contents` is that of each without prompt and special tokens.
pub(crate) fn at_most(contents: &[usize], prompt_bytes: usize, max_tokens: usize) -> usize {
    contents
        .iter()
        .map(|content| (content + prompt_bytes + SPECIAL_TOKENS).min(max_tokens))
        .sum()
}

impl EncodeAdmission {
    /// At most `limit` tokens wait or are being embedded.
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            free: Arc::new(Semaphore::new(limit as usize)),
            limit,
        }
    }

    /// Admits now or refuses.
    pub(crate) fn try_admit(&self, tokens: usize) -> Result<Permit, EncodeError> {
        let wanted = self.wanted(tokens)?;
        Arc::clone(&self.free)
            .try_acquire_many_owned(wanted)
            .map(Permit)
            .map_err(|error| match error {
                TryAcquireError::NoPermits => EncodeError::QueueFull {
                    needed: tokens,
                    waiting: self.load().0,
                    limit: self.limit as usize,
                },
                TryAcquireError::Closed => EncodeError::Stopped,
            })
    }

    /// Admits when there is room; callers bound the wait.
    pub(crate) async fn admit(&self, tokens: usize) -> Result<Permit, EncodeError> {
        let wanted = self.wanted(tokens)?;
        Arc::clone(&self.free)
            .acquire_many_owned(wanted)
            .await
            .map(Permit)
            .map_err(|_| EncodeError::Stopped)
    }

    /// Tokens admitted and not answered, and the limit.
    pub(crate) fn load(&self) -> (usize, usize) {
        let limit = self.limit as usize;
        (limit.saturating_sub(self.free.available_permits()), limit)
    }

    /// From now on everyone is told that the model has stopped.
    pub(crate) fn close(&self) {
        self.free.close();
    }

    fn wanted(&self, tokens: usize) -> Result<u32, EncodeError> {
        u32::try_from(tokens)
            .ok()
            .filter(|&wanted| wanted <= self.limit)
            .ok_or(EncodeError::TooLarge {
                needed: tokens,
                limit: self.limit as usize,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_charged_their_bytes_up_to_the_longest_input() {
        assert_eq!(at_most(&[2, 1000], 3, 256), (2 + 3 + SPECIAL_TOKENS) + 256);
    }

    #[test]
    fn a_full_queue_refuses_and_room_comes_back() {
        let admission = EncodeAdmission::new(100);
        let mut first = admission.try_admit(80).unwrap();
        let message = admission.try_admit(30).unwrap_err().to_string();
        assert!(
            message.contains("80") && message.contains("100") && message.contains("--queue-tokens"),
            "{message}"
        );
        first.fit(&admission, 70).unwrap();
        let second = admission.try_admit(30).unwrap();
        assert!(admission.try_admit(1).is_err());
        drop((first, second));
        assert!(admission.try_admit(100).is_ok());
    }

    #[test]
    fn what_can_never_fit_is_refused_for_good() {
        let admission = EncodeAdmission::new(100);
        assert!(matches!(
            admission.try_admit(101),
            Err(EncodeError::TooLarge {
                needed: 101,
                limit: 100
            })
        ));
        admission.close();
        assert!(matches!(admission.try_admit(1), Err(EncodeError::Stopped)));
    }

    #[tokio::test]
    async fn the_patient_wait_for_room() {
        let admission = EncodeAdmission::new(10);
        let held = admission.try_admit(10).unwrap();
        let patient = admission.clone();
        let waiter = tokio::spawn(async move { patient.admit(5).await.is_ok() });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        drop(held);
        assert!(waiter.await.unwrap());
    }
}
