//! Blocks of sketches by `vpshufb`: two registers hold a byte of all 64 rows.

use std::arch::x86_64::{
    __m128i, __m256i, _CMP_GE_OQ, _mm_setzero_si128, _mm_unpackhi_epi8, _mm_unpackhi_epi16, _mm_unpackhi_epi32,
    _mm_unpacklo_epi8, _mm_unpacklo_epi16, _mm_unpacklo_epi32, _mm256_add_epi8, _mm256_add_epi16, _mm256_add_epi32,
    _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_castsi256_si128, _mm256_cmp_ps, _mm256_cvtepu16_epi32,
    _mm256_extracti128_si256, _mm256_movemask_ps, _mm256_set1_epi8, _mm256_set1_ps, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_slli_epi16, _mm256_srli_epi16, _mm256_sub_epi16,
};

use zerocopy::transmute;

use crate::kernels::fast_scan::{BLOCK_ROWS, BlockFactors, Lookup, ROUND, estimate_all, line, row_at};

/// Rows of one register of bytes, and of one of sums or estimates.
const PLACES: usize = 32;
const LANES: usize = 8;

/// The entries of a byte of 32 rows: at most twice the largest.
#[inline]
#[target_feature(enable = "avx2")]
fn looked_up(low: __m256i, high: __m256i, bytes: &[u8; PLACES]) -> __m256i {
    let (half, bytes): (__m256i, __m256i) = (_mm256_set1_epi8(15), transmute!(*bytes));
    let low = _mm256_shuffle_epi8(low, _mm256_and_si256(bytes, half));
    let high = _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half));
    _mm256_add_epi8(low, high)
}

/// The sums of the rows' entries, eight rows in each register.
#[inline]
#[target_feature(enable = "avx2")]
fn sums(tables: &[[u8; 32]], bytes: &[[u8; BLOCK_ROWS]]) -> [__m256i; BLOCK_ROWS / LANES] {
    let mut sums = [_mm256_setzero_si256(); BLOCK_ROWS / LANES];
    for (tables, bytes) in tables.chunks(ROUND).zip(bytes.chunks(ROUND)) {
        // Of each half of the places: those of even ones plus 256 times those of odd ones, and of odd ones.
        let (mut all, mut odd) = ([_mm256_setzero_si256(); 2], [_mm256_setzero_si256(); 2]);
        for (tables, bytes) in tables.chunks(4).zip(bytes.chunks(4)) {
            let mut four = [_mm256_setzero_si256(); 2];
            for (table, bytes) in tables.iter().zip(bytes) {
                let ([low, high], _) = table.as_chunks::<16>() else {
                    continue;
                };
                let (low, high): (__m128i, __m128i) = (transmute!(*low), transmute!(*high));
                let (low, high) = (_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high));
                for (sum, bytes) in four.iter_mut().zip(bytes.as_chunks::<PLACES>().0) {
                    *sum = _mm256_add_epi8(*sum, looked_up(low, high, bytes));
                }
            }
            for half in 0..2 {
                all[half] = _mm256_add_epi16(all[half], four[half]);
                odd[half] = _mm256_add_epi16(odd[half], _mm256_srli_epi16::<8>(four[half]));
            }
        }
        let even = [0, 1].map(|half| _mm256_sub_epi16(all[half], _mm256_slli_epi16::<8>(odd[half])));
        for (sums, sixteen) in sums
            .as_chunks_mut::<2>()
            .0
            .iter_mut()
            .zip([even[0], even[1], odd[0], odd[1]])
        {
            let eights = [_mm256_castsi256_si128(sixteen), _mm256_extracti128_si256::<1>(sixteen)];
            for (sum, eight) in sums.iter_mut().zip(eights) {
                *sum = _mm256_add_epi32(*sum, _mm256_cvtepu16_epi32(eight));
            }
        }
    }
    sums
}

