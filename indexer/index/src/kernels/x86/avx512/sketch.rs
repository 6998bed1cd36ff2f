//! Sketches by VPOPCNTDQ: one register holds 512 bits of a sketch, and eight ids share their horizontal sums.
//!
//! Per register: four `vpandq`, four `vpopcntq`, and three `vpdpbusd`, which weigh a count (at most 64, so its lowest
//! byte) and add it.

use std::arch::x86_64::{
    __m256i, __m512i, _mm256_cmple_epu32_mask, _mm256_mask_mov_epi32, _mm256_maskz_mov_epi32, _mm256_set1_epi32,
    _mm512_add_epi32, _mm512_and_si512, _mm512_castsi512_si256, _mm512_dpbusd_epi32, _mm512_loadu_si512,
    _mm512_mask_shuffle_epi32, _mm512_maskz_loadu_epi64, _mm512_popcnt_epi64, _mm512_set1_epi32, _mm512_setzero_si512,
    _mm512_shuffle_i32x4, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
};

use zerocopy::transmute;

use crate::kernels::padding::padded;
use crate::kernels::sketches::Sketches;

/// Words of one register, and ids that are summed together.
const LANES: usize = 8;

/// The lowest `len` of 8 lanes.
fn first(len: usize) -> u8 {
    ((1u32 << len.min(LANES)) - 1) as u8
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_ids(ids: &[u32; LANES]) -> __m256i {
    transmute!(*ids)
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_ids(ids: &mut [u32; LANES], values: __m256i) {
    *ids = transmute!(values);
}

/// At most 8 words, then zeros.
#[expect(unsafe_code, reason = "masked vector load")]
#[inline]
#[target_feature(enable = "avx512f")]
fn load_rest(words: &[u64]) -> __m512i {
    // SAFETY: the mask names no word beyond the slice, and a masked load touches nothing else.
    unsafe { _mm512_maskz_loadu_epi64(first(words.len()), words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(out: &mut [i32; LANES], values: __m256i) {
    *out = transmute!(values);
}

/// Weighted bits of every id, see [`crate::kernels::SketchFn`].
#[target_feature(enable = "avx512f,avx512vl,avx512vnni,avx512vpopcntdq")]
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
    match words.div_ceil(LANES) {
        0 | 1 => short::<1>(&table, ids, out),
        2 => short::<2>(&table, ids, out),
        _ => long(&table, ids, out),
    }
}

/// The planes of block `block`: words `8 * block..`, then zeros.
#[inline]
#[target_feature(enable = "avx512f")]
fn planes_of(table: &Sketches<'_>, block: usize) -> [__m512i; 4] {
    let from = (block * LANES).min(table.words);
    let to = (from + LANES).min(table.words);
    [
        load_rest(&table.plane(0)[from..to]),
        load_rest(&table.plane(1)[from..to]),
        load_rest(&table.plane(2)[from..to]),
        load_rest(&table.plane(3)[from..to]),
    ]
}

/// Sketches of at most `BLOCKS` registers, the planes in registers too.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512vnni,avx512vpopcntdq")]
fn short<const BLOCKS: usize>(table: &Sketches<'_>, ids: &[u32], out: &mut [i32]) {
    let mut planes = [[_mm512_setzero_si512(); 4]; BLOCKS];
    for (block, planes) in planes.iter_mut().enumerate() {
        *planes = planes_of(table, block);
    }
    // Where a row fills whole registers, what follows the sketch is read with it: the planes have zeros there.
    if table.stride >= BLOCKS * LANES {
        by_eight::<BLOCKS, true>(table, &planes, ids, out);
    } else {
        by_eight::<BLOCKS, false>(table, &planes, ids, out);
    }
}

/// All ids of [`short`], the last ones together with some before them, so that they are eight.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512vnni,avx512vpopcntdq")]
fn by_eight<const BLOCKS: usize, const WHOLE: bool>(
    table: &Sketches<'_>,
    planes: &[[__m512i; 4]; BLOCKS],
    ids: &[u32],
    out: &mut [i32],
) {
    let (blocks, rest) = ids.as_chunks::<LANES>();
    for (ids, out) in blocks.iter().zip(out.as_chunks_mut::<LANES>().0) {
        eight::<BLOCKS, WHOLE>(table, planes, ids, out);
    }
    if rest.is_empty() {
        return;
    }
    if let (Some(ids), Some(out)) = (ids.last_chunk(), out.last_chunk_mut()) {
        eight::<BLOCKS, WHOLE>(table, planes, ids, out);
    } else {
        let mut sums = [0; LANES];
        eight::<BLOCKS, WHOLE>(table, planes, &padded(rest), &mut sums);
        out.copy_from_slice(&sums[..out.len()]);
    }
}

/// Eight ids of [`short`]; `WHOLE`: rows are at least `BLOCKS` registers long.
#[expect(unsafe_code, reason = "calls what reads rows by ids, which are compared here")]
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512vnni,avx512vpopcntdq")]
fn eight<const BLOCKS: usize, const WHOLE: bool>(
    table: &Sketches<'_>,
    planes: &[[__m512i; 4]; BLOCKS],
    ids: &[u32; LANES],
    out: &mut [i32; LANES],
) {
    // All eight are compared at once; one that is not found reads the first row.
    let found = _mm256_cmple_epu32_mask(load_ids(ids), _mm256_set1_epi32(table.last() as i32));
    let mut at = [0; LANES];
    store_ids(&mut at, _mm256_maskz_mov_epi32(found, load_ids(ids)));
    // One by one, so that no sum passes through memory.
    // SAFETY: every id is at most `table.last()`, and `short`, where all of this begins, takes `BLOCKS` and `WHOLE`
    // from the table.
    let sums = unsafe {
        [
            one::<BLOCKS, WHOLE>(table, planes, at[0]),
            one::<BLOCKS, WHOLE>(table, planes, at[1]),
            one::<BLOCKS, WHOLE>(table, planes, at[2]),
            one::<BLOCKS, WHOLE>(table, planes, at[3]),
            one::<BLOCKS, WHOLE>(table, planes, at[4]),
            one::<BLOCKS, WHOLE>(table, planes, at[5]),
            one::<BLOCKS, WHOLE>(table, planes, at[6]),
            one::<BLOCKS, WHOLE>(table, planes, at[7]),
        ]
    };
    finish(&sums, found, out);
}

/// The weighted bits of one id per 64 bits.
///
/// # Safety
///
/// `id` is at most `table.last()`; a sketch has at most `BLOCKS` registers; and where `WHOLE`, a row has `BLOCKS` whole
/// ones.
#[expect(unsafe_code, reason = "vector loads of a row whose id was compared in a register")]
#[inline]
#[target_feature(enable = "avx512f,avx512vnni,avx512vpopcntdq")]
unsafe fn one<const BLOCKS: usize, const WHOLE: bool>(
    table: &Sketches<'_>,
    planes: &[[__m512i; 4]; BLOCKS],
    id: u32,
) -> __m512i {
    let mut sum = _mm512_setzero_si512();
    let row = table.lines.as_ptr().wrapping_add(id as usize * table.stride);
    for (block, planes) in planes.iter().enumerate() {
        let from = block * LANES;
        let words = row.wrapping_add(from).cast();
        let code = if WHOLE {
            // SAFETY: `id` is at most `table.last()`, so the table holds the `stride` words from `row` on, and `WHOLE`
            // says that these are at least `8 * BLOCKS`.
            unsafe { _mm512_loadu_si512(words) }
        } else {
            // SAFETY: as above, and the mask names no word past the `words <= stride` of the sketch.
            unsafe { _mm512_maskz_loadu_epi64(first(table.words.saturating_sub(from)), words.cast()) }
        };
        sum = add_weighted(sum, planes, code);
    }
    sum
}

/// Sketches of any length.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512vnni,avx512vpopcntdq")]
fn long(table: &Sketches<'_>, ids: &[u32], out: &mut [i32]) {
    for (ids, out) in ids.chunks(LANES).zip(out.chunks_mut(LANES)) {
        let mut sums = [_mm512_setzero_si512(); LANES];
        let mut found = 0u8;
        for (lane, id) in ids.iter().take(LANES).enumerate() {
            let Some(line) = table.line(*id) else { continue };
            found |= 1 << lane;
            for (block, code) in line[..table.words].chunks(LANES).enumerate() {
                sums[lane] = add_weighted(sums[lane], &planes_of(table, block), load_rest(code));
            }
        }
        let mut totals = [0; LANES];
        finish(&sums, found, &mut totals);
        out.copy_from_slice(&totals[..ids.len()]);
    }
}

/// In the lower half of each 64 bits: `sums`, and the bits shared with each plane, weighted 1, 2, 4 and -8.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni,avx512vpopcntdq")]
fn add_weighted(sums: __m512i, planes: &[__m512i; 4], code: __m512i) -> __m512i {
    let ones = _mm512_popcnt_epi64(_mm512_and_si512(code, planes[0]));
    let twos = _mm512_popcnt_epi64(_mm512_and_si512(code, planes[1]));
    let fours = _mm512_popcnt_epi64(_mm512_and_si512(code, planes[2]));
    let eights = _mm512_popcnt_epi64(_mm512_and_si512(code, planes[3]));
    let sums = _mm512_dpbusd_epi32(_mm512_add_epi32(sums, ones), twos, _mm512_set1_epi32(2));
    _mm512_dpbusd_epi32(
        _mm512_dpbusd_epi32(sums, fours, _mm512_set1_epi32(4)),
        eights,
        _mm512_set1_epi32(0xF8),
    )
}

/// The sum of each register's lanes; `i32::MIN` for an id that was not found.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn finish(sums: &[__m512i; LANES], found: u8, out: &mut [i32; LANES]) {
    store(
        out,
        _mm256_mask_mov_epi32(_mm256_set1_epi32(i32::MIN), found, totals(sums)),
    );
}

/// The sum of each register's eight 64-bit lanes, of which the lower halves count: halves the number of registers three
/// times.
#[inline]
#[target_feature(enable = "avx512f")]
fn totals(s: &[__m512i; LANES]) -> __m256i {
    let left = add_halves(interleave(s[0], s[1]), interleave(s[2], s[3]));
    let right = add_halves(interleave(s[4], s[5]), interleave(s[6], s[7]));
    // Quarters 0 and 2 of both, plus quarters 1 and 3; then the two that belong together.
    let quarters = _mm512_add_epi32(
        _mm512_shuffle_i32x4::<0x88>(left, right),
        _mm512_shuffle_i32x4::<0xDD>(left, right),
    );
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
