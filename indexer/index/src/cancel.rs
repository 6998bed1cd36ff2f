//! How long work is ended before its end.

use std::sync::atomic::{AtomicBool, Ordering};

/// Asked now and then by long work, which ends soon after the first yes.
pub trait Cancel: Sync {
    /// Whether to end.
    fn is_cancelled(&self) -> bool;
}

/// Work that nobody ends.
#[derive(Debug, Clone, Copy)]
pub struct Never;

impl Cancel for Never {
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// A flag that somebody sets.
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
