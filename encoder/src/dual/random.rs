//! Random values of new tensors: the same for a seed on every machine.

/// A sample is drawn anew beyond so many standard deviations.
const CUT: f64 = 2.0;
/// Standard deviation of a standard normal that is cut there.
const CUT_DEVIATION: f64 = 0.879_625_661_034_239_8;

/// splitmix64 (Steele, Lea and Flood 2014): the same values everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream of a seed and a number: that of the seed itself for 0. The others begin at a hash: seeds that differ by the
    /// generator's own step would give one stream, shifted by a value.
    pub(super) fn numbered(seed: u64, number: u64) -> Self {
        if number == 0 { Self(seed) } else { Self(dyad_corpus::random::Random::of(&[seed, number]).bits()) }
    }

    /// In (0, 1].
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Between -`bound` and `bound`.
    pub(crate) fn uniform(&mut self, bound: f64) -> f64 {
        (2.0 * self.unit() - 1.0) * bound
    }

    /// A normal value (Box and Muller 1958) that has `deviation` after it was cut at [`CUT`] deviations of the whole one.
    pub(super) fn cut_normal(&mut self, deviation: f64) -> f64 {
        loop {
            let (radius, angle) = ((-2.0 * self.unit().ln()).sqrt(), std::f64::consts::TAU * self.unit());
            let value = radius * angle.cos();
            if value.abs() <= CUT {
                return value * (deviation / CUT_DEVIATION);
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
    fn projections_are_drawn_with_the_variance_that_was_asked_for() {
        let mut random = Random::new(7);
        let values: Vec<f64> = (0..200_000).map(|_| random.cut_normal(3.0)).collect();
        let (mean, deviation) = moments(&values);
        assert!(mean.abs() < 0.03 && (deviation - 3.0).abs() < 0.02, "{mean} {deviation}");
        assert!(values.iter().all(|value| value.abs() <= CUT * 3.0 / CUT_DEVIATION));
    }

    #[test]
    fn streams_of_one_seed_have_no_value_in_common() {
        let values = |mut random: Random| -> Vec<u64> { (0..1000).map(|_| random.unit().to_bits()).collect() };
        for seed in [0, 1, u64::MAX] {
            assert_eq!(values(Random::numbered(seed, 0)), values(Random::new(seed)));
            let streams = [0, 1, 2].map(|number| values(Random::numbered(seed, number)));
            let all: std::collections::HashSet<u64> = streams.iter().flatten().copied().collect();
            assert_eq!(all.len(), 3000, "of seed {seed}");
        }
    }

    #[test]
    fn uniform_values_fill_their_bounds() {
        let mut random = Random::new(7);
        let values: Vec<f64> = (0..200_000).map(|_| random.uniform(0.5)).collect();
        let (mean, deviation) = moments(&values);
        assert!(mean.abs() < 0.005 && (deviation - 1.0 / 12f64.sqrt()).abs() < 0.005, "{mean} {deviation}");
        assert!(values.iter().all(|value| value.abs() <= 0.5) && values.iter().any(|value| *value < -0.49));
    }
}
