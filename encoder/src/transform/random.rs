//! Random values of new tensors: the same for a seed and a name on every machine, in whatever order tensors are made.

use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use sha2::{Digest as _, Sha256};

/// A sample farther out than this many standard deviations is taken again.
const TRUNCATION: f64 = 2.0;
/// Standard deviation of a standard normal that is truncated there.
const TRUNCATED_DEVIATION: f64 = 0.879_625_661_034_239_8;

/// The values of one tensor.
#[derive(Debug, Clone)]
pub(crate) struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// A stream of its own for each seed and name.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        let digest = Sha256::new().chain_update(seed.to_le_bytes()).chain_update(name);
        Self(Xoshiro256PlusPlus::from_seed(digest.finalize().into()))
    }

    /// In (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Between -`bound` and `bound`.
    pub(crate) fn uniform(&mut self, bound: f64) -> f64 {
        (2.0 * self.unit() - 1.0) * bound
    }

    /// A normal value (Box and Muller 1958), truncated at [`TRUNCATION`] deviations; `deviation` is that of what is left.
    pub(crate) fn truncated_normal(&mut self, deviation: f64) -> f64 {
        loop {
            let (radius, angle) = ((-2.0 * self.unit().ln()).sqrt(), std::f64::consts::TAU * self.unit());
            let value = radius * angle.cos();
            if value.abs() <= TRUNCATION {
                return value * (deviation / TRUNCATED_DEVIATION);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn normal_values_have_the_deviation_that_was_asked_for() {
        let mut stream = Stream::new(7, "a");
        let values: Vec<f64> = (0..200_000).map(|_| stream.truncated_normal(3.0)).collect();
        let (mean, deviation) = moments(&values);
        assert!(mean.abs() < 0.03 && (deviation - 3.0).abs() < 0.02, "{mean} {deviation}");
        assert!(values.iter().all(|value| value.abs() <= TRUNCATION * 3.0 / TRUNCATED_DEVIATION));
    }

    #[test]
    fn every_seed_and_name_has_a_stream_of_its_own() {
        let values = |seed, name: &str| -> Vec<u64> {
            let mut stream = Stream::new(seed, name);
            (0..1000).map(|_| stream.unit().to_bits()).collect()
        };
        let streams = [values(0, "a"), values(0, "b"), values(1, "a"), values(u64::MAX, "a"), values(0, "")];
        let all: std::collections::HashSet<u64> = streams.iter().flatten().copied().collect();
        assert_eq!(all.len(), 5000);
        assert_eq!(values(1, "a"), streams[2]);
    }

    #[test]
    fn uniform_values_fill_their_bounds() {
        let mut stream = Stream::new(7, "a");
        let values: Vec<f64> = (0..200_000).map(|_| stream.uniform(0.5)).collect();
        let (mean, deviation) = moments(&values);
        assert!(mean.abs() < 0.005 && (deviation - 1.0 / 12f64.sqrt()).abs() < 0.005, "{mean} {deviation}");
        assert!(values.iter().all(|value| value.abs() <= 0.5) && values.iter().any(|value| *value < -0.49));
    }
}
