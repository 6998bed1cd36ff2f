//! Inner product of int8 and u8: both widened to 16 bits and multiplied by `vpmaddwd`, which adds two products to 32 bits.
//! (`vpmaddubsw` would take bytes, but its 16-bit sums saturate.)

use std::arch::x86_64::{
    __m128i, __m256i, _mm_add_epi32, _mm_loadu_si128, _mm_storeu_si128, _mm256_add_epi32, _mm256_castsi256_si128,
    _mm256_cvtepi8_epi16, _mm256_cvtepu8_epi16, _mm256_extracti128_si256, _mm256_hadd_epi32, _mm256_madd_epi16,
    _mm256_setzero_si256,
};

use crate::kernels::padding::padded;

/// Values of one register, once widened.
const LANES: usize = 16;

#[expect(unsafe_code, reason = "vector load")]
#[inline]
#[target_feature(enable = "avx2")]
fn load_query(values: &[i8; LANES]) -> __m256i {
    // SAFETY: the array is 16 values of one byte, which is what the instruction reads, at any alignment.
    _mm256_cvtepi8_epi16(unsafe { _mm_loadu_si128(values.as_ptr().cast()) })
}

#[expect(unsafe_code, reason = "vector load")]
#[inline]
#[target_feature(enable = "avx2")]
fn load_row(values: &[u8; LANES]) -> __m256i {
    // SAFETY: the array is 16 values of one byte, which is what the instruction reads, at any alignment.
    _mm256_cvtepu8_epi16(unsafe { _mm_loadu_si128(values.as_ptr().cast()) })
}

/// `sum` and the products of a widened query and row.
#[inline]
#[target_feature(enable = "avx2")]
fn add(sum: __m256i, query: __m256i, row: &[u8; LANES]) -> __m256i {
    _mm256_add_epi32(sum, _mm256_madd_epi16(query, load_row(row)))
}

/// The sum of each register's 8 lanes.
#[expect(unsafe_code, reason = "vector store")]
#[inline]
#[target_feature(enable = "avx2")]
fn totals(sums: [__m256i; 4]) -> [i32; 4] {
    let [a, b, c, d] = sums;
    let halves = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    let all: __m128i = _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
    let mut out = [0i32; 4];
    // SAFETY: `out` is 16 bytes, which is what the instruction writes, at any alignment.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), all) };
    out
}

/// Inner product.
#[target_feature(enable = "avx2")]
pub(in super::super) fn dot_i8(query: &[i8], row: &[u8]) -> i32 {
    let len = query.len().min(row.len());
    let (query, query_rest) = query[..len].as_chunks::<LANES>();
    let (row, row_rest) = row[..len].as_chunks::<LANES>();
    let (query_pairs, query_last) = query.as_chunks::<2>();
    let (row_pairs, row_last) = row.as_chunks::<2>();
    let mut sums = [_mm256_setzero_si256(); 4];
    for (q, r) in query_pairs.iter().zip(row_pairs) {
        sums[0] = add(sums[0], load_query(&q[0]), &r[0]);
        sums[1] = add(sums[1], load_query(&q[1]), &r[1]);
    }
    for (q, r) in query_last.iter().zip(row_last) {
        sums[2] = add(sums[2], load_query(q), r);
    }
    if !query_rest.is_empty() {
        sums[3] = add(sums[3], load_query(&padded(query_rest)), &padded(row_rest));
    }
    totals(sums).iter().fold(0i32, |sum, part| sum.wrapping_add(*part))
}

/// The same where a row is shorter than the query: not for speed.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2")]
fn one_by_one(query: &[i8], rows: &[&[u8]; 4]) -> [i32; 4] {
    [dot_i8(query, rows[0]), dot_i8(query, rows[1]), dot_i8(query, rows[2]), dot_i8(query, rows[3])]
}

/// Inner products of one query and four rows.
#[target_feature(enable = "avx2")]
pub(in super::super) fn dot_i8_x4(query: &[i8], rows: &[&[u8]; 4]) -> [i32; 4] {
    let len = query.len();
    if rows[0].len() < len || rows[1].len() < len || rows[2].len() < len || rows[3].len() < len {
        return one_by_one(query, rows);
    }
    // No closures here: they would not be compiled for the instruction set, and be called.
    let (query, query_rest) = query.as_chunks::<LANES>();
    let (r0, r0_rest) = rows[0][..len].as_chunks::<LANES>();
    let (r1, r1_rest) = rows[1][..len].as_chunks::<LANES>();
    let (r2, r2_rest) = rows[2][..len].as_chunks::<LANES>();
    let (r3, r3_rest) = rows[3][..len].as_chunks::<LANES>();
    let mut sums = [_mm256_setzero_si256(); 4];
    for (i, q) in query.iter().enumerate() {
        let q = load_query(q);
        sums[0] = add(sums[0], q, &r0[i]);
        sums[1] = add(sums[1], q, &r1[i]);
        sums[2] = add(sums[2], q, &r2[i]);
        sums[3] = add(sums[3], q, &r3[i]);
    }
    if !query_rest.is_empty() {
        let q = load_query(&padded(query_rest));
        sums[0] = add(sums[0], q, &padded(r0_rest));
        sums[1] = add(sums[1], q, &padded(r1_rest));
        sums[2] = add(sums[2], q, &padded(r2_rest));
        sums[3] = add(sums[3], q, &padded(r3_rest));
    }
    totals(sums)
}
