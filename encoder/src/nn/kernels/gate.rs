//! The gate of a feed-forward block (Shazeer 2020): one half of the values, activated, times the other.

use std::arch::x86_64::_mm512_mul_ps;

use super::activation::activate;
use super::simd::{Avx512, LANES, load, store};
use crate::config::HiddenActivation;
use crate::nn::exec::Exec;

/// Values from which work is shared: some 20 microseconds of one core.
const SHARED: usize = 1 << 15;

/// Which half gates the other, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gating {
    /// Values of a half.
    pub(super) half: usize,
    pub(super) activation: HiddenActivation,
    /// Whether the second half is activated.
    pub(super) second: bool,
}

/// Rows `[n, 2 half]` to `[n, half]`; a half is a multiple of 16.
#[expect(
    unsafe_code,
    reason = "calls a function compiled for AVX-512, after the processor was checked"
)]
pub(super) fn gate(_: Avx512, exec: Exec, rows: &[f32], outputs: &mut [f32], gating: Gating) {
    let half = gating.half;
    let parts = exec.pieces(outputs.len(), SHARED);
    let some = (outputs.len() / half).div_ceil(parts).max(1);
    let pieces = rows.chunks(2 * some * half).zip(outputs.chunks_mut(some * half));
    exec.share(pieces, |(rows, outputs)| {
        for (row, output) in rows.chunks_exact(2 * half).zip(outputs.chunks_exact_mut(half)) {
            let (first, second) = row.split_at(half);
            let halves = if gating.second {
                [second, first]
            } else {
                [first, second]
            };
            // SAFETY: the processor has AVX-512F, as the first argument says.
            unsafe { one(gating.activation, halves, output) }
        }
    });
}

#[target_feature(enable = "avx512f")]
fn one(activation: HiddenActivation, [gate, gated]: [&[f32]; 2], output: &mut [f32]) {
    let (gate, _) = gate.as_chunks::<LANES>();
    let (gated, _) = gated.as_chunks::<LANES>();
    let (output, _) = output.as_chunks_mut::<LANES>();
    for ((gate, gated), output) in gate.iter().zip(gated).zip(output) {
        store(output, _mm512_mul_ps(activate(activation, load(gate)), load(gated)));
    }
}

#[cfg(test)]
mod tests {
    use tch::{Kind, Tensor};

    use super::*;
    use crate::nn::KernelPool;

    #[test]
    fn one_half_gates_the_other_as_torch_computes_it() {
        let Some(here) = Avx512::found() else {
            println!("skipped: this processor has no AVX-512");
            return;
        };
        let (count, half) = (701, 48);
        let rows: Vec<f32> = (0..count * 2 * half)
            .map(|place| (place as f32 * 0.37).sin() * 4.0)
            .collect();
        let exact = Tensor::from_slice(&rows)
            .to_kind(Kind::Double)
            .view([count as i64, 2, half as i64]);
        let halves = [exact.select(1, 0), exact.select(1, 1)];
        for (activation, second) in [(HiddenActivation::Silu, false), (HiddenActivation::Gelu, true)] {
            let [gate, gated] = if second {
                [&halves[1], &halves[0]]
            } else {
                [&halves[0], &halves[1]]
            };
            let activated = match activation {
                HiddenActivation::Silu => gate.silu(),
                _ => gate.gelu("none"),
            };
            let expected = Vec::<f64>::try_from((activated * gated).flatten(0, -1)).unwrap();
            let gating = Gating {
                half,
                activation,
                second,
            };
            let mut alone = vec![f32::NAN; count * half];
            super::gate(here, Exec::ONE_THREAD, &rows, &mut alone, gating);
            let mut shared = vec![f32::NAN; count * half];
            KernelPool::awake(3).run(|| super::gate(here, Exec::SHARED, &rows, &mut shared, gating));
            assert_eq!(alone, shared);
            let near = |(got, expected): (&f32, &f64)| (f64::from(*got) - expected).abs() < 1e-5;
            assert!(alone.iter().zip(&expected).all(near), "{activation:?}");
        }
    }
}
