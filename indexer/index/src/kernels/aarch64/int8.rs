//! Inner product of int8 and u8: both widened to 16 bits and multiplied into sums of 32 bits by `smlal`.
//! (The dot-product instructions would take bytes, but have no stable form in Rust yet.)

use std::arch::aarch64::{
    int16x8_t, int32x4_t, vaddq_s32, vaddvq_s32, vdupq_n_s32, vget_high_s8, vget_high_u8, vget_low_s8, vget_low_s16,
    vget_low_u8, vld1q_s8, vld1q_u8, vmlal_high_s16, vmlal_s16, vmovl_s8, vmovl_u8, vreinterpretq_s16_u16,
};

use crate::kernels::padding::padded;

/// Values of one load: two registers, once widened.
const LANES: usize = 16;

#[expect(unsafe_code, reason = "vector load")]
#[inline]
#[target_feature(enable = "neon")]
fn load_query(values: &[i8; LANES]) -> [int16x8_t; 2] {
    // SAFETY: the array is 16 values of one byte, which is what the instruction reads.
    let bytes = unsafe { vld1q_s8(values.as_ptr()) };
    [vmovl_s8(vget_low_s8(bytes)), vmovl_s8(vget_high_s8(bytes))]
}

#[expect(unsafe_code, reason = "vector load")]
#[inline]
#[target_feature(enable = "neon")]
fn load_row(values: &[u8; LANES]) -> [int16x8_t; 2] {
    // SAFETY: the array is 16 values of one byte, which is what the instruction reads.
    let bytes = unsafe { vld1q_u8(values.as_ptr()) };
    // 0..=255 is the same number in u16 and i16.
    [vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes))), vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(bytes)))]
}

/// `sums` and the products of a widened query and a row.
#[inline]
#[target_feature(enable = "neon")]
fn add(sums: [int32x4_t; 2], query: [int16x8_t; 2], row: &[u8; LANES]) -> [int32x4_t; 2] {
    let [low, high] = load_row(row);
    let first = vmlal_s16(sums[0], vget_low_s16(query[0]), vget_low_s16(low));
    let second = vmlal_high_s16(sums[1], query[0], low);
    [vmlal_s16(first, vget_low_s16(query[1]), vget_low_s16(high)), vmlal_high_s16(second, query[1], high)]
}

#[inline]
#[target_feature(enable = "neon")]
fn total(sums: [int32x4_t; 2]) -> i32 {
    vaddvq_s32(vaddq_s32(sums[0], sums[1]))
}

/// Inner product.
#[target_feature(enable = "neon")]
pub(super) fn dot_i8(query: &[i8], row: &[u8]) -> i32 {
    let len = query.len().min(row.len());
    let (query, query_rest) = query[..len].as_chunks::<LANES>();
    let (row, row_rest) = row[..len].as_chunks::<LANES>();
    let mut sums = [vdupq_n_s32(0); 2];
    for (q, r) in query.iter().zip(row) {
        sums = add(sums, load_query(q), r);
    }
    if !query_rest.is_empty() {
        sums = add(sums, load_query(&padded(query_rest)), &padded(row_rest));
    }
    total(sums)
}

/// The same where a row is shorter than the query: not for speed.
#[cold]
#[inline(never)]
#[target_feature(enable = "neon")]
fn one_by_one(query: &[i8], rows: &[&[u8]; 4]) -> [i32; 4] {
    [dot_i8(query, rows[0]), dot_i8(query, rows[1]), dot_i8(query, rows[2]), dot_i8(query, rows[3])]
}

/// Inner products of one query and four rows.
#[target_feature(enable = "neon")]
pub(super) fn dot_i8_x4(query: &[i8], rows: &[&[u8]; 4]) -> [i32; 4] {
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
    let mut sums = [[vdupq_n_s32(0); 2]; 4];
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
    [total(sums[0]), total(sums[1]), total(sums[2]), total(sums[3])]
}
