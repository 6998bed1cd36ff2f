//! A seeded orthogonal transform: random signs and Hadamard transforms, four times.
//!
//! A Hadamard transform of `d` values takes `d log d` additions, a random orthogonal matrix `d * d` multiplications
//! (fast Johnson-Lindenstrauss transform: Ailon and Chazelle 2006). Where `d` is not a power of two, the largest power
//! of two below it is transformed, at the front and at the back in turn, and halves are mixed by Kac steps.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use crate::kernels::{block_of_round, kernels, rotate_back};

/// Rounds: after four, one coordinate's energy is spread over all others for every dimension.
const ROUNDS: usize = 4;

/// An orthogonal transform of vectors of `dim` values. Lengths and inner products stay what they are, up to rounding.
#[derive(Debug, Clone, PartialEq)]
pub struct Rotation {
    dim: usize,
    block: usize,
    /// 1 or -1, divided by the square root of the block's length where the transform follows; by round.
    signs: Vec<f32>,
    seed: u64,
}

impl Rotation {
    /// The transform of a seed: the same on every machine.
    pub fn new(dim: usize, seed: u64) -> Self {
        let block = if dim == 0 { 0 } else { 1 << dim.ilog2() };
        let scale = 1.0 / (block.max(1) as f32).sqrt();
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut signs = Vec::with_capacity(ROUNDS * dim);
        for round in 0..ROUNDS {
            let inside = block_of_round(round, dim, block);
            for at in 0..dim {
                let sign = if random.next_u64() >> 63 == 0 { 1.0 } else { -1.0 };
                signs.push(if inside.contains(&at) { sign * scale } else { sign });
            }
        }
        Self {
            dim,
            block,
            signs,
            seed,
        }
    }

    /// Its seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Transforms `values` in place; other lengths than `dim` are left alone.
    pub fn apply(&self, values: &mut [f32]) {
        if values.len() == self.dim {
            (kernels().rotate)(&self.signs, self.block, values);
        }
    }

    /// Transforms `values` back, up to rounding; other lengths than `dim` are left alone.
    pub fn undo(&self, values: &mut [f32]) {
        if values.len() == self.dim {
            rotate_back(&self.signs, self.block, values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signs decide what sketches on disk mean: a stream that differs would make every index unreadable without a
    /// word. The first three values of `splitmix64.c` (Vigna 2015) with state 1234567 are known from
    /// <https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64>.
    #[test]
    fn signs_are_those_of_indexes_on_disk() {
        let mut random = SplitMix64::seed_from_u64(1_234_567);
        let values = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(values.map(|_| random.next_u64()), values);
        let signs: Vec<bool> = Rotation::new(4, 42).signs.iter().map(|sign| *sign > 0.0).collect();
        // Of the same program with state 42: whether the first bit of a value is 0, four rounds of four.
        let expected = ["-+++", "+-+-", "+-++", "---+"].concat();
        assert_eq!(signs, expected.chars().map(|sign| sign == '+').collect::<Vec<bool>>());
    }
}
