//! Rows to test with, the same in every run, and the lengths.

use std::ops::RangeInclusive;

/// Every length from none to past a thousand, so that every remainder is covered.
pub(super) const LENGTHS: RangeInclusive<usize> = 0..=1030;
/// Values before the first one, so that rows start at every alignment that matters.
pub(super) const STARTS: [usize; 3] = [0, 1, 3];
/// Values that a row needs for all lengths and starts.
pub(super) const LONGEST: usize = 1030 + 3;

/// A xorshift generator (Marsaglia 2003).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.bits() >> 33) as usize % limit
    }

    /// In -1.0..1.0.
    pub(super) fn float(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}
