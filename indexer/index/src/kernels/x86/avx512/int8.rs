//! Inner product of int8 and u8 by VNNI: `vpdpbusd` adds four products to each 32-bit sum, without saturation.

use std::arch::x86_64::{
    __m128i, __m512i, _mm_add_epi32, _mm_storeu_si128, _mm256_add_epi32, _mm256_castsi256_si128,
    _mm256_extracti128_si256, _mm256_hadd_epi32, _mm256_setzero_si256, _mm512_add_epi32, _mm512_castsi512_si256,
    _mm512_dpbusd_epi32, _mm512_extracti64x4_epi64, _mm512_loadu_si512, _mm512_maskz_loadu_epi8,
    _mm512_reduce_add_epi32, _mm512_setzero_si512,
};

/// Values of one register.
const LANES: usize = 64;

#[expect(unsafe_code, reason = "vector load")]
#[inline]
#[target_feature(enable = "avx512f")]
fn load<T: Byte>(values: &[T; LANES]) -> __m512i {
    // SAFETY: the array is 64 values of one byte (`Byte`), which is what the instruction reads, at any alignment.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

/// At most 64 values, then zeros.
#[expect(unsafe_code, reason = "masked vector load")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_rest<T: Byte>(values: &[T]) -> __m512i {
    let first = 1u64.checked_shl(values.len() as u32).map_or(u64::MAX, |bit| bit - 1);
    // SAFETY: the mask names no value beyond the slice, and a masked load touches nothing else. Values are one byte (`Byte`).
    unsafe { _mm512_maskz_loadu_epi8(first, values.as_ptr().cast()) }
}

/// Integers of one byte.
trait Byte: Copy {}
impl Byte for i8 {}
impl Byte for u8 {}

/// Inner product.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(in super::super) fn dot_i8(query: &[i8], row: &[u8]) -> i32 {
    let len = query.len().min(row.len());
    let (query, query_rest) = query[..len].as_chunks::<LANES>();
    let (row, row_rest) = row[..len].as_chunks::<LANES>();
    let (query_pairs, query_last) = query.as_chunks::<2>();
    let (row_pairs, row_last) = row.as_chunks::<2>();
    let mut even = _mm512_setzero_si512();
    let mut odd = _mm512_setzero_si512();
    for (q, r) in query_pairs.iter().zip(row_pairs) {
        even = _mm512_dpbusd_epi32(even, load(&r[0]), load(&q[0]));
        odd = _mm512_dpbusd_epi32(odd, load(&r[1]), load(&q[1]));
    }
    for (q, r) in query_last.iter().zip(row_last) {
        even = _mm512_dpbusd_epi32(even, load(r), load(q));
    }
    if !query_rest.is_empty() {
        odd = _mm512_dpbusd_epi32(odd, load_rest(row_rest), load_rest(query_rest));
    }
    _mm512_reduce_add_epi32(_mm512_add_epi32(even, odd))
}

/// The same where a row is shorter than the query: not for speed.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2")]
fn one_by_one(query: &[i8], rows: &[&[u8]; 4]) -> [i32; 4] {
    [dot_i8(query, rows[0]), dot_i8(query, rows[1]), dot_i8(query, rows[2]), dot_i8(query, rows[3])]
}

/// Inner products of one query and four rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2")]
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
    let mut sums = [_mm512_setzero_si512(); 4];
    for (i, q) in query.iter().enumerate() {
        let q = load(q);
        sums[0] = _mm512_dpbusd_epi32(sums[0], load(&r0[i]), q);
        sums[1] = _mm512_dpbusd_epi32(sums[1], load(&r1[i]), q);
        sums[2] = _mm512_dpbusd_epi32(sums[2], load(&r2[i]), q);
        sums[3] = _mm512_dpbusd_epi32(sums[3], load(&r3[i]), q);
    }
    if !query_rest.is_empty() {
        let q = load_rest(query_rest);
        sums[0] = _mm512_dpbusd_epi32(sums[0], load_rest(r0_rest), q);
        sums[1] = _mm512_dpbusd_epi32(sums[1], load_rest(r1_rest), q);
        sums[2] = _mm512_dpbusd_epi32(sums[2], load_rest(r2_rest), q);
        sums[3] = _mm512_dpbusd_epi32(sums[3], load_rest(r3_rest), q);
    }
    totals(sums)
}

/// The sum of each register's 16 lanes.
#[expect(unsafe_code, reason = "vector store")]
#[inline]
#[target_feature(enable = "avx512f,avx2")]
fn totals(sums: [__m512i; 4]) -> [i32; 4] {
    let mut halves = [_mm256_setzero_si256(); 4];
    for (half, sum) in halves.iter_mut().zip(sums) {
        *half = _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum));
    }
    let [a, b, c, d] = halves;
    let quarters = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    let all: __m128i = _mm_add_epi32(_mm256_castsi256_si128(quarters), _mm256_extracti128_si256::<1>(quarters));
    let mut out = [0i32; 4];
    // SAFETY: `out` is 16 bytes, which is what the instruction writes, at any alignment.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), all) };
    out
}
