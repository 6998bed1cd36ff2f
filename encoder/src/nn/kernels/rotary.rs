//! Rotation of queries and keys by their positions (Su et al. 2021), after their norms where they have some: once
//! through memory, where torch's operators pass a dozen times.

use std::arch::x86_64::{
    __m512, _mm512_fmadd_ps, _mm512_fmsub_ps, _mm512_mul_ps, _mm512_reduce_add_ps, _mm512_set1_ps, _mm512_setzero_ps,
};

use super::Heads;
use super::simd::{Avx512, LANES, load, store};
use crate::nn::exec::Exec;

/// Values from which work is shared: some 20 microseconds of one core.
const SHARED: usize = 1 << 16;

/// Norms of queries and keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeadScales<'a> {
    /// What the values of a query, and of a key, are multiplied with.
    pub(super) query: &'a [f32],
    pub(super) key: &'a [f32],
    /// Added to the mean of squares.
    pub(super) epsilon: f32,
}

/// Tokens with the angles of their positions.
#[derive(Debug, Clone, Copy)]
pub(super) struct RotaryInput<'a> {
    /// `[t, width]`: queries, keys and values.
    pub(super) rows: &'a [f32],
    /// `[t, size / 2]`.
    pub(super) cosines: &'a [f32],
    /// `[t, size / 2]`.
    pub(super) sines: &'a [f32],
    pub(super) scales: Option<HeadScales<'a>>,
}

/// As [`super::rotate`], which has checked the sizes.
#[expect(
    unsafe_code,
    reason = "calls a function compiled for AVX-512, after the processor was checked"
)]
pub(super) fn rotate(_: Avx512, exec: Exec, heads: Heads, input: RotaryInput<'_>, outputs: &mut [f32]) {
    let (width, half) = (heads.width(), heads.size / 2);
    let parts = exec.pieces(outputs.len(), SHARED);
    let some = (outputs.len() / width).div_ceil(parts).max(1);
    let angles = input.cosines.chunks(some * half).zip(input.sines.chunks(some * half));
    let rows = input.rows.chunks(some * width).zip(outputs.chunks_mut(some * width));
    exec.share(rows.zip(angles), |((rows, outputs), (cosines, sines))| {
        let angles = cosines.chunks_exact(half).zip(sines.chunks_exact(half));
        let rows = rows.chunks_exact(width).zip(outputs.chunks_exact_mut(width));
        for ((row, output), (cosines, sines)) in rows.zip(angles) {
            // SAFETY: the processor has AVX-512F, as the first argument says.
            unsafe { one(heads, row, [cosines, sines], input.scales, output) }
        }
    });
}

/// One token.
#[target_feature(enable = "avx512f")]
fn one(heads: Heads, row: &[f32], angles: [&[f32]; 2], scales: Option<HeadScales<'_>>, output: &mut [f32]) {
    let rotated = (heads.count + heads.keys) * heads.size;
    let (values, others) = row.split_at(rotated);
    let (places, rest) = output.split_at_mut(rotated);
    rest.copy_from_slice(others);
    let pairs = values.chunks_exact(heads.size).zip(places.chunks_exact_mut(heads.size));
    for (number, (values, places)) in pairs.enumerate() {
        let norm = scales.map(|scales| {
            let weights = if number < heads.count { scales.query } else { scales.key };
            (weights, scales.epsilon)
        });
        head(values, angles, norm, places);
    }
}

