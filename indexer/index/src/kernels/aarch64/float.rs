//! Inner product and squared distance over f32, inner product with f16: 16 values a round in four sums.

use std::arch::aarch64::{
    float32x4_t, vaddq_f32, vaddvq_f32, vcvt_f32_f16, vdupq_n_f32, vfmaq_f32, vreinterpret_f16_u16, vsubq_f32,
};

use half::f16;
use zerocopy::transmute;

use crate::kernels::sums::padded_sums;

/// Values of one register.
const LANES: usize = 4;
/// Sums kept apart, so that the latency of the multiply-add is hidden.
const SUMS: usize = 4;

#[inline]
#[target_feature(enable = "neon")]
fn load(values: &[f32; LANES]) -> float32x4_t {
    transmute!(*values)
}

#[inline]
#[target_feature(enable = "neon")]
fn load_f16(values: &[f16; LANES]) -> float32x4_t {
    vcvt_f32_f16(vreinterpret_f16_u16(transmute!(*values)))
}

#[inline]
#[target_feature(enable = "neon")]
fn total(sums: [float32x4_t; SUMS]) -> f32 {
    vaddvq_f32(vaddq_f32(vaddq_f32(sums[0], sums[1]), vaddq_f32(sums[2], sums[3])))
}

/// Inner product.
#[target_feature(enable = "neon")]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    total(padded_sums(a, b, vdupq_n_f32(0.0), |sum, a, b| {
        vfmaq_f32(sum, load(a), load(b))
    }))
}

/// Squared Euclidean distance.
#[target_feature(enable = "neon")]
pub(super) fn squared_l2(a: &[f32], b: &[f32]) -> f32 {
    total(padded_sums(a, b, vdupq_n_f32(0.0), |sum, a, b| {
        let difference = vsubq_f32(load(a), load(b));
        vfmaq_f32(sum, difference, difference)
    }))
}

/// Inner product of a query and a row of half precision.
#[target_feature(enable = "neon")]
pub(super) fn dot_f16(query: &[f32], row: &[f16]) -> f32 {
    total(padded_sums(query, row, vdupq_n_f32(0.0), |sum, q, r| {
        vfmaq_f32(sum, load(q), load_f16(r))
    }))
}
