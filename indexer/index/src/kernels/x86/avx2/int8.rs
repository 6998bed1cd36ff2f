//! Inner product of int8 and u8: both widened to 16 bits and multiplied by `vpmaddwd`, which adds two products to 32
//! bits. (`vpmaddubsw` would take bytes, but its 16-bit sums saturate.)

use std::arch::x86_64::{
    __m128i, __m256i, _mm_add_epi32, _mm256_add_epi32, _mm256_castsi256_si128, _mm256_cvtepi8_epi16,
    _mm256_cvtepu8_epi16, _mm256_extracti128_si256, _mm256_hadd_epi32, _mm256_madd_epi16, _mm256_setzero_si256,
};

use zerocopy::transmute;

use crate::kernels::sums::{one_by_one, padded_sums, padded_sums_of_four};

/// Values of one register, once widened.
const LANES: usize = 16;

#[inline]
#[target_feature(enable = "avx2")]
fn load_query(values: &[i8; LANES]) -> __m256i {
    _mm256_cvtepi8_epi16(transmute!(*values))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_row(values: &[u8; LANES]) -> __m256i {
    _mm256_cvtepu8_epi16(transmute!(*values))
}

/// `sum` and the products of a widened query and row.
#[inline]
#[target_feature(enable = "avx2")]
fn add(sum: __m256i, query: __m256i, row: &[u8; LANES]) -> __m256i {
    _mm256_add_epi32(sum, _mm256_madd_epi16(query, load_row(row)))
}

/// The sum of each register's 8 lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn totals(sums: [__m256i; 4]) -> [i32; 4] {
    let [a, b, c, d] = sums;
    let halves = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    let all: __m128i = _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
    transmute!(all)
}

/// Inner product.
#[target_feature(enable = "avx2")]
pub(in super::super) fn dot_i8(query: &[i8], row: &[u8]) -> i32 {
    let zero = _mm256_setzero_si256();
    let [even, odd] = padded_sums(query, row, zero, |sum, q, r| add(sum, load_query(q), r));
    totals([even, odd, zero, zero])
        .iter()
        .fold(0i32, |sum, part| sum.wrapping_add(*part))
}

/// Inner products of one query and four rows.
#[target_feature(enable = "avx2")]
pub(in super::super) fn dot_i8_x4(query: &[i8], rows: &[&[u8]; 4]) -> [i32; 4] {
    let sums = padded_sums_of_four(
        query,
        rows,
        _mm256_setzero_si256(),
        |sums: [__m256i; 4], q, [r0, r1, r2, r3]| {
            let q = load_query(q);
            [
                add(sums[0], q, r0),
                add(sums[1], q, r1),
                add(sums[2], q, r2),
                add(sums[3], q, r3),
            ]
        },
    );
    match sums {
        Some(sums) => totals(sums),
        None => one_by_one(rows, |row| dot_i8(query, row)),
    }
}
