//! Inner products, chosen once for the machine.
//!
//! | file | what lives there |
//! |---|---|
//! | `scalar.rs` | plain Rust: the oracle and the fallback |
//! | `x86.rs` | AVX2+FMA and AVX-512F, the same loop compiled for wider registers |

mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::OnceLock;

/// The kernels of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Kernels {
    /// Name of the instruction set: `scalar`, `avx2` or `avx512`.
    pub name: &'static str,
    /// Inner product of two rows; of the shorter length where they differ.
    pub dot: fn(&[f32], &[f32]) -> f32,
}

/// Plain Rust, on every machine: what the others are tested against.
pub const SCALAR: Kernels = Kernels { name: "scalar", dot: scalar::dot };

/// The fastest kernels that this processor has; found once, at the first call.
pub fn kernels() -> &'static Kernels {
    static CHOSEN: OnceLock<Kernels> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        if let Some(found) = x86::detect() {
            return found;
        }
        SCALAR
    })
}

/// Inner product of two rows of the same length.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    (kernels().dot)(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(dim: usize, seed: u64) -> (Vec<f32>, Vec<f32>) {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        (0..dim).map(|_| (next(), next())).unzip()
    }

    /// Every kernel of this machine against an f64 sum, for every dimension 0..=1030 and unaligned starts.
    #[test]
    fn dot_agrees_with_the_f64_oracle() {
        for dim in 0..=1030 {
            let (a, b) = rows(dim + 1, dim as u64);
            for start in 0..=usize::from(dim > 0) {
                let (a, b) = (&a[start..dim], &b[start..dim]);
                let exact: f64 = a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
                for kernels in [*kernels(), SCALAR] {
                    let got = f64::from((kernels.dot)(a, b));
                    assert!(
                        (got - exact).abs() <= 1e-5 * (1.0 + dim as f64 / 8.0),
                        "{} at {dim}: {got} {exact}",
                        kernels.name
                    );
                }
            }
        }
    }

    #[test]
    fn different_lengths_use_the_shorter() {
        assert_eq!(dot(&[1.0, 2.0, 3.0], &[4.0, 5.0]).to_bits(), 14.0f32.to_bits());
        assert_eq!(dot(&[], &[1.0]).to_bits(), 0.0f32.to_bits());
    }
}
