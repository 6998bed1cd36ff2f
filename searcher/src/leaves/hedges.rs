//! How many calls may be made a second time before the first was answered: a share of all, so that leaves that are slow
//! because they have too much to do do not get more.

use std::sync::atomic::{AtomicU64, Ordering};

/// One of so many calls.
const SHARE: u64 = 20;
/// Second calls that are allowed from the start, and saved up at most.
const BURST: u64 = 10;

/// Counts calls and second calls.
#[derive(Debug)]
pub(crate) struct Hedges {
    /// What is saved, in parts of a second call of which [`SHARE`] make one.
    saved: AtomicU64,
    made: AtomicU64,
}

impl Default for Hedges {
    fn default() -> Self {
        Self {
            saved: AtomicU64::new(BURST * SHARE),
            made: AtomicU64::new(0),
        }
    }
}

impl Hedges {
    /// A call was made.
    pub(crate) fn count_call(&self) {
        let more = |saved: u64| Some((saved + 1).min(BURST * SHARE));
        // The function never refuses.
        _ = self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Whether a second call may be made now, which is then counted.
    pub(crate) fn take(&self) -> bool {
        let less = |saved: u64| saved.checked_sub(SHARE);
        let is_allowed = self
            .saved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok();
        self.made.fetch_add(u64::from(is_allowed), Ordering::Relaxed);
        is_allowed
    }

    /// Second calls that were made.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_calls_are_a_share_of_all() {
        let hedges = Hedges::default();
        let at_first = (0..100).filter(|_| hedges.take()).count() as u64;
        assert_eq!(at_first, BURST);
        let mut later = 0;
        for _ in 0..1000 {
            hedges.count_call();
            later += u64::from(hedges.take());
        }
        assert_eq!(later, 1000 / SHARE);
        // A long quiet time saves no more than the burst.
        for _ in 0..100_000 {
            hedges.count_call();
        }
        assert_eq!((0..100).filter(|_| hedges.take()).count() as u64, BURST);
        assert_eq!(hedges.made(), 2 * BURST + 1000 / SHARE);
    }
}
