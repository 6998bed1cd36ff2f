//! Inner product and squared distance over f32, inner product with f16: 32 values a round in four sums.

use std::arch::x86_64::{
    __m256, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_loadu_si128, _mm_movehdup_ps, _mm_movehl_ps, _mm256_add_ps,
    _mm256_castps256_ps128, _mm256_cvtph_ps, _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_setzero_ps, _mm256_sub_ps,
};

use half::f16;

use crate::kernels::padding::padded;

/// Values of one register.
const LANES: usize = 8;
/// Sums kept apart, so that the latency of the multiply-add is hidden.
const SUMS: usize = 4;

#[expect(unsafe_code, reason = "vector load")]
#[inline]
#[target_feature(enable = "avx2")]
fn load(values: &[f32; LANES]) -> __m256 {
    // SAFETY: the array is 8 values of 4 bytes, which is what the instruction reads, at any alignment.
    unsafe { _mm256_loadu_ps(values.as_ptr()) }
}

#[expect(unsafe_code, reason = "vector load")]
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn load_f16(values: &[f16; LANES]) -> __m256 {
    // SAFETY: the array is 8 values of 2 bytes, which is what the instruction reads, at any alignment.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(values.as_ptr().cast()) })
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
    let len = a.len().min(b.len());
    let (a, a_rest) = a[..len].as_chunks::<LANES>();
    let (b, b_rest) = b[..len].as_chunks::<LANES>();
    let (a_rounds, a_last) = a.as_chunks::<SUMS>();
    let (b_rounds, b_last) = b.as_chunks::<SUMS>();
    let mut sums = [_mm256_setzero_ps(); SUMS];
    for (x, y) in a_rounds.iter().zip(b_rounds) {
        for s in 0..SUMS {
            sums[s] = _mm256_fmadd_ps(load(&x[s]), load(&y[s]), sums[s]);
        }
    }
    for (x, y) in a_last.iter().zip(b_last) {
        sums[0] = _mm256_fmadd_ps(load(x), load(y), sums[0]);
    }
    if !a_rest.is_empty() {
        sums[SUMS - 1] = _mm256_fmadd_ps(load(&padded(a_rest)), load(&padded(b_rest)), sums[SUMS - 1]);
    }
    total(sums)
}

/// Squared Euclidean distance.
#[target_feature(enable = "avx2,fma")]
pub(in super::super) fn squared_l2(a: &[f32], b: &[f32]) -> f32 {
    let len = a.len().min(b.len());
    let (a, a_rest) = a[..len].as_chunks::<LANES>();
    let (b, b_rest) = b[..len].as_chunks::<LANES>();
    let (a_rounds, a_last) = a.as_chunks::<SUMS>();
    let (b_rounds, b_last) = b.as_chunks::<SUMS>();
    let mut sums = [_mm256_setzero_ps(); SUMS];
    for (x, y) in a_rounds.iter().zip(b_rounds) {
        for s in 0..SUMS {
            let difference = _mm256_sub_ps(load(&x[s]), load(&y[s]));
            sums[s] = _mm256_fmadd_ps(difference, difference, sums[s]);
        }
    }
    for (x, y) in a_last.iter().zip(b_last) {
        let difference = _mm256_sub_ps(load(x), load(y));
        sums[0] = _mm256_fmadd_ps(difference, difference, sums[0]);
    }
    if !a_rest.is_empty() {
        let difference = _mm256_sub_ps(load(&padded(a_rest)), load(&padded(b_rest)));
        sums[SUMS - 1] = _mm256_fmadd_ps(difference, difference, sums[SUMS - 1]);
    }
    total(sums)
}

/// Inner product of a query and a row of half precision.
#[target_feature(enable = "avx2,fma,f16c")]
pub(in super::super) fn dot_f16(query: &[f32], row: &[f16]) -> f32 {
    let len = query.len().min(row.len());
    let (query, query_rest) = query[..len].as_chunks::<LANES>();
    let (row, row_rest) = row[..len].as_chunks::<LANES>();
    let (query_rounds, query_last) = query.as_chunks::<SUMS>();
    let (row_rounds, row_last) = row.as_chunks::<SUMS>();
    let mut sums = [_mm256_setzero_ps(); SUMS];
    for (x, y) in query_rounds.iter().zip(row_rounds) {
        for s in 0..SUMS {
            sums[s] = _mm256_fmadd_ps(load(&x[s]), load_f16(&y[s]), sums[s]);
        }
    }
    for (x, y) in query_last.iter().zip(row_last) {
        sums[0] = _mm256_fmadd_ps(load(x), load_f16(y), sums[0]);
    }
    if !query_rest.is_empty() {
        sums[SUMS - 1] = _mm256_fmadd_ps(load(&padded(query_rest)), load_f16(&padded(row_rest)), sums[SUMS - 1]);
    }
    total(sums)
}
