//! Inner product and squared distance over f32, inner product with f16: 16 values a round in four sums.

use std::arch::aarch64::{
    float32x4_t, vaddq_f32, vaddvq_f32, vcvt_f32_f16, vdupq_n_f32, vfmaq_f32, vld1_u16, vld1q_f32,
    vreinterpret_f16_u16, vsubq_f32,
};

use half::f16;

use crate::kernels::padding::padded;

/// Values of one register.
const LANES: usize = 4;
/// Sums kept apart, so that the latency of the multiply-add is hidden.
const SUMS: usize = 4;

#[expect(unsafe_code, reason = "vector load")]
#[inline]
#[target_feature(enable = "neon")]
fn load(values: &[f32; LANES]) -> float32x4_t {
    // SAFETY: the array is 4 values of 4 bytes, which is what the instruction reads.
    unsafe { vld1q_f32(values.as_ptr()) }
}

#[expect(unsafe_code, reason = "vector load")]
#[inline]
#[target_feature(enable = "neon")]
fn load_f16(values: &[f16; LANES]) -> float32x4_t {
    // SAFETY: the array is 4 values of 2 bytes, which is what the instruction reads; `f16` is a transparent `u16`.
    vcvt_f32_f16(vreinterpret_f16_u16(unsafe { vld1_u16(values.as_ptr().cast()) }))
}

#[inline]
#[target_feature(enable = "neon")]
fn total(sums: [float32x4_t; SUMS]) -> f32 {
    vaddvq_f32(vaddq_f32(vaddq_f32(sums[0], sums[1]), vaddq_f32(sums[2], sums[3])))
}

/// Inner product.
#[target_feature(enable = "neon")]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let len = a.len().min(b.len());
    let (a, a_rest) = a[..len].as_chunks::<LANES>();
    let (b, b_rest) = b[..len].as_chunks::<LANES>();
    let (a_rounds, a_last) = a.as_chunks::<SUMS>();
    let (b_rounds, b_last) = b.as_chunks::<SUMS>();
    let mut sums = [vdupq_n_f32(0.0); SUMS];
    for (x, y) in a_rounds.iter().zip(b_rounds) {
        for s in 0..SUMS {
            sums[s] = vfmaq_f32(sums[s], load(&x[s]), load(&y[s]));
        }
    }
    for (x, y) in a_last.iter().zip(b_last) {
        sums[0] = vfmaq_f32(sums[0], load(x), load(y));
    }
    if !a_rest.is_empty() {
        sums[SUMS - 1] = vfmaq_f32(sums[SUMS - 1], load(&padded(a_rest)), load(&padded(b_rest)));
    }
    total(sums)
}

/// Squared Euclidean distance.
#[target_feature(enable = "neon")]
pub(super) fn squared_l2(a: &[f32], b: &[f32]) -> f32 {
    let len = a.len().min(b.len());
    let (a, a_rest) = a[..len].as_chunks::<LANES>();
    let (b, b_rest) = b[..len].as_chunks::<LANES>();
    let (a_rounds, a_last) = a.as_chunks::<SUMS>();
    let (b_rounds, b_last) = b.as_chunks::<SUMS>();
    let mut sums = [vdupq_n_f32(0.0); SUMS];
    for (x, y) in a_rounds.iter().zip(b_rounds) {
        for s in 0..SUMS {
            let difference = vsubq_f32(load(&x[s]), load(&y[s]));
            sums[s] = vfmaq_f32(sums[s], difference, difference);
        }
    }
    for (x, y) in a_last.iter().zip(b_last) {
        let difference = vsubq_f32(load(x), load(y));
        sums[0] = vfmaq_f32(sums[0], difference, difference);
    }
    if !a_rest.is_empty() {
        let difference = vsubq_f32(load(&padded(a_rest)), load(&padded(b_rest)));
        sums[SUMS - 1] = vfmaq_f32(sums[SUMS - 1], difference, difference);
    }
    total(sums)
}

/// Inner product of a query and a row of half precision.
#[target_feature(enable = "neon")]
pub(super) fn dot_f16(query: &[f32], row: &[f16]) -> f32 {
    let len = query.len().min(row.len());
    let (query, query_rest) = query[..len].as_chunks::<LANES>();
    let (row, row_rest) = row[..len].as_chunks::<LANES>();
    let (query_rounds, query_last) = query.as_chunks::<SUMS>();
    let (row_rounds, row_last) = row.as_chunks::<SUMS>();
    let mut sums = [vdupq_n_f32(0.0); SUMS];
    for (x, y) in query_rounds.iter().zip(row_rounds) {
        for s in 0..SUMS {
            sums[s] = vfmaq_f32(sums[s], load(&x[s]), load_f16(&y[s]));
        }
    }
    for (x, y) in query_last.iter().zip(row_last) {
        sums[0] = vfmaq_f32(sums[0], load(x), load_f16(y));
    }
    if !query_rest.is_empty() {
        sums[SUMS - 1] = vfmaq_f32(sums[SUMS - 1], load(&padded(query_rest)), load_f16(&padded(row_rest)));
    }
    total(sums)
}
