//! Quantises rows to int8, each by its largest magnitude.

use std::arch::x86_64::{
    __m128i, _mm_storeu_si128, _mm512_abs_ps, _mm512_castps_si512, _mm512_cvtepi32_epi8, _mm512_cvtps_epi32,
    _mm512_div_ps, _mm512_max_epi32, _mm512_reduce_max_epi32, _mm512_set1_ps, _mm512_setzero_si512,
};

use super::simd::{Avx512, LANES, load};
use super::{LARGEST, SMALLEST};

/// Rows of `width` values, a multiple of 16, to whole numbers, and what one step of each row is worth.
#[expect(
    unsafe_code,
    reason = "calls a function compiled for AVX-512, after the processor was checked"
)]
pub(super) fn round(_: Avx512, rows: &[f32], width: usize, numbers: &mut [i8], steps: &mut [f32]) {
    #[target_feature(enable = "avx512f")]
    fn row(values: &[f32], numbers: &mut [i8]) -> f32 {
        let (values, _) = values.as_chunks::<LANES>();
        let (numbers, _) = numbers.as_chunks_mut::<LANES>();
        // Bits of magnitudes grow with them, and those of a NaN are the largest: it stays, and the step is one.
        let mut largest = _mm512_setzero_si512();
        for values in values {
            largest = _mm512_max_epi32(largest, _mm512_castps_si512(_mm512_abs_ps(load(values))));
        }
        let largest = f32::from_bits(_mm512_reduce_max_epi32(largest).cast_unsigned());
        let step = if largest < SMALLEST { SMALLEST } else { largest } / LARGEST;
        let by = _mm512_set1_ps(step);
        for (values, numbers) in values.iter().zip(numbers) {
            // Halves to even, as torch rounds.
            put(
                numbers,
                _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_div_ps(load(values), by))),
            );
        }
        step
    }
    for ((values, numbers), step) in rows.chunks_exact(width).zip(numbers.chunks_exact_mut(width)).zip(steps) {
        // SAFETY: the processor has AVX-512F, as the first argument says.
        *step = unsafe { row(values, numbers) };
    }
}

#[expect(unsafe_code, reason = "vector store")]
#[inline]
#[target_feature(enable = "avx512f")]
fn put(values: &mut [i8; LANES], register: __m128i) {
    // SAFETY: the array is 16 values of 1 byte, which is what the instruction writes, at any alignment.
    unsafe { _mm_storeu_si128(values.as_mut_ptr().cast(), register) }
}
