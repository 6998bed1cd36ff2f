//! Layer normalisation of a sum, and normalisation by root mean square: once through memory, where torch's operators
//! pass several times.

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_mul_ps, _mm512_reduce_add_ps, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_sub_ps,
};

use super::simd::{Avx512, LANES, load, store};
use crate::nn::exec::Exec;

/// Values from which work is shared: some 20 microseconds of one core.
const SHARED: usize = 1 << 16;

/// Scale of the normalised values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale<'a> {
    /// Both as long as a row.
    pub(super) weight: &'a [f32],
    pub(super) bias: &'a [f32],
    /// Added to the variance.
    pub(super) epsilon: f32,
}

/// `(x - mean(x)) / sqrt(var(x) + epsilon) * weight + bias` of each row of `x = rows + others`; rows are a multiple of
/// 16 long.
#[expect(
    unsafe_code,
    reason = "calls a function compiled for AVX-512, after the processor was checked"
)]
pub(super) fn normalise(_: Avx512, exec: Exec, rows: &[f32], others: &[f32], scale: Scale<'_>, outputs: &mut [f32]) {
    let width = scale.weight.len();
    let parts = exec.pieces(rows.len(), SHARED);
    let some = (rows.len() / width).div_ceil(parts).max(1) * width;
    let pieces = rows.chunks(some).zip(others.chunks(some)).zip(outputs.chunks_mut(some));
    exec.share(pieces, |((rows, others), outputs)| {
        let rows = rows.chunks_exact(width).zip(others.chunks_exact(width));
        for ((row, other), output) in rows.zip(outputs.chunks_exact_mut(width)) {
            // SAFETY: the processor has AVX-512F, as the first argument says.
            unsafe { one(row, other, scale, output) }
        }
    });
}

/// One row, the mean before the variance: a large mean costs no digits.
#[target_feature(enable = "avx512f")]
fn one(row: &[f32], other: &[f32], scale: Scale<'_>, output: &mut [f32]) {
    let (row, _) = row.as_chunks::<LANES>();
    let (other, _) = other.as_chunks::<LANES>();
    let (weight, _) = scale.weight.as_chunks::<LANES>();
    let (bias, _) = scale.bias.as_chunks::<LANES>();
    let (output, _) = output.as_chunks_mut::<LANES>();
    let count = (output.len() * LANES) as f32;
    let mut sum = _mm512_setzero_ps();
    for ((output, row), other) in output.iter_mut().zip(row).zip(other) {
        let value = _mm512_add_ps(load(row), load(other));
        sum = _mm512_add_ps(sum, value);
        store(output, value);
    }
    let mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / count);
    let mut squares = _mm512_setzero_ps();
    for output in &*output {
        let value: __m512 = _mm512_sub_ps(load(output), mean);
        squares = _mm512_fmadd_ps(value, value, squares);
    }
    let by = _mm512_set1_ps((_mm512_reduce_add_ps(squares) / count + scale.epsilon).sqrt().recip());
    for ((output, weight), bias) in output.iter_mut().zip(weight).zip(bias) {
        let value = _mm512_mul_ps(_mm512_sub_ps(load(output), mean), by);
        store(output, _mm512_fmadd_ps(value, load(weight), load(bias)));
    }
}

/// `x / sqrt(mean(x^2) + epsilon) * weight` of each row (Zhang and Sennrich 2019, eq. 4); rows are a multiple of 16
/// long.
#[expect(
    unsafe_code,
    reason = "calls a function compiled for AVX-512, after the processor was checked"
)]
pub(super) fn root_mean_square(_: Avx512, exec: Exec, rows: &[f32], weight: &[f32], epsilon: f32, outputs: &mut [f32]) {
    let width = weight.len();
    let parts = exec.pieces(rows.len(), SHARED);
    let some = (rows.len() / width).div_ceil(parts).max(1) * width;
    exec.share(rows.chunks(some).zip(outputs.chunks_mut(some)), |(rows, outputs)| {
        for (row, output) in rows.chunks_exact(width).zip(outputs.chunks_exact_mut(width)) {
            // SAFETY: the processor has AVX-512F, as the first argument says.
            unsafe { one_root_mean_square(row, weight, epsilon, output) }
        }
    });
}

