//! Numbers that are drawn to choose among leaves: other ones in each root, so that not all take the same leaf.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// The step of `SplitMix64`.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of numbers.
#[derive(Debug)]
pub(crate) struct Draws(AtomicU64);

impl Default for Draws {
    fn default() -> Self {
        Self::new(RandomState::new().hash_one(0_u8))
    }
}

impl Draws {
    /// The sequence of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next number (`SplitMix64`; Steele, Lea and Flood 2014).
    pub(crate) fn next(&self) -> u64 {
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below another one; 0 where that is 0.
    pub(crate) fn below(&self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }
}
