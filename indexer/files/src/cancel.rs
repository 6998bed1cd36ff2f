//! Cancellation of long-running work.

use std::sync::atomic::{AtomicBool, Ordering};

/// Polled by long-running work, which ends soon after it is cancelled.
pub trait Cancel: Sync {
    /// Whether the work was cancelled.
    fn is_cancelled(&self) -> bool;
}

/// What is never cancelled.
#[derive(Debug, Clone, Copy)]
pub struct Never;

impl Cancel for Never {
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// A flag that another thread sets.
impl Cancel for AtomicBool {
    fn is_cancelled(&self) -> bool {
        self.load(Ordering::Relaxed)
    }
}

impl<F: Fn() -> bool + Sync> Cancel for F {
    fn is_cancelled(&self) -> bool {
        self()
    }
}
