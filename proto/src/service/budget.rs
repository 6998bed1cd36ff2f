//! Memory that many requests share: each may take of it, and none may take all.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What counts as the beginning of a request or a reply.
const BEGINNING: usize = 64 << 10;
const KIB: usize = 1024;

/// Bytes for beginnings and for all that follows them, counted apart: small requests pass while large ones wait.
#[derive(Debug, Clone)]
pub struct ByteBudget {
    beginnings: Arc<Semaphore>,
    rest: Arc<Semaphore>,
}

impl ByteBudget {
    /// `beginnings` bytes for the first 64 KiB of every request, and `rest` bytes for all that follows them.
    pub fn new(beginnings: usize, rest: usize) -> Self {
        let places = |bytes: usize| Arc::new(Semaphore::new(bytes / KIB));
        Self { beginnings: places(beginnings), rest: places(rest) }
    }

    /// Waits until `bytes` are free, and holds them; first come, first served. A budget that never has as many lets wait for ever: give a deadline.
    pub async fn reserve(&self, bytes: usize) -> Option<HeldBytes> {
        let [beginning, rest] = parts(bytes).map(|places| u32::try_from(places).ok());
        Some(HeldBytes {
            beginning: Some(Arc::clone(&self.beginnings).acquire_many_owned(beginning?).await.ok()?),
            rest: Some(Arc::clone(&self.rest).acquire_many_owned(rest?).await.ok()?),
        })
    }
}

/// Places for the beginning, and for what follows it.
fn parts(bytes: usize) -> [usize; 2] {
    [bytes.min(BEGINNING).div_ceil(KIB), bytes.saturating_sub(BEGINNING).div_ceil(KIB)]
}

/// What one request holds of a budget; given back when it is dropped.
#[derive(Debug, Default)]
pub struct HeldBytes {
    beginning: Option<OwnedSemaphorePermit>,
    rest: Option<OwnedSemaphorePermit>,
}

impl HeldBytes {
    /// Holds at least `bytes`. False where the budget has not as many left.
    #[must_use]
    pub fn raise_to(&mut self, bytes: usize, budget: &ByteBudget) -> bool {
        let [beginning, rest] = parts(bytes);
        raise(&mut self.beginning, beginning, &budget.beginnings) && raise(&mut self.rest, rest, &budget.rest)
    }
}

fn raise(held: &mut Option<OwnedSemaphorePermit>, wanted: usize, places: &Arc<Semaphore>) -> bool {
    let more = wanted.saturating_sub(held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
    if more == 0 {
        return true;
    }
    let Some(permit) = u32::try_from(more).ok().and_then(|more| Arc::clone(places).try_acquire_many_owned(more).ok())
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