/// One query or key: `[a, b]` to `[a cos - b sin, b cos + a sin]`.
#[inline]
#[target_feature(enable = "avx512f")]
fn head(values: &[f32], [cosines, sines]: [&[f32]; 2], norm: Option<(&[f32], f32)>, places: &mut [f32]) {
    let (values, _) = values.as_chunks::<LANES>();
    let (places, _) = places.as_chunks_mut::<LANES>();
    let half = values.len() / 2;
    let (cosines, _) = cosines.as_chunks::<LANES>();
    let (sines, _) = sines.as_chunks::<LANES>();
    let by = norm.map(|(_, epsilon)| {
        let mut squares = _mm512_setzero_ps();
        for values in values {
            let value = load(values);
            squares = _mm512_fmadd_ps(value, value, squares);
        }
        let mean = _mm512_reduce_add_ps(squares) / (values.len() * LANES) as f32;
        _mm512_set1_ps((mean + epsilon).sqrt().recip())
    });
    for at in 0..half {
        let [mut a, mut b]: [__m512; 2] = [load(&values[at]), load(&values[half + at])];
        if let (Some(by), Some((weights, _))) = (by, norm) {
            let (weights, _) = weights.as_chunks::<LANES>();
            a = _mm512_mul_ps(_mm512_mul_ps(a, by), load(&weights[at]));
            b = _mm512_mul_ps(_mm512_mul_ps(b, by), load(&weights[half + at]));
        }
        let (cosine, sine) = (load(&cosines[at]), load(&sines[at]));
        store(&mut places[at], _mm512_fmsub_ps(a, cosine, _mm512_mul_ps(b, sine)));
        store(
            &mut places[half + at],
            _mm512_fmadd_ps(b, cosine, _mm512_mul_ps(a, sine)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AttentionReach;
    use crate::nn::KernelPool;

    /// A head by the equation, in f64.
    fn slow(values: &[f32], angles: [&[f32]; 2], norm: Option<(&[f32], f32)>) -> Vec<f64> {
        let mut values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
        if let Some((weights, epsilon)) = norm {
            let mean = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
            let by = (mean + f64::from(epsilon)).sqrt().recip();
            for (value, weight) in values.iter_mut().zip(weights) {
                *value *= by * f64::from(*weight);
            }
        }
        let half = values.len() / 2;
        let at = |place: usize, of: usize| f64::from(angles[of][place]);
        let first = (0..half).map(|i| values[i] * at(i, 0) - values[half + i] * at(i, 1));
        let second = (0..half).map(|i| values[half + i] * at(i, 0) + values[i] * at(i, 1));
        first.chain(second).collect()
    }

    #[test]
    fn queries_and_keys_are_rotated_as_the_paper_says() {
        let Some(here) = Avx512::found() else {
            println!("skipped: this processor has no AVX-512");
            return;
        };
        let heads = Heads {
            count: 3,
            keys: 1,
            size: 64,
            scale: 1.0,
            reach: AttentionReach::ALL,
        };
        let (tokens, width) = (301, heads.width());
        let value = |place: usize| (place as f32 * 0.61).sin() * 3.0;
        let rows: Vec<f32> = (0..tokens * width).map(value).collect();
        let cosines: Vec<f32> = (0..tokens * 32).map(|place| (place as f32 * 0.1).cos()).collect();
        let sines: Vec<f32> = (0..tokens * 32).map(|place| (place as f32 * 0.1).sin()).collect();
        let (query, key): (Vec<f32>, Vec<f32>) = (0..64).map(|place| (value(place + 3), value(place + 99))).unzip();
        let scales = HeadScales {
            query: &query,
            key: &key,
            epsilon: 1e-6,
        };
        for scales in [None, Some(scales)] {
            let input = RotaryInput {
                rows: &rows,
                cosines: &cosines,
                sines: &sines,
                scales,
            };
            let mut alone = vec![f32::NAN; rows.len()];
            rotate(here, Exec::ONE_THREAD, heads, input, &mut alone);
            let mut shared = vec![f32::NAN; rows.len()];
            KernelPool::awake(3).run(|| rotate(here, Exec::SHARED, heads, input, &mut shared));
            assert_eq!(alone, shared);
            for (token, (row, got)) in rows.chunks(width).zip(alone.chunks(width)).enumerate() {
                let angles = [&cosines, &sines].map(|all| &all[token * 32..][..32]);
                for (number, (values, got)) in row.chunks(64).zip(got.chunks(64)).enumerate() {
                    let norm = scales.map(|scales| {
                        let weights = if number < 3 { scales.query } else { scales.key };
                        (weights, scales.epsilon)
                    });
                    let expected = match number {
                        0..4 => slow(values, angles, norm),
                        _ => values.iter().map(|value| f64::from(*value)).collect(),
                    };
                    let near = |(got, expected): (&f32, &f64)| (f64::from(*got) - expected).abs() < 1e-4;
                    assert!(got.iter().zip(&expected).all(near), "token {token}, head {number}");
                }
            }
        }
    }
}
