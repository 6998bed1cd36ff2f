//! Inner product and squared distance over f32, inner product with f16: 64 values a round in four sums.

use std::arch::x86_64::{
    __m512, _mm256_loadu_si256, _mm256_maskz_loadu_epi16, _mm512_add_ps, _mm512_cvtph_ps, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_maskz_loadu_ps, _mm512_reduce_add_ps, _mm512_setzero_ps, _mm512_sub_ps,
};

use half::f16;

/// Values of one register.
const LANES: usize = 16;
/// Sums kept apart, so that the latency of the multiply-add is hidden.
const SUMS: usize = 4;

/// The lowest `len` of 16 lanes.
fn first(len: usize) -> u16 {
    ((1u32 << len.min(LANES)) - 1) as u16
}

#[expect(unsafe_code, reason = "vector load")]
#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[f32; LANES]) -> __m512 {
    // SAFETY: the array is 16 values of 4 bytes, which is what the instruction reads, at any alignment.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

/// At most 16 values, then zeros.
#[expect(unsafe_code, reason = "masked vector load")]
#[inline]
#[target_feature(enable = "avx512f")]
fn load_rest(values: &[f32]) -> __m512 {
    // SAFETY: the mask names no value beyond the slice, and a masked load touches nothing else.
    unsafe { _mm512_maskz_loadu_ps(first(values.len()), values.as_ptr()) }
}

#[expect(unsafe_code, reason = "vector load")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn load_f16(values: &[f16; LANES]) -> __m512 {
    // SAFETY: the array is 16 values of 2 bytes, which is what the instruction reads, at any alignment.
    _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(values.as_ptr().cast()) })
}

/// At most 16 values, then zeros.
#[expect(unsafe_code, reason = "masked vector load")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn load_f16_rest(values: &[f16]) -> __m512 {
    // SAFETY: the mask names no value beyond the slice, and a masked load touches nothing else.
    _mm512_cvtph_ps(unsafe { _mm256_maskz_loadu_epi16(first(values.len()), values.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn total(sums: [__m512; SUMS]) -> f32 {
    let [a, b, c, d] = sums;
    _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)))
}

/// Inner product.
#[target_feature(enable = "avx512f")]
pub(in super::super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let len = a.len().min(b.len());
    let (a, a_rest) = a[..len].as_chunks::<LANES>();
    let (b, b_rest) = b[..len].as_chunks::<LANES>();
    let (a_rounds, a_last) = a.as_chunks::<SUMS>();
    let (b_rounds, b_last) = b.as_chunks::<SUMS>();
    let mut sums = [_mm512_setzero_ps(); SUMS];
    for (x, y) in a_rounds.iter().zip(b_rounds) {
        for s in 0..SUMS {
            sums[s] = _mm512_fmadd_ps(load(&x[s]), load(&y[s]), sums[s]);
        }
    }
    for (x, y) in a_last.iter().zip(b_last) {
        sums[0] = _mm512_fmadd_ps(load(x), load(y), sums[0]);
    }
    if !a_rest.is_empty() {
        sums[SUMS - 1] = _mm512_fmadd_ps(load_rest(a_rest), load_rest(b_rest), sums[SUMS - 1]);
    }
    total(sums)
}

/// Squared Euclidean distance.
#[target_feature(enable = "avx512f")]
pub(in super::super) fn squared_l2(a: &[f32], b: &[f32]) -> f32 {
    let len = a.len().min(b.len());
    let (a, a_rest) = a[..len].as_chunks::<LANES>();
    let (b, b_rest) = b[..len].as_chunks::<LANES>();
    let (a_rounds, a_last) = a.as_chunks::<SUMS>();
    let (b_rounds, b_last) = b.as_chunks::<SUMS>();
    let mut sums = [_mm512_setzero_ps(); SUMS];
    for (x, y) in a_rounds.iter().zip(b_rounds) {
        for s in 0..SUMS {
            let difference = _mm512_sub_ps(load(&x[s]), load(&y[s]));
            sums[s] = _mm512_fmadd_ps(difference, difference, sums[s]);
        }
    }
    for (x, y) in a_last.iter().zip(b_last) {
        let difference = _mm512_sub_ps(load(x), load(y));
        sums[0] = _mm512_fmadd_ps(difference, difference, sums[0]);
    }
    if !a_rest.is_empty() {
        let difference = _mm512_sub_ps(load_rest(a_rest), load_rest(b_rest));
        sums[SUMS - 1] = _mm512_fmadd_ps(difference, difference, sums[SUMS - 1]);
    }
    total(sums)
}

/// Inner product of a query and a row of half precision.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(in super::super) fn dot_f16(query: &[f32], row: &[f16]) -> f32 {
    let len = query.len().min(row.len());
    let (query, query_rest) = query[..len].as_chunks::<LANES>();
    let (row, row_rest) = row[..len].as_chunks::<LANES>();
    let (query_rounds, query_last) = query.as_chunks::<SUMS>();
    let (row_rounds, row_last) = row.as_chunks::<SUMS>();
    let mut sums = [_mm512_setzero_ps(); SUMS];
    for (x, y) in query_rounds.iter().zip(row_rounds) {
        for s in 0..SUMS {
            sums[s] = _mm512_fmadd_ps(load(&x[s]), load_f16(&y[s]), sums[s]);
        }
    }
    for (x, y) in query_last.iter().zip(row_last) {
        sums[0] = _mm512_fmadd_ps(load(x), load_f16(y), sums[0]);
    }
    if !query_rest.is_empty() {
        sums[SUMS - 1] = _mm512_fmadd_ps(load_rest(query_rest), load_f16_rest(row_rest), sums[SUMS - 1]);
    }
    total(sums)
}
