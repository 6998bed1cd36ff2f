//! Blocks of sketches by `vpshufb`: one register holds a byte of all 64 rows.
//!
//! Per byte: one load of the rows, two of tables, two lookups and two additions; every four bytes, sums are widened to
//! 16 bits.

use std::arch::x86_64::{
    __m256i, __m512i, _CMP_GE_OQ, _mm_loadu_si128, _mm512_add_epi8, _mm512_add_epi16, _mm512_add_epi32, _mm512_add_ps,
    _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_castsi512_si256, _mm512_cmp_ps_mask, _mm512_cvtepi32_ps,
    _mm512_cvtepu16_epi32, _mm512_extracti64x4_epi64, _mm512_maskz_loadu_epi64, _mm512_mul_ps, _mm512_set1_epi8,
    _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_shuffle_i32x4,
    _mm512_slli_epi16, _mm512_slli_epi32, _mm512_srli_epi16, _mm512_sub_epi16, _mm512_unpackhi_epi8,
    _mm512_unpackhi_epi16, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi8, _mm512_unpacklo_epi16,
    _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use zerocopy::transmute;

use crate::kernels::fast_scan::{BLOCK_ROWS, BlockFactors, Lookup, ROUND, line, row_at};

/// Rows of one register of estimates.
const LANES: usize = 16;

/// The 16 entries of a half byte, in each quarter of a register.
#[expect(unsafe_code, reason = "vector load that is broadcast from memory")]
#[inline]
#[target_feature(enable = "avx512f")]
fn entries(table: &[u8; 16]) -> __m512i {
    // SAFETY: the table has the 16 bytes that are read.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
}

/// The entries of a byte of all rows: at most twice the largest.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn looked_up(table: &[u8; 32], bytes: &[u8; BLOCK_ROWS]) -> __m512i {
    let (half, bytes): (__m512i, __m512i) = (_mm512_set1_epi8(15), transmute!(*bytes));
    let ([low, high], _) = table.as_chunks::<16>() else {
        return _mm512_setzero_si512();
    };
    let low = _mm512_shuffle_epi8(entries(low), _mm512_and_si512(bytes, half));
    let high = _mm512_shuffle_epi8(entries(high), _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), half));
    _mm512_add_epi8(low, high)
}

/// The sums of the rows' entries, 16 rows in each register.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn sums(tables: &[[u8; 32]], bytes: &[[u8; BLOCK_ROWS]]) -> [__m512i; BLOCK_ROWS / LANES] {
    let mut sums = [_mm512_setzero_si512(); BLOCK_ROWS / LANES];
    for (tables, bytes) in tables.chunks(ROUND).zip(bytes.chunks(ROUND)) {
        // Of even places plus 256 times those of odd ones, and of odd ones.
        let (mut all, mut odd) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        let (four_tables, rest_tables) = tables.as_chunks::<4>();
        let (four_bytes, rest_bytes) = bytes.as_chunks::<4>();
        for (tables, bytes) in four_tables.iter().zip(four_bytes) {
            let first = _mm512_add_epi8(looked_up(&tables[0], &bytes[0]), looked_up(&tables[1], &bytes[1]));
            let second = _mm512_add_epi8(looked_up(&tables[2], &bytes[2]), looked_up(&tables[3], &bytes[3]));
            let four = _mm512_add_epi8(first, second);
            all = _mm512_add_epi16(all, four);
            odd = _mm512_add_epi16(odd, _mm512_srli_epi16::<8>(four));
        }
        for (table, bytes) in rest_tables.iter().zip(rest_bytes) {
            let one = looked_up(table, bytes);
            all = _mm512_add_epi16(all, one);
            odd = _mm512_add_epi16(odd, _mm512_srli_epi16::<8>(one));
        }
        let even = _mm512_sub_epi16(all, _mm512_slli_epi16::<8>(odd));
        let halves: [__m256i; BLOCK_ROWS / LANES] = [
            _mm512_castsi512_si256(even),
            _mm512_extracti64x4_epi64::<1>(even),
            _mm512_castsi512_si256(odd),
            _mm512_extracti64x4_epi64::<1>(odd),
        ];
        for (sum, half) in sums.iter_mut().zip(halves) {
            *sum = _mm512_add_epi32(*sum, _mm512_cvtepu16_epi32(half));
        }
    }
    sums
}

/// See [`crate::kernels::FastScanFn`].
#[target_feature(enable = "avx512f,avx512bw")]
pub(in super::super) fn fast_scan(
    lookup: &Lookup,
    bytes: &[[u8; BLOCK_ROWS]],
    factors: &BlockFactors,
    estimates: &mut [f32; BLOCK_ROWS],
) {
    let (shift, scale, base) = (
        _mm512_set1_epi32(lookup.shift),
        _mm512_set1_ps(lookup.scale),
        _mm512_set1_ps(lookup.base),
    );
    let (by_bias, optimism) = (_mm512_set1_ps(lookup.bias), _mm512_set1_ps(lookup.optimism));
    // Tables and bytes are of one length where they come from: the chunks of both must begin together.
    let count = lookup.tables.len().min(bytes.len());
    let sums = sums(&lookup.tables[..count], &bytes[..count]);
    let ((sketch, _), (bias, _)) = (factors.sketch.as_chunks::<LANES>(), factors.bias.as_chunks::<LANES>());
    let ((error, _), (estimates, _)) = (factors.error.as_chunks::<LANES>(), estimates.as_chunks_mut::<LANES>());
    for at in 0..BLOCK_ROWS / LANES {
        let product = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32::<1>(sums[at]), shift));
        let product = _mm512_mul_ps(product, _mm512_mul_ps(scale, transmute!(sketch[at])));
        let estimate = _mm512_add_ps(
            _mm512_add_ps(product, _mm512_mul_ps(by_bias, transmute!(bias[at]))),
            base,
        );
        let estimate = _mm512_add_ps(estimate, _mm512_mul_ps(optimism, transmute!(error[at])));
        estimates[at] = transmute!(estimate);
    }
}