/// See [`crate::kernels::FastScanFn`].
#[target_feature(enable = "avx2")]
pub(in super::super) fn fast_scan(
    lookup: &Lookup,
    bytes: &[[u8; BLOCK_ROWS]],
    factors: &BlockFactors,
    estimates: &mut [f32; BLOCK_ROWS],
) {
    // Tables and bytes are of one length where they come from: the chunks of both must begin together.
    let count = lookup.tables.len().min(bytes.len());
    let sums: [i32; BLOCK_ROWS] = transmute!(sums(&lookup.tables[..count], &bytes[..count]));
    estimate_all(lookup, &sums, factors, estimates);
}

/// See [`crate::kernels::NotBelowFn`].
#[target_feature(enable = "avx2")]
pub(in super::super) fn not_below(estimates: &[f32; BLOCK_ROWS], least: f32) -> u64 {
    let (mut found, least) = (0, _mm256_set1_ps(least));
    for (at, estimates) in estimates.as_chunks::<LANES>().0.iter().enumerate() {
        let is_high = _mm256_cmp_ps::<_CMP_GE_OQ>(transmute!(*estimates), least);
        found |= u64::from(_mm256_movemask_ps(is_high).cast_unsigned()) << (at * LANES);
    }
    found
}

/// Two words of eight rows, interleaved three times: register `4 * word + pair` holds byte `2 * pair` of the word of
/// all eight rows, then byte `2 * pair + 1` of them.
#[inline]
#[target_feature(enable = "avx2")]
fn interleaved(r: [__m128i; 8]) -> [__m128i; 8] {
    let of_word = |pairs: [__m128i; 4]| {
        let [first, second] = [
            _mm_unpacklo_epi16(pairs[0], pairs[1]),
            _mm_unpacklo_epi16(pairs[2], pairs[3]),
        ];
        let [third, fourth] = [
            _mm_unpackhi_epi16(pairs[0], pairs[1]),
            _mm_unpackhi_epi16(pairs[2], pairs[3]),
        ];
        [
            _mm_unpacklo_epi32(first, second),
            _mm_unpackhi_epi32(first, second),
            _mm_unpacklo_epi32(third, fourth),
            _mm_unpackhi_epi32(third, fourth),
        ]
    };
    let first = of_word([
        _mm_unpacklo_epi8(r[0], r[1]),
        _mm_unpacklo_epi8(r[2], r[3]),
        _mm_unpacklo_epi8(r[4], r[5]),
        _mm_unpacklo_epi8(r[6], r[7]),
    ]);
    let second = of_word([
        _mm_unpackhi_epi8(r[0], r[1]),
        _mm_unpackhi_epi8(r[2], r[3]),
        _mm_unpackhi_epi8(r[4], r[5]),
        _mm_unpackhi_epi8(r[6], r[7]),
    ]);
    [
        first[0], first[1], first[2], first[3], second[0], second[1], second[2], second[3],
    ]
}

/// See [`crate::kernels::TransposeFn`].
#[target_feature(enable = "avx2")]
pub(in super::super) fn transpose(lines: &[u64], stride: usize, ids: &[u32], bytes: &mut [[u8; BLOCK_ROWS]]) {
    for group in 0..BLOCK_ROWS / 8 {
        let rows: [&[u64]; 8] = std::array::from_fn(|place| line(lines, stride, ids, row_at(group * 8 + place)));
        for (at, bytes) in bytes.chunks_mut(2 * size_of::<u64>()).enumerate() {
            let words = |row: &[u64]| match row.get(at * 2..).unwrap_or(&[]) {
                [first, second, ..] => transmute!([*first, *second]),
                [first] => transmute!([*first, 0]),
                [] => _mm_setzero_si128(),
            };
            for (register, pair) in interleaved(rows.map(words)).into_iter().enumerate() {
                let pair: [[u8; 8]; 2] = transmute!(pair);
                for (to, byte) in bytes.iter_mut().skip(register * 2).zip(pair) {
                    to[group * 8..group * 8 + 8].copy_from_slice(&byte);
                }
            }
        }
    }
}
