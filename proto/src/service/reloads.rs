//! Files that were read again because they had changed: how often, and whether what they are now is in use.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::follow::Look;

/// Counts of one kind of file.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    pub(super) taken_over: AtomicU64,
    /// Changes that could not be taken over when they were seen.
    pub(super) failed: AtomicU64,
    /// The files are otherwise than what is in use.
    pub(super) are_stale: AtomicBool,
}

impl Reloads {
    /// Counts a try.
    pub(super) fn count<T, E>(&self, reloaded: &Result<T, E>, look: Look) {
        self.are_stale.store(reloaded.is_err(), Ordering::Relaxed);
        match (reloaded, look) {
            (Ok(_), _) => self.taken_over.fetch_add(1, Ordering::Relaxed),
            (Err(_), Look::Changed) => self.failed.fetch_add(1, Ordering::Relaxed),
            (Err(_), Look::Retry) => 0,
        };
    }
}
