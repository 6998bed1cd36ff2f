//! The inner product for AVX2+FMA and AVX-512F: one loop in plain Rust with fused multiply-add, compiled for both.

use super::Kernels;

/// Partial sums: four registers of 16 (AVX-512) or eight of 8 (AVX2), enough to hide the latency of the multiply-add.
const LANES: usize = 64;

#[expect(clippy::inline_always, reason = "must be compiled inside its callers, for their instruction sets")]
#[inline(always)]
fn dot_fused(a: &[f32], b: &[f32]) -> f32 {
    let len = a.len().min(b.len());
    let (a_chunks, a_rest) = a[..len].as_chunks::<LANES>();
    let (b_chunks, b_rest) = b[..len].as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] = x[lane].mul_add(y[lane], sums[lane]);
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    a_rest.iter().zip(b_rest).fold(sums[0], |sum, (x, y)| x.mul_add(*y, sum))
}

#[target_feature(enable = "avx2,fma")]
fn dot_avx2_inner(a: &[f32], b: &[f32]) -> f32 {
    dot_fused(a, b)
}

#[target_feature(enable = "avx512f,avx2,fma")]
fn dot_avx512_inner(a: &[f32], b: &[f32]) -> f32 {
    dot_fused(a, b)
}

#[expect(unsafe_code, reason = "calls a function compiled for AVX2, behind the check in `detect`")]
fn dot_avx2(a: &[f32], b: &[f32]) -> f32 {
    // SAFETY: `detect` hands this function out only where the processor has AVX2 and FMA.
    unsafe { dot_avx2_inner(a, b) }
}

#[expect(unsafe_code, reason = "calls a function compiled for AVX-512F, behind the check in `detect`")]
fn dot_avx512(a: &[f32], b: &[f32]) -> f32 {
    // SAFETY: `detect` hands this function out only where the processor has AVX-512F, AVX2 and FMA.
    unsafe { dot_avx512_inner(a, b) }
}

/// The widest kernels that this processor has, if any.
pub(super) fn detect() -> Option<Kernels> {
    let fused = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    if fused && is_x86_feature_detected!("avx512f") {
        return Some(Kernels { name: "avx512", dot: dot_avx512 });
    }
    fused.then_some(Kernels { name: "avx2", dot: dot_avx2 })
}
