//! A memory budget shared by requests, of which no single one can take all.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that count as the beginning of a request or a reply.
const BEGINNING: usize = 64 << 10;
const KIB: usize = 1024;

/// Separate budgets for beginnings and for the rest, so that small requests pass while large ones wait.
#[derive(Debug, Clone)]
pub struct ByteBudget {
    beginnings: Arc<Semaphore>,
    rest: Arc<Semaphore>,
}

impl ByteBudget {
    /// `beginnings` bytes for the first 64 KiB of every request, and `rest` bytes for all that follows them.
    pub fn new(beginnings: usize, rest: usize) -> Self {
        let places = |bytes: usize| Arc::new(Semaphore::new(bytes / KIB));
        Self {
            beginnings: places(beginnings),
            rest: places(rest),
        }
    }

    /// Waits until `bytes` are free, and holds them; first come, first served. Waits for ever where the budget
    /// is smaller than that: use a deadline.
    pub async fn reserve(&self, bytes: usize) -> Option<HeldBytes> {
        let [beginning, rest] = parts(bytes).map(|places| u32::try_from(places).ok());
        Some(HeldBytes {
            beginning: Some(Arc::clone(&self.beginnings).acquire_many_owned(beginning?).await.ok()?),
            rest: Some(Arc::clone(&self.rest).acquire_many_owned(rest?).await.ok()?),
        })
    }
}

/// KiB of the beginning, and of the rest.
fn parts(bytes: usize) -> [usize; 2] {
    [
        bytes.min(BEGINNING).div_ceil(KIB),
        bytes.saturating_sub(BEGINNING).div_ceil(KIB),
    ]
}

/// Bytes of a budget that one request holds; released when dropped.
#[derive(Debug, Default)]
pub struct HeldBytes {
    beginning: Option<OwnedSemaphorePermit>,
    rest: Option<OwnedSemaphorePermit>,
}

impl HeldBytes {
    /// Holds at least `bytes`. False where the budget does not suffice.
    #[must_use]
    pub fn raise_to(&mut self, bytes: usize, budget: &ByteBudget) -> bool {
        let [beginning, rest] = parts(bytes);
        raise(&mut self.beginning, beginning, &budget.beginnings) && raise(&mut self.rest, rest, &budget.rest)
    }
}

/// Raises what is held of some places to what is wanted. False where they do not suffice.
pub(super) fn raise(held: &mut Option<OwnedSemaphorePermit>, wanted: usize, places: &Arc<Semaphore>) -> bool {
    let more = wanted.saturating_sub(held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
    if more == 0 {
        return true;
    }
    let Some(permit) = u32::try_from(more)
        .ok()
        .and_then(|more| Arc::clone(places).try_acquire_many_owned(more).ok())
    else {
        return false;
    };
    match held {
        Some(held) => held.merge(permit),
        None => *held = Some(permit),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_ones_leave_room_for_small_ones_and_give_back_what_they_held() {
        let budget = ByteBudget::new(256 << 10, 1 << 20);
        let (mut large, mut other, mut small) = (HeldBytes::default(), HeldBytes::default(), HeldBytes::default());
        assert!(large.raise_to(500 << 10, &budget) && large.raise_to(1 << 20, &budget));
        assert!(large.raise_to(10, &budget), "holds more already");
        assert!(!other.raise_to(200 << 10, &budget));
        assert!(other.raise_to(128 << 10, &budget) && small.raise_to(60 << 10, &budget));
        assert!(!HeldBytes::default().raise_to(usize::MAX, &budget));
        drop(large);
        assert!(other.raise_to(1 << 20, &budget));
    }
}
