//! The kernels of x86-64, each handed out only where the processor has its instructions.
//!
//! | folder | contents |
//! |---|---|
//! | `avx2/` | 256-bit registers: processors since 2013 (Haswell) and 2015 (Excavator) |
//! | `avx512/` | 512-bit registers with VNNI and VPOPCNTDQ: Ice Lake, Zen 4 and later |

mod avx2;
mod avx512;

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use super::Kernels;

/// The AVX2 kernels, where this processor has them.
#[expect(
    unsafe_code,
    reason = "calls functions compiled for AVX2, after the check of the processor"
)]
pub(super) fn avx2_kernels() -> Option<Kernels> {
    // No closure: that would copy the four slices once more, just after they were written, which waits for the stores.
    fn four(query: &[i8], rows: [&[u8]; 4]) -> [i32; 4] {
        // SAFETY: this function is handed out below, once this processor is known to have AVX2.
        unsafe { avx2::dot_i8_x4(query, &rows) }
    }
    let found = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
    found.then_some(Kernels {
        name: "avx2",
        // SAFETY: this processor has AVX2 and FMA, as checked above.
        dot: |a, b| unsafe { avx2::dot(a, b) },
        // SAFETY: this processor has AVX2 and FMA, as checked above.
        squared_l2: |a, b| unsafe { avx2::squared_l2(a, b) },
        // SAFETY: this processor has AVX2, FMA and F16C, as checked above.
        dot_f16: |query, row| unsafe { avx2::dot_f16(query, row) },
        // SAFETY: this processor has AVX2, as checked above.
        dot_i8: |query, row| unsafe { avx2::dot_i8(query, row) },
        dot_i8_x4: four,
        // SAFETY: this processor has AVX2, as checked above.
        sketch: |planes, words, lines, stride, ids, out| unsafe {
            avx2::sketch(planes, words, lines, stride, ids, out);
        },
        // SAFETY: this processor has AVX2, as checked above.
        fast_scan: |lookup, bytes, factors, estimates| unsafe {
            avx2::fast_scan(lookup, bytes, factors, estimates);
        },
        // SAFETY: this processor has AVX2, as checked above.
        not_below: |estimates, least| unsafe { avx2::not_below(estimates, least) },
        // SAFETY: this processor has AVX2, as checked above.
        transpose: |lines, stride, ids, bytes| unsafe { avx2::transpose(lines, stride, ids, bytes) },
        // SAFETY: this processor has AVX2, as checked above.
        rotate: |signs, block, values| unsafe { avx2::rotate(signs, block, values) },
    })
}

/// The AVX-512 kernels, where this processor has all of F, BW, VL, VNNI and VPOPCNTDQ, and AVX2.
#[expect(
    unsafe_code,
    reason = "calls functions compiled for AVX-512, after the check of the processor"
)]
pub(super) fn avx512_kernels() -> Option<Kernels> {
    // No closure: that would copy the four slices once more, just after they were written, which waits for the stores.
    fn four(query: &[i8], rows: [&[u8]; 4]) -> [i32; 4] {
        // SAFETY: this function is handed out below, once this processor is known to have AVX2 and AVX-512F, BW and
        // VNNI.
        unsafe { avx512::dot_i8_x4(query, &rows) }
    }
    let found = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni")
        && is_x86_feature_detected!("avx512vpopcntdq");
    found.then_some(Kernels {
        name: "avx512",
        // SAFETY: this processor has AVX-512F, as checked above.
        dot: |a, b| unsafe { avx512::dot(a, b) },
        // SAFETY: this processor has AVX-512F, as checked above.
        squared_l2: |a, b| unsafe { avx512::squared_l2(a, b) },
        // SAFETY: this processor has AVX-512F, BW and VL, as checked above.
        dot_f16: |query, row| unsafe { avx512::dot_f16(query, row) },
        // SAFETY: this processor has AVX-512F, BW and VNNI, as checked above.
        dot_i8: |query, row| unsafe { avx512::dot_i8(query, row) },
        dot_i8_x4: four,
        // SAFETY: this processor has AVX-512F, VL, VNNI and VPOPCNTDQ, as checked above.
        sketch: |planes, words, lines, stride, ids, out| unsafe {
            avx512::sketch(planes, words, lines, stride, ids, out);
        },
        // SAFETY: this processor has AVX-512F and BW, as checked above.
        fast_scan: |lookup, bytes, factors, estimates| unsafe {
            avx512::fast_scan(lookup, bytes, factors, estimates);
        },
        // SAFETY: this processor has AVX-512F, as checked above.
        not_below: |estimates, least| unsafe { avx512::not_below(estimates, least) },
        // SAFETY: this processor has AVX-512F and BW, as checked above.
        transpose: |lines, stride, ids, bytes| unsafe { avx512::transpose(lines, stride, ids, bytes) },
        // Compiled for AVX-512, its short steps become scatters.
        // SAFETY: this processor has AVX2, as checked above.
        rotate: |signs, block, values| unsafe { avx2::rotate(signs, block, values) },
    })
}

/// Prefetches the cache line in which `bytes` starts.
#[expect(unsafe_code, reason = "the prefetch instruction takes a pointer")]
#[inline]
pub(super) fn prefetch_line<T>(values: &[T]) {
    // SAFETY: every x86-64 processor has SSE, and a prefetch faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().cast()) };
}
