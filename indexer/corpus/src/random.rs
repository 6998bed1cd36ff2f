//! Random numbers that are the same on every machine: splitmix64 (Steele, Lea and Flood 2014).

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream of its own for each list of numbers, as (seed, epoch, example).
    pub fn of(numbers: &[u64]) -> Self {
        Self(numbers.iter().fold(STEP, |state, &number| mix(state ^ number).wrapping_add(STEP)))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Uniform in `0..limit` without bias (Lemire 2019); 0 where `limit` is.
    pub fn below(&mut self, limit: usize) -> usize {
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
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A standard normal value (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = ((-2.0 * (1.0 - self.unit()).ln()).sqrt(), std::f64::consts::TAU * self.unit());
        radius * angle.cos()
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

fn mix(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_stream_is_that_of_splitmix64() {
        // The reference values of seed 1234567 at https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64
        let mut random = Random::new(1_234_567);
        let values: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        assert_eq!(values, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
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
        assert!(orders.values().all(|&count| (9_600..10_400).contains(&count)), "{orders:?}");
    }

    #[test]
    fn lists_of_numbers_have_streams_of_their_own() {
        let first = |numbers: &[u64]| Random::of(numbers).bits();
        let all = [first(&[0]), first(&[0, 0]), first(&[0, 1]), first(&[1, 0]), first(&[1]), first(&[])];
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
}
