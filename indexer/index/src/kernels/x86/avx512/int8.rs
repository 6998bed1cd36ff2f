//! Inner product of int8 and u8 by VNNI: `vpdpbusd` adds four products to each 32-bit sum, without saturation.

use std::arch::x86_64::{
    __m128i, __m512i, _mm_add_epi32, _mm256_add_epi32, _mm256_castsi256_si128, _mm256_extracti128_si256,
    _mm256_hadd_epi32, _mm256_setzero_si256, _mm512_add_epi32, _mm512_castsi512_si256, _mm512_dpbusd_epi32,
    _mm512_extracti64x4_epi64, _mm512_maskz_loadu_epi8, _mm512_reduce_add_epi32, _mm512_setzero_si512,
};

use zerocopy::{IntoBytes as _, transmute};

use crate::kernels::sums::{one_by_one, sums, sums_of_four};

/// Values of one register.
const LANES: usize = 64;

/// At most 64 values, then zeros.
#[expect(unsafe_code, reason = "masked vector load")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_rest(bytes: &[u8]) -> __m512i {
    let first = 1u64.checked_shl(bytes.len() as u32).map_or(u64::MAX, |bit| bit - 1);
    // SAFETY: the mask names no byte beyond the slice, and a masked load touches nothing else.
    unsafe { _mm512_maskz_loadu_epi8(first, bytes.as_ptr().cast()) }
}

/// The sum of each register's 16 lanes.
#[inline]
#[target_feature(enable = "avx512f,avx2")]
fn totals(sums: [__m512i; 4]) -> [i32; 4] {
    let mut halves = [_mm256_setzero_si256(); 4];
    for (half, sum) in halves.iter_mut().zip(sums) {
        *half = _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum));
    }
    let [a, b, c, d] = halves;
    let quarters = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    let all: __m128i = _mm_add_epi32(
        _mm256_castsi256_si128(quarters),
        _mm256_extracti128_si256::<1>(quarters),
    );
    transmute!(all)
}

/// Inner product.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(in super::super) fn dot_i8(query: &[i8], row: &[u8]) -> i32 {
    let [even, odd] = sums(
        query,
        row,
        _mm512_setzero_si512(),
        |sum, q: &[i8; LANES], r: &[u8; LANES]| _mm512_dpbusd_epi32(sum, transmute!(*r), transmute!(*q)),
        |sum, q, r| _mm512_dpbusd_epi32(sum, load_rest(r), load_rest(q.as_bytes())),
    );
    _mm512_reduce_add_epi32(_mm512_add_epi32(even, odd))
}

/// Inner products of one query and four rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2")]
pub(in super::super) fn dot_i8_x4(query: &[i8], rows: &[&[u8]; 4]) -> [i32; 4] {
    let add = |sums: [__m512i; 4], q: __m512i, rows: [__m512i; 4]| {
        [
            _mm512_dpbusd_epi32(sums[0], rows[0], q),
            _mm512_dpbusd_epi32(sums[1], rows[1], q),
            _mm512_dpbusd_epi32(sums[2], rows[2], q),
            _mm512_dpbusd_epi32(sums[3], rows[3], q),
        ]
    };
    let sums = sums_of_four(
        query,
        rows,
        _mm512_setzero_si512(),
        |sums, q: &[i8; LANES], [a, b, c, d]: [&[u8; LANES]; 4]| {
            add(
                sums,
                transmute!(*q),
                [transmute!(*a), transmute!(*b), transmute!(*c), transmute!(*d)],
            )
        },
        |sums, q, [a, b, c, d]| {
            add(
                sums,
                load_rest(q.as_bytes()),
                [load_rest(a), load_rest(b), load_rest(c), load_rest(d)],
            )
        },
    );
    match sums {
        Some(sums) => totals(sums),
        None => one_by_one(rows, |row| dot_i8(query, row)),
    }
}
