//! The kernels of 64-bit ARM.
//!
//! | file | contents |
//! |---|---|
//! | `fast_scan.rs` | blocks of sketches by tables in registers |
//! | `float.rs` | inner product and squared distance over f32, inner product with f16 |
//! | `int8.rs` | inner product of int8 and u8, widened to 16 bits |
//! | `sketch.rs` | sketches by `cnt` |
//!
//! The remainder of a row is padded with zeros, so that every length takes the same path.

mod fast_scan;
mod float;
mod int8;
mod sketch;

use std::arch::asm;
use std::arch::is_aarch64_feature_detected;

use super::Kernels;

/// The NEON kernels, where this processor has them.
#[expect(
    unsafe_code,
    reason = "calls functions compiled for NEON, after the check of the processor"
)]
pub(super) fn neon_kernels() -> Option<Kernels> {
    // No closure: that would copy the four slices once more, just after they were written, which waits for the stores.
    fn four(query: &[i8], rows: [&[u8]; 4]) -> [i32; 4] {
        // SAFETY: this function is handed out below, once this processor is known to have NEON.
        unsafe { int8::dot_i8_x4(query, &rows) }
    }
    is_aarch64_feature_detected!("neon").then_some(Kernels {
        name: "neon",
        // SAFETY: this processor has NEON, as checked above.
        dot: |a, b| unsafe { float::dot(a, b) },
        // SAFETY: this processor has NEON, as checked above.
        squared_l2: |a, b| unsafe { float::squared_l2(a, b) },
        // SAFETY: this processor has NEON, as checked above.
        dot_f16: |query, row| unsafe { float::dot_f16(query, row) },
        // SAFETY: this processor has NEON, as checked above.
        dot_i8: |query, row| unsafe { int8::dot_i8(query, row) },
        dot_i8_x4: four,
        // SAFETY: this processor has NEON, as checked above.
        sketch: |planes, words, lines, stride, ids, out| unsafe {
            sketch::sketch(planes, words, lines, stride, ids, out);
        },
        // SAFETY: this processor has NEON, as checked above.
        fast_scan: |lookup, bytes, factors, estimates| unsafe {
            fast_scan::fast_scan(lookup, bytes, factors, estimates);
        },
        not_below: super::SCALAR.not_below,
        // Every compiler for this processor uses NEON.
        transpose: super::SCALAR.transpose,
        rotate: super::SCALAR.rotate,
    })
}

/// Prefetches the cache line in which `bytes` starts.
#[expect(unsafe_code, reason = "the prefetch instruction has no safe form")]
#[inline]
pub(super) fn prefetch_line<T>(values: &[T]) {
    // SAFETY: a prefetch faults at no address, writes nothing and leaves the flags as they are.
    unsafe { asm!("prfm pldl1keep, [{0}]", in(reg) values.as_ptr(), options(nostack, preserves_flags, readonly)) };
}