/// See [`crate::kernels::NotBelowFn`].
#[target_feature(enable = "avx512f")]
pub(in super::super) fn not_below(estimates: &[f32; BLOCK_ROWS], least: f32) -> u64 {
    let (mut found, least) = (0, _mm512_set1_ps(least));
    for (at, estimates) in estimates.as_chunks::<LANES>().0.iter().enumerate() {
        found |= u64::from(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(transmute!(*estimates), least)) << (at * LANES);
    }
    found
}

/// Words of one register.
const WORDS: usize = 8;

/// At most 8 words, then zeros.
#[expect(unsafe_code, reason = "masked vector load")]
#[inline]
#[target_feature(enable = "avx512f")]
fn load_words(words: &[u64]) -> __m512i {
    let first = ((1u32 << words.len().min(8)) - 1) as u8;
    // SAFETY: the mask names no word beyond the slice, and a masked load touches nothing else.
    unsafe { _mm512_maskz_loadu_epi64(first, words.as_ptr().cast()) }
}

/// Eight rows of eight words, interleaved three times. Register `4 * half + pair` holds in quarter `q` byte `2 * pair`
/// of word `2 * q + half` of all eight rows, then byte `2 * pair + 1` of them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn interleaved(r: &[__m512i; 8]) -> [__m512i; 8] {
    let of_half = |pairs: [__m512i; 4]| {
        let [first, second] = [
            _mm512_unpacklo_epi16(pairs[0], pairs[1]),
            _mm512_unpacklo_epi16(pairs[2], pairs[3]),
        ];
        let [third, fourth] = [
            _mm512_unpackhi_epi16(pairs[0], pairs[1]),
            _mm512_unpackhi_epi16(pairs[2], pairs[3]),
        ];
        [
            _mm512_unpacklo_epi32(first, second),
            _mm512_unpackhi_epi32(first, second),
            _mm512_unpacklo_epi32(third, fourth),
            _mm512_unpackhi_epi32(third, fourth),
        ]
    };
    let lower = of_half([
        _mm512_unpacklo_epi8(r[0], r[1]),
        _mm512_unpacklo_epi8(r[2], r[3]),
        _mm512_unpacklo_epi8(r[4], r[5]),
        _mm512_unpacklo_epi8(r[6], r[7]),
    ]);
    let upper = of_half([
        _mm512_unpackhi_epi8(r[0], r[1]),
        _mm512_unpackhi_epi8(r[2], r[3]),
        _mm512_unpackhi_epi8(r[4], r[5]),
        _mm512_unpackhi_epi8(r[6], r[7]),
    ]);
    [
        lower[0], lower[1], lower[2], lower[3], upper[0], upper[1], upper[2], upper[3],
    ]
}

/// Lane `l` of register `g`, of 64 bits, becomes lane `g` of register `l`.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(t: &[__m512i; 8]) -> [__m512i; 8] {
    let quarters = |a: __m512i, b: __m512i, c: __m512i, d: __m512i| {
        let [low, low_after] = [_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d)];
        let [high, high_after] = [_mm512_shuffle_i32x4::<0xEE>(a, b), _mm512_shuffle_i32x4::<0xEE>(c, d)];
        [
            _mm512_shuffle_i32x4::<0x88>(low, low_after),
            _mm512_shuffle_i32x4::<0xDD>(low, low_after),
            _mm512_shuffle_i32x4::<0x88>(high, high_after),
            _mm512_shuffle_i32x4::<0xDD>(high, high_after),
        ]
    };
    let even = quarters(
        _mm512_unpacklo_epi64(t[0], t[1]),
        _mm512_unpacklo_epi64(t[2], t[3]),
        _mm512_unpacklo_epi64(t[4], t[5]),
        _mm512_unpacklo_epi64(t[6], t[7]),
    );
    let odd = quarters(
        _mm512_unpackhi_epi64(t[0], t[1]),
        _mm512_unpackhi_epi64(t[2], t[3]),
        _mm512_unpackhi_epi64(t[4], t[5]),
        _mm512_unpackhi_epi64(t[6], t[7]),
    );
    [even[0], odd[0], even[1], odd[1], even[2], odd[2], even[3], odd[3]]
}

/// See [`crate::kernels::TransposeFn`].
#[target_feature(enable = "avx512f,avx512bw")]
pub(in super::super) fn transpose(lines: &[u64], stride: usize, ids: &[u32], bytes: &mut [[u8; BLOCK_ROWS]]) {
    for (at, bytes) in bytes.chunks_mut(WORDS * size_of::<u64>()).enumerate() {
        let words = |row: usize| {
            let words = line(lines, stride, ids, row).get(at * 8..).unwrap_or(&[]);
            words
                .first_chunk::<8>()
                .map_or_else(|| load_words(words), |words| transmute!(*words))
        };
        let groups: [[__m512i; 8]; BLOCK_ROWS / 8] =
            std::array::from_fn(|group| interleaved(&std::array::from_fn(|place| words(row_at(group * 8 + place)))));
        for (half, pair) in (0..2).flat_map(|half| (0..4).map(move |pair| (half, pair))) {
            let lanes = transposed(&std::array::from_fn(|group| groups[group][4 * half + pair]));
            for (lane, values) in lanes.into_iter().enumerate() {
                if let Some(to) = bytes.get_mut((lane / 2 * 2 + half) * 8 + pair * 2 + lane % 2) {
                    *to = transmute!(values);
                }
            }
        }
    }
}
