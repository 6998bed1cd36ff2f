//! Sketches by VPOPCNTDQ: one register holds a whole sketch of up to 512 bits, and eight ids share their horizontal sums.

use std::arch::x86_64::{
    __m256i, __m512i, _mm256_storeu_si256, _mm512_add_epi32, _mm512_add_epi64, _mm512_and_si512,
    _mm512_castsi512_si256, _mm512_mask_shuffle_epi32, _mm512_maskz_loadu_epi64, _mm512_popcnt_epi64,
    _mm512_setzero_si512, _mm512_shuffle_i32x4, _mm512_slli_epi64, _mm512_sub_epi64, _mm512_unpackhi_epi64,
    _mm512_unpacklo_epi64,
};

use crate::kernels::sketches::Sketches;

/// Words of one register, and ids that are summed together.
const LANES: usize = 8;

/// At most 8 words, then zeros.
#[expect(unsafe_code, reason = "masked vector load")]
#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &[u64]) -> __m512i {
    let first = ((1u32 << words.len().min(LANES)) - 1) as u8;
    // SAFETY: the mask names no word beyond the slice, and a masked load touches nothing else.
    unsafe { _mm512_maskz_loadu_epi64(first, words.as_ptr().cast()) }
}

#[expect(unsafe_code, reason = "vector store")]
#[inline]
#[target_feature(enable = "avx512f")]
fn store(out: &mut [i32; LANES], values: __m256i) {
    // SAFETY: the array is 32 bytes, which is what the instruction writes, at any alignment.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), values) };
}

/// Weighted bits of eight ids or fewer, see [`crate::kernels::SketchFn`].
#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq")]
pub(in super::super) fn sketch(
    planes: &[u64],
    words: usize,
    lines: &[u64],
    stride: usize,
    ids: &[u32],
    out: &mut [i32],
) {
    let count = ids.len().min(out.len());
    let (ids, out) = (&ids[..count], &mut out[..count]);
    let Some(table) = Sketches::new(planes, words, lines, stride) else {
        out.fill(i32::MIN);
        return;
    };
    let (blocks, rest) = ids.as_chunks::<LANES>();
    let (out_blocks, out_rest) = out.as_chunks_mut::<LANES>();
    if words <= LANES {
        let planes = [load(table.plane(0)), load(table.plane(1)), load(table.plane(2)), load(table.plane(3))];
        for (ids, out) in blocks.iter().zip(out_blocks) {
            short(&table, planes, ids, out);
        }
        let mut sums = [0; LANES];
        short(&table, planes, rest, &mut sums);
        out_rest.copy_from_slice(&sums[..out_rest.len()]);
    } else {
        for (ids, out) in blocks.iter().zip(out_blocks) {
            long(&table, ids, out);
        }
        let mut sums = [0; LANES];
        long(&table, rest, &mut sums);
        out_rest.copy_from_slice(&sums[..out_rest.len()]);
    }
}

/// Sketches of at most 8 words, the planes in registers.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq")]
fn short(table: &Sketches<'_>, planes: [__m512i; 4], ids: &[u32], out: &mut [i32; LANES]) {
    let mut sums = [_mm512_setzero_si512(); LANES];
    for (sum, id) in sums.iter_mut().zip(ids) {
        if let Some(code) = table.code(*id) {
            *sum = weighted(planes, load(code));
        }
    }
    finish(table, &sums, ids, out);
}

/// Sketches of any length, 8 words at a time.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq")]
fn long(table: &Sketches<'_>, ids: &[u32], out: &mut [i32; LANES]) {
    let mut sums = [_mm512_setzero_si512(); LANES];
    for (sum, id) in sums.iter_mut().zip(ids) {
        let Some(code) = table.code(*id) else { continue };
        for (block, code) in code.chunks(LANES).enumerate() {
            let at = block * LANES;
            let end = at + code.len();
            let planes = [
                load(&table.plane(0)[at..end]),
                load(&table.plane(1)[at..end]),
                load(&table.plane(2)[at..end]),
                load(&table.plane(3)[at..end]),
            ];
            *sum = _mm512_add_epi64(*sum, weighted(planes, load(code)));
        }
    }
    finish(table, &sums, ids, out);
}

/// Per 64 bits: the bits shared with each plane, weighted 1, 2, 4 and -8.
#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn weighted(planes: [__m512i; 4], code: __m512i) -> __m512i {
    let [p0, p1, p2, p3] = planes;
    let ones = _mm512_popcnt_epi64(_mm512_and_si512(code, p0));
    let twos = _mm512_slli_epi64::<1>(_mm512_popcnt_epi64(_mm512_and_si512(code, p1)));
    let fours = _mm512_slli_epi64::<2>(_mm512_popcnt_epi64(_mm512_and_si512(code, p2)));
    let eights = _mm512_slli_epi64::<3>(_mm512_popcnt_epi64(_mm512_and_si512(code, p3)));
    _mm512_add_epi64(_mm512_add_epi64(ones, twos), _mm512_sub_epi64(fours, eights))
}

/// The sum of each register's lanes; `i32::MIN` for an id outside the table.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn finish(table: &Sketches<'_>, sums: &[__m512i; LANES], ids: &[u32], out: &mut [i32; LANES]) {
    store(out, totals(sums));
    for (out, id) in out.iter_mut().zip(ids) {
        if table.code(*id).is_none() {
            *out = i32::MIN;
        }
    }
}

/// The lower 32 bits of the sum of each register's eight lanes: halves the number of registers three times.
#[inline]
#[target_feature(enable = "avx512f")]
fn totals(s: &[__m512i; LANES]) -> __m256i {
    let left = add_halves(interleave(s[0], s[1]), interleave(s[2], s[3]));
    let right = add_halves(interleave(s[4], s[5]), interleave(s[6], s[7]));
    // Quarters 0 and 2 of both, plus quarters 1 and 3; then the two that belong together.
    let quarters =
        _mm512_add_epi32(_mm512_shuffle_i32x4::<0x88>(left, right), _mm512_shuffle_i32x4::<0xDD>(left, right));
    let all = _mm512_add_epi32(quarters, _mm512_shuffle_i32x4::<0xB1>(quarters, quarters));
    _mm512_castsi512_si256(_mm512_shuffle_i32x4::<0x08>(all, all))
}

/// The lower halves of `a`'s 64-bit lanes on even, those of `b`'s on odd 32-bit lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn interleave(a: __m512i, b: __m512i) -> __m512i {
    _mm512_mask_shuffle_epi32::<0xA0>(a, 0xAAAA, b)
}

/// In each quarter: the sum of `a`'s two 64-bit lanes, then that of `b`'s (as pairs of 32 bits).
#[inline]
#[target_feature(enable = "avx512f")]
fn add_halves(a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b))
}
