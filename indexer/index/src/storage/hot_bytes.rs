//! Whether what searches read at random of all open shards fits into memory: it decides how the kernel is to cache it.
//!
//! Where it fits, huge pages save TLB misses. Where it does not, each of them that is read from the disk drives two
//! megabytes out for the few hundred bytes that are needed: a third of the memory of an index of 300,000 vectors
//! answered a question in 77 ms with huge pages, with small ones in 5 ms, and in 2.5 where rows are asked for before
//! they are read (`dyad-bench ann --memory-limit`, see `benches/records/ann/README.md`, "Memory for a third of the
//! index").

use std::sync::atomic::{AtomicU64, Ordering};

use dyad_files::memory::ProcessMemoryLimit;

/// Up to this sum nobody asks for the limit: opening a small shard reads no more files than its own.
const SMALL: u64 = 32 << 20;

/// Of all open shards of this process.
static OPEN: AtomicU64 = AtomicU64::new(0);

/// The bytes of one shard, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct HotBytes {
    bytes: u64,
    fit: bool,
}

impl HotBytes {
    pub(crate) fn add(bytes: u64) -> Self {
        let sum = OPEN.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let fit = sum <= SMALL || ProcessMemoryLimit::of_system().is_none_or(|limit| fit(sum, &limit));
        Self { bytes, fit }
    }

    /// Whether they fitted into memory, next to those of the shards that were open before.
    pub(crate) fn fit(&self) -> bool {
        self.fit
    }
}

impl Drop for HotBytes {
    fn drop(&mut self) {
        OPEN.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A quarter is left for vectors and the process's own memory.
fn fit(bytes: u64, limit: &ProcessMemoryLimit) -> bool {
    bytes <= limit.bytes.saturating_sub(limit.others) / 4 * 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_hold_and_a_quarter_are_left_free() {
        let limit = ProcessMemoryLimit {
            bytes: 1_000,
            source: String::new(),
            others: 200,
        };
        assert!(fit(600, &limit) && !fit(601, &limit));
        assert!(!fit(1, &ProcessMemoryLimit { others: 2_000, ..limit }));
    }

    #[test]
    fn shards_count_until_they_are_dropped() {
        let first = HotBytes::add(u64::MAX / 4);
        let second = HotBytes::add(5);
        assert!(!first.fit() && !second.fit());
        drop(first);
        assert!(HotBytes::add(1).fit());
    }
}
