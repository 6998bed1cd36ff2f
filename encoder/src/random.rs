//! Random numbers that are the same on every machine: streams of `SplitMix64` (Steele, Lea and Flood 2014).
//!
//! The order of batches is part of a run that may go on, so what is made of the stream here stays as it is.

use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;
use sha2::{Digest as _, Sha256};

/// The generator's own step.
#[cfg(feature = "train")]
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// A truncated normal value farther out than this many standard deviations is taken again.
const TRUNCATION: f64 = 2.0;
/// Standard deviation of a standard normal that is truncated there.
const TRUNCATED_DEVIATION: f64 = 0.879_625_661_034_239_8;

/// A stream of random numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Random(SplitMix64);

impl Random {
    /// The stream of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// A stream of its own for each list of numbers, as (seed, epoch, example).
    #[cfg(feature = "train")]
    pub(crate) fn of(numbers: &[u64]) -> Self {
        let mix = |state: u64| Self::new(state.wrapping_sub(STEP)).bits();
        Self::new(
            numbers
                .iter()
                .fold(STEP, |state, &number| mix(state ^ number).wrapping_add(STEP)),
        )
    }

    /// A stream of its own for each seed and name: of a tensor, in whatever order tensors are made.
    pub(crate) fn named(seed: u64, name: &str) -> Self {
        let digest = Sha256::new()
            .chain_update(seed.to_le_bytes())
            .chain_update(name)
            .finalize();
        let mut start = [0; 8];
        start.iter_mut().zip(digest).for_each(|(to, byte)| *to = byte);
        Self::new(u64::from_le_bytes(start))
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..limit` without bias (Lemire 2019); 0 where `limit` is.
    #[cfg(feature = "train")]
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = limit as u64;
        if limit == 0 {
            return 0;
        }
        let threshold = limit.wrapping_neg() % limit;
        loop {
            let product = u128::from(self.bits()) * u128::from(limit);
            if product as u64 >= threshold {
                return (product >> 64) as usize;
            }
        }
    }

    /// Uniform in `[0, 1)`, 53 bits.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Between -`bound` and `bound`.
    pub(crate) fn uniform(&mut self, bound: f64) -> f64 {
        (1.0 - 2.0 * self.unit()) * bound
    }

    /// A standard normal value (Box and Muller 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let (radius, angle) = (
            (-2.0 * (1.0 - self.unit()).ln()).sqrt(),
            std::f64::consts::TAU * self.unit(),
        );
        radius * angle.cos()
    }

    /// A normal value truncated at [`TRUNCATION`] deviations; `deviation` is that of what is left.
    pub(crate) fn truncated_normal(&mut self, deviation: f64) -> f64 {
        loop {
            let value = self.normal();
            if value.abs() <= TRUNCATION {
                return value * (deviation / TRUNCATED_DEVIATION);
            }
        }
    }

    /// Puts `items` into a random order (Fisher and Yates).
    #[cfg(feature = "train")]
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

#[cfg(all(test, feature = "train"))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_stream_is_that_of_splitmix64() {
        // The reference values of seed 1234567 at https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64
        let mut random = Random::new(1_234_567);
        let values: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        assert_eq!(
            values,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn every_order_is_equally_likely() {
        let mut random = Random::new(7);
        let mut orders: BTreeMap<[u8; 3], u32> = BTreeMap::new();
        for _ in 0..60_000 {
            let mut items = [0, 1, 2];
            random.shuffle(&mut items);
            *orders.entry(items).or_default() += 1;
        }
        assert_eq!(orders.len(), 6);
        assert!(
            orders.values().all(|&count| (9_600..10_400).contains(&count)),
            "{orders:?}"
        );
    }

    #[test]
    fn lists_of_numbers_have_streams_of_their_own() {
        let first = |numbers: &[u64]| Random::of(numbers).bits();
        let all = [
            first(&[0]),
            first(&[0, 0]),
            first(&[0, 1]),
            first(&[1, 0]),
            first(&[1]),
            first(&[]),
        ];
        for (at, value) in all.iter().enumerate() {
            assert!(!all[at + 1..].contains(value), "{at}");
        }
    }

    #[test]
    fn normal_values_have_mean_zero_and_deviation_one() {
        let mut random = Random::new(1);
        let values: Vec<f64> = (0..100_000).map(|_| random.normal()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }

    #[test]
    fn streams_stay_as_they_are() {
        // By the release before this generator came from a crate.
        assert_eq!(Random::of(&[1, 2, 3]).bits(), 3_802_744_409_056_513_856);
    }

    fn moments(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn truncated_values_have_the_deviation_that_was_asked_for() {
        let mut stream = Random::named(7, "a");
        let values: Vec<f64> = (0..200_000).map(|_| stream.truncated_normal(3.0)).collect();
        let (mean, deviation) = moments(&values);
        assert!(
            mean.abs() < 0.03 && (deviation - 3.0).abs() < 0.02,
            "{mean} {deviation}"
        );
        assert!(
            values
                .iter()
                .all(|value| value.abs() <= TRUNCATION * 3.0 / TRUNCATED_DEVIATION)
        );
    }

    #[test]
    fn every_seed_and_name_has_a_stream_of_its_own() {
        let values = |seed, name: &str| -> Vec<u64> {
            let mut stream = Random::named(seed, name);
            (0..1000).map(|_| stream.bits()).collect()
        };
        let streams = [
            values(0, "a"),
            values(0, "b"),
            values(1, "a"),
            values(u64::MAX, "a"),
            values(0, ""),
        ];
        let all: std::collections::HashSet<u64> = streams.iter().flatten().copied().collect();
        assert_eq!(all.len(), 5000);
        assert_eq!(values(1, "a"), streams[2]);
    }

    #[test]
    fn uniform_values_fill_their_bounds() {
        let mut stream = Random::named(7, "a");
        let values: Vec<f64> = (0..200_000).map(|_| stream.uniform(0.5)).collect();
        let (mean, deviation) = moments(&values);
        assert!(
            mean.abs() < 0.005 && (deviation - 1.0 / 12f64.sqrt()).abs() < 0.005,
            "{mean} {deviation}"
        );
        assert!(values.iter().all(|value| value.abs() <= 0.5) && values.iter().any(|value| *value < -0.49));
    }
}