#[target_feature(enable = "avx512f")]
fn one_root_mean_square(row: &[f32], weight: &[f32], epsilon: f32, output: &mut [f32]) {
    let (row, _) = row.as_chunks::<LANES>();
    let (weight, _) = weight.as_chunks::<LANES>();
    let (output, _) = output.as_chunks_mut::<LANES>();
    let mut squares = _mm512_setzero_ps();
    for row in row {
        let value = load(row);
        squares = _mm512_fmadd_ps(value, value, squares);
    }
    let mean = _mm512_reduce_add_ps(squares) / (row.len() * LANES) as f32;
    let by = _mm512_set1_ps((mean + epsilon).sqrt().recip());
    for ((output, row), weight) in output.iter_mut().zip(row).zip(weight) {
        store(output, _mm512_mul_ps(_mm512_mul_ps(load(row), by), load(weight)));
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::*;
    use crate::nn::KernelPool;

    #[test]
    fn rows_are_those_of_torch_in_f64() {
        let Some(here) = Avx512::found() else {
            println!("skipped: this processor has no AVX-512");
            return;
        };
        tch::manual_seed(9);
        let values = |tensor: &Tensor| Vec::<f32>::try_from(tensor.flatten(0, -1)).unwrap();
        for (rows, width, mean) in [
            (0, 16, 0.0),
            (1, 16, 0.0),
            (7, 48, 3.0),
            (20, 384, -1.0),
            (3, 768, 100.0),
            (200, 384, 0.0),
        ] {
            let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
            let (x, other, weight, bias) = (
                draw(&[rows, width]) + mean,
                draw(&[rows, width]),
                draw(&[width]),
                draw(&[width]),
            );
            let mut got = vec![f32::NAN; (rows * width) as usize];
            let (of_weight, of_bias) = (values(&weight), values(&bias));
            let scale = Scale {
                weight: &of_weight,
                bias: &of_bias,
                epsilon: 1e-5,
            };
            let (of_x, of_other) = (values(&x), values(&other));
            KernelPool::awake(3).run(|| normalise(here, Exec::SHARED, &of_x, &of_other, scale, &mut got));
            let [x, other, weight, bias] = [x, other, weight, bias].map(|tensor| tensor.to_kind(Kind::Double));
            let expected = (x + other).layer_norm([width], Some(&weight), Some(&bias), 1e-5, false);
            let expected = Vec::<f64>::try_from(expected.flatten(0, -1)).unwrap();
            for (got, expected) in got.iter().zip(expected) {
                // What the sum loses of a mean of 100.
                assert!(
                    (f64::from(*got) - expected).abs() < 5e-5,
                    "{rows} x {width}: {got} {expected}"
                );
            }
        }
        // Rows without variance are the bias.
        let (mut flat, scale) = (
            [f32::NAN; 32],
            Scale {
                weight: &[2.0; 32],
                bias: &[0.25; 32],
                epsilon: 1e-12,
            },
        );
        normalise(here, Exec::ONE_THREAD, &[1.5; 32], &[-0.5; 32], scale, &mut flat);
        assert!(
            flat.iter().all(|value| value.to_bits() == 0.25_f32.to_bits()),
            "{flat:?}"
        );
    }

    #[test]
    fn root_mean_squares_are_those_of_the_equation() {
        let Some(here) = Avx512::found() else {
            println!("skipped: this processor has no AVX-512");
            return;
        };
        let (count, width) = (401, 208);
        let rows: Vec<f32> = (0..count * width)
            .map(|place| (place as f32 * 0.73).sin() * 9.0)
            .collect();
        let weight: Vec<f32> = (0..width).map(|place| (place as f32).cos()).collect();
        let mut got = vec![f32::NAN; rows.len()];
        KernelPool::awake(3).run(|| root_mean_square(here, Exec::SHARED, &rows, &weight, 1e-6, &mut got));
        for (row, got) in rows.chunks(width).zip(got.chunks(width)) {
            let mean = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / width as f64;
            let by = (mean + 1e-6).sqrt().recip();
            for ((value, weight), got) in row.iter().zip(&weight).zip(got) {
                let expected = f64::from(*value) * by * f64::from(*weight);
                assert!((f64::from(*got) - expected).abs() < 1e-5, "{got} {expected}");
            }
        }
    }
}
