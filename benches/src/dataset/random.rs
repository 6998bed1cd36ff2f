//! Numbers that look random and are the same on every machine and thread count: every row has a generator of its own.

/// `SplitMix64` (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").
#[derive(Debug, Clone)]
pub(super) struct Random {
    state: u64,
    spare: Option<f64>,
}

impl Random {
    /// The generator of stream `stream` under a seed.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = Self { state: seed ^ 0x6479_6164_2062_656E, spare: None };
        let seed = mixed.next();
        let mut mixed = Self { state: seed ^ stream.wrapping_mul(0xD129_0D3F_5A2B_6E35), spare: None };
        let state = mixed.next();
        Self { state, spare: None }
    }

    /// 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Uniform in (0, 1].
    pub(super) fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal (Box and Muller 1958).
    pub(super) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        self.spare = Some(radius * sine);
        radius * cosine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.next(), random.next()]
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn normal_numbers_have_mean_0_and_variance_1() {
        let mut random = Random::new(7, 0);
        let n = 100_000;
        let values: Vec<f64> = (0..n).map(|_| random.normal()).collect();
        let mean = values.iter().sum::<f64>() / f64::from(n);
        let variance = values.iter().map(|value| value * value).sum::<f64>() / f64::from(n);
        let fourth = values.iter().map(|value| value.powi(4)).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02 && (fourth - 3.0).abs() < 0.15);
    }
}
