//! Inner product and squared distance over f32, inner product with f16, rotation: 32 values a round in four sums.

use std::arch::x86_64::{
    __m256, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_movehdup_ps, _mm_movehl_ps, _mm256_add_ps,
    _mm256_castps256_ps128, _mm256_cvtph_ps, _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_setzero_ps, _mm256_sub_ps,
};

use half::f16;
use zerocopy::transmute;

use crate::kernels::sums::padded_sums;

/// Values of one register.
const LANES: usize = 8;
/// Sums kept apart, so that the latency of the multiply-add is hidden.
const SUMS: usize = 4;

#[inline]
#[target_feature(enable = "avx2")]
fn load(values: &[f32; LANES]) -> __m256 {
    transmute!(*values)
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn load_f16(values: &[f16; LANES]) -> __m256 {
    _mm256_cvtph_ps(transmute!(*values))
}

#[inline]
#[target_feature(enable = "avx2")]
fn total(sums: [__m256; SUMS]) -> f32 {
    let [a, b, c, d] = sums;
    let eight = _mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d));
    let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

/// Inner product.
#[target_feature(enable = "avx2,fma")]
pub(in super::super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    total(padded_sums(a, b, _mm256_setzero_ps(), |sum, a, b| {
        _mm256_fmadd_ps(load(a), load(b), sum)
    }))
}

/// Squared Euclidean distance.
#[target_feature(enable = "avx2,fma")]
pub(in super::super) fn squared_l2(a: &[f32], b: &[f32]) -> f32 {
    total(padded_sums(a, b, _mm256_setzero_ps(), |sum, a, b| {
        let difference = _mm256_sub_ps(load(a), load(b));
        _mm256_fmadd_ps(difference, difference, sum)
    }))
}

/// Inner product of a query and a row of half precision.
#[target_feature(enable = "avx2,fma,f16c")]
pub(in super::super) fn dot_f16(query: &[f32], row: &[f16]) -> f32 {
    total(padded_sums(query, row, _mm256_setzero_ps(), |sum, q, r| {
        _mm256_fmadd_ps(load(q), load_f16(r), sum)
    }))
}

/// Rotation of a vector, see [`crate::kernels::RotateFn`].
#[target_feature(enable = "avx2")]
pub(in super::super) fn rotate(signs: &[f32], block: usize, values: &mut [f32]) {
    crate::kernels::rotate::rotate(signs, block, values);
}
