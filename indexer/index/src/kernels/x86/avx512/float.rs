//! Inner product and squared distance over f32, inner product with f16: 64 values a round in four sums.

use std::arch::x86_64::{
    __m512, _mm256_maskz_loadu_epi16, _mm512_add_ps, _mm512_cvtph_ps, _mm512_fmadd_ps, _mm512_maskz_loadu_ps,
    _mm512_reduce_add_ps, _mm512_setzero_ps, _mm512_sub_ps,
};

use half::f16;
use zerocopy::transmute;

use crate::kernels::sums::sums;

/// Values of one register.
const LANES: usize = 16;
/// Sums kept apart, so that the latency of the multiply-add is hidden.
const SUMS: usize = 4;

/// The lowest `len` of 16 lanes.
fn first(len: usize) -> u16 {
    ((1u32 << len.min(LANES)) - 1) as u16
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[f32; LANES]) -> __m512 {
    transmute!(*values)
}

/// At most 16 values, then zeros.
#[expect(unsafe_code, reason = "masked vector load")]
#[inline]
#[target_feature(enable = "avx512f")]
fn load_rest(values: &[f32]) -> __m512 {
    // SAFETY: the mask names no value beyond the slice, and a masked load touches nothing else.
    unsafe { _mm512_maskz_loadu_ps(first(values.len()), values.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn load_f16(values: &[f16; LANES]) -> __m512 {
    _mm512_cvtph_ps(transmute!(*values))
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
    total(sums(
        a,
        b,
        _mm512_setzero_ps(),
        |sum, a, b| _mm512_fmadd_ps(load(a), load(b), sum),
        |sum, a, b| _mm512_fmadd_ps(load_rest(a), load_rest(b), sum),
    ))
}

/// Squared Euclidean distance.
#[target_feature(enable = "avx512f")]
pub(in super::super) fn squared_l2(a: &[f32], b: &[f32]) -> f32 {
    let add = |sum, a, b| {
        let difference = _mm512_sub_ps(a, b);
        _mm512_fmadd_ps(difference, difference, sum)
    };
    total(sums(
        a,
        b,
        _mm512_setzero_ps(),
        |sum, a, b| add(sum, load(a), load(b)),
        |sum, a, b| add(sum, load_rest(a), load_rest(b)),
    ))
}

/// Inner product of a query and a row of half precision.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(in super::super) fn dot_f16(query: &[f32], row: &[f16]) -> f32 {
    total(sums(
        query,
        row,
        _mm512_setzero_ps(),
        |sum, q, r| _mm512_fmadd_ps(load(q), load_f16(r), sum),
        |sum, q, r| _mm512_fmadd_ps(load_rest(q), load_f16_rest(r), sum),
    ))
}
