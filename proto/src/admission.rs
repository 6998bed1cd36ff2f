//! Admission by amount: how many calls, tokens or bytes may be under way at once, for every part of a server.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// The most of something that may be under way. Clones share it.
#[derive(Debug, Clone)]
pub struct AdmissionLimit {
    free: Arc<Semaphore>,
    limit: usize,
}

/// Why an amount was not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAdmitted {
    /// So much is not free now.
    Full,
    /// So much will never be free: it is above the limit.
    TooLarge,
    /// It was not free before the deadline.
    Late,
    /// Nothing is admitted any more.
    Closed,
}

/// An amount that is under way until this is dropped; by default nothing.
#[derive(Debug, Default)]
pub struct Admitted(Option<OwnedSemaphorePermit>);

impl AdmissionLimit {
    /// At most `limit`, which is cut to what a semaphore can count.
    pub fn new(limit: usize) -> Self {
        let limit = limit.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(limit)),
            limit,
        }
    }

    /// Admits an amount now, or refuses it.
    pub fn try_admit(&self, amount: usize) -> Result<Admitted, NotAdmitted> {
        let permit = Arc::clone(&self.free).try_acquire_many_owned(self.permits(amount)?);
        permit
            .map(|permit| Admitted(Some(permit)))
            .map_err(|error| match error {
                TryAcquireError::NoPermits => NotAdmitted::Full,
                TryAcquireError::Closed => NotAdmitted::Closed,
            })
    }

    /// Admits an amount when it is free, first come, first served.
    pub async fn admit(&self, amount: usize, deadline: Instant) -> Result<Admitted, NotAdmitted> {
        let permit = Arc::clone(&self.free).acquire_many_owned(self.permits(amount)?);
        match tokio::time::timeout_at(deadline.into(), permit).await {
            Ok(Ok(permit)) => Ok(Admitted(Some(permit))),
            Ok(Err(_)) => Err(NotAdmitted::Closed),
            Err(_) => Err(NotAdmitted::Late),
        }
    }

    /// The permits that an amount takes; an error where it is above the limit.
    fn permits(&self, amount: usize) -> Result<u32, NotAdmitted> {
        u32::try_from(amount)
            .ok()
            .filter(|_| amount <= self.limit)
            .ok_or(NotAdmitted::TooLarge)
    }

    /// What is under way.
    pub fn taken(&self) -> usize {
        self.limit.saturating_sub(self.free.available_permits())
    }

    /// The most that may be.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// From now on nothing is admitted; who waits is told so.
    pub fn close(&self) {
        self.free.close();
    }
}

impl Admitted {
    /// The amount.
    pub fn amount(&self) -> usize {
        self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// Raises the amount where it is lower; unchanged where that is refused. `limit` is the one that admitted it.
    pub fn raise_to(&mut self, amount: usize, limit: &AdmissionLimit) -> Result<(), NotAdmitted> {
        // None of it could ever be admitted otherwise.
        limit.permits(amount)?;
        let missing = amount.saturating_sub(self.amount());
        if missing > 0 {
            let more = limit.try_admit(missing)?;
            match (&mut self.0, more.0) {
                (Some(held), Some(more)) => held.merge(more),
                (held, more) => *held = more,
            }
        }
        Ok(())
    }

    /// Gives back what is above this amount.
    pub fn lower_to(&mut self, amount: usize) {
        let excess = self.amount().saturating_sub(amount);
        if let Some(held) = &mut self.0 {
            drop(held.split(excess));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_admitted_counts_until_it_is_given_back() {
        let limit = AdmissionLimit::new(100);
        let mut first = limit.try_admit(80).unwrap();
        assert_eq!(limit.try_admit(30).unwrap_err(), NotAdmitted::Full);
        assert_eq!(limit.try_admit(101).unwrap_err(), NotAdmitted::TooLarge);
        first.lower_to(70);
        let second = limit.try_admit(30).unwrap();
        assert_eq!((first.amount(), second.amount(), limit.taken()), (70, 30, 100));
        drop(second);
        first.raise_to(90, &limit).unwrap();
        first.raise_to(10, &limit).unwrap();
        assert_eq!(
            (first.raise_to(101, &limit), first.amount()),
            (Err(NotAdmitted::TooLarge), 90)
        );
        let mut other = Admitted::default();
        assert_eq!(
            (other.raise_to(20, &limit), other.amount()),
            (Err(NotAdmitted::Full), 0)
        );
        other.raise_to(10, &limit).unwrap();
        drop((first, other));
        assert_eq!((limit.taken(), limit.limit()), (0, 100));
        limit.close();
        assert_eq!(limit.try_admit(1).unwrap_err(), NotAdmitted::Closed);
        assert!(AdmissionLimit::new(usize::MAX).try_admit(1).is_ok());
    }

    #[tokio::test]
    async fn who_waits_is_admitted_in_turn_or_told_that_it_is_too_late() {
        let limit = AdmissionLimit::new(10);
        let held = limit.try_admit(10).unwrap();
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(limit.admit(5, soon).await.unwrap_err(), NotAdmitted::Late);
        let far = Instant::now() + Duration::from_mins(1);
        assert_eq!(limit.admit(11, far).await.unwrap_err(), NotAdmitted::TooLarge);
        let waiting = limit.clone();
        let waiter = tokio::spawn(async move { waiting.admit(5, far).await.map(|admitted| admitted.amount()) });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        drop(held);
        assert_eq!(waiter.await.unwrap(), Ok(5));
        let held = limit.try_admit(10).unwrap();
        let waiting = limit.clone();
        let waiter = tokio::spawn(async move { waiting.admit(5, far).await.map(drop) });
        tokio::task::yield_now().await;
        limit.close();
        assert_eq!(waiter.await.unwrap(), Err(NotAdmitted::Closed));
        drop(held);
    }
}
