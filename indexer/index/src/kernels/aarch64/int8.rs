//! Inner product of int8 and u8: both widened to 16 bits and multiplied into sums of 32 bits by `smlal`.
//! (The dot-product instructions would take bytes, but have no stable form in Rust yet.)

use std::arch::aarch64::{
    int8x16_t, int16x8_t, int32x4_t, uint8x16_t, vaddq_s32, vaddvq_s32, vdupq_n_s32, vget_high_s8, vget_high_u8,
    vget_low_s8, vget_low_s16, vget_low_u8, vmlal_high_s16, vmlal_s16, vmovl_s8, vmovl_u8, vreinterpretq_s16_u16,
};

use zerocopy::transmute;

use crate::kernels::sums::{one_by_one, padded_sums, padded_sums_of_four};

/// Values of one load: two registers, once widened.
const LANES: usize = 16;

#[inline]
#[target_feature(enable = "neon")]
fn load_query(values: &[i8; LANES]) -> [int16x8_t; 2] {
    let bytes: int8x16_t = transmute!(*values);
    [vmovl_s8(vget_low_s8(bytes)), vmovl_s8(vget_high_s8(bytes))]
}

#[inline]
#[target_feature(enable = "neon")]
fn load_row(values: &[u8; LANES]) -> [int16x8_t; 2] {
    let bytes: uint8x16_t = transmute!(*values);
    // 0..=255 is the same number in u16 and i16.
    [
        vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes))),
        vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(bytes))),
    ]
}

/// `sums` and the products of a widened query and a row.
#[inline]
#[target_feature(enable = "neon")]
fn add(sums: [int32x4_t; 2], query: [int16x8_t; 2], row: &[u8; LANES]) -> [int32x4_t; 2] {
    let [low, high] = load_row(row);
    let first = vmlal_s16(sums[0], vget_low_s16(query[0]), vget_low_s16(low));
    let second = vmlal_high_s16(sums[1], query[0], low);
    [
        vmlal_s16(first, vget_low_s16(query[1]), vget_low_s16(high)),
        vmlal_high_s16(second, query[1], high),
    ]
}

#[inline]
#[target_feature(enable = "neon")]
fn total(sums: [int32x4_t; 2]) -> i32 {
    vaddvq_s32(vaddq_s32(sums[0], sums[1]))
}

/// Inner product.
#[target_feature(enable = "neon")]
pub(super) fn dot_i8(query: &[i8], row: &[u8]) -> i32 {
    let [sum] = padded_sums(query, row, [vdupq_n_s32(0); 2], |sum, q, r| add(sum, load_query(q), r));
    total(sum)
}

/// Inner products of one query and four rows.
#[target_feature(enable = "neon")]
pub(super) fn dot_i8_x4(query: &[i8], rows: &[&[u8]; 4]) -> [i32; 4] {
    let zero = [vdupq_n_s32(0); 2];
    let sums = padded_sums_of_four(query, rows, zero, |sums: [[int32x4_t; 2]; 4], q, [r0, r1, r2, r3]| {
        let q = load_query(q);
        [
            add(sums[0], q, r0),
            add(sums[1], q, r1),
            add(sums[2], q, r2),
            add(sums[3], q, r3),
        ]
    });
    match sums {
        Some([a, b, c, d]) => [total(a), total(b), total(c), total(d)],
        None => one_by_one(rows, |row| dot_i8(query, row)),
    }
}
