//! Blocks of sketches by `tbl`: four registers hold a byte of all 64 rows.

use std::arch::aarch64::{
    uint8x16_t, uint16x8_t, vaddq_u8, vaddq_u16, vandq_u8, vdupq_n_u8, vdupq_n_u16, vqtbl1q_u8, vreinterpretq_u16_u8,
    vshlq_n_u16, vshrq_n_u8, vshrq_n_u16, vsubq_u16,
};

use zerocopy::transmute;

use crate::kernels::fast_scan::{BLOCK_ROWS, BlockFactors, Lookup, ROUND, estimate_all};

/// Rows of one register of bytes.
const PLACES: usize = 16;
/// Registers of a byte of all rows.
const PARTS: usize = BLOCK_ROWS / PLACES;

/// The entries of a byte of 16 rows: at most twice the largest.
#[inline]
#[target_feature(enable = "neon")]
fn looked_up(low: uint8x16_t, high: uint8x16_t, bytes: &[u8; PLACES]) -> uint8x16_t {
    let bytes: uint8x16_t = transmute!(*bytes);
    let low = vqtbl1q_u8(low, vandq_u8(bytes, vdupq_n_u8(15)));
    vaddq_u8(low, vqtbl1q_u8(high, vshrq_n_u8::<4>(bytes)))
}

/// The sums of the rows' entries.
#[inline]
#[target_feature(enable = "neon")]
fn sums(tables: &[[u8; 32]], bytes: &[[u8; BLOCK_ROWS]]) -> [i32; BLOCK_ROWS] {
    let mut sums = [0i32; BLOCK_ROWS];
    for (tables, bytes) in tables.chunks(ROUND).zip(bytes.chunks(ROUND)) {
        // Of each quarter of the places: those of even ones plus 256 times those of odd ones, and of odd ones.
        let (mut all, mut odd) = ([vdupq_n_u16(0); PARTS], [vdupq_n_u16(0); PARTS]);
        for (tables, bytes) in tables.chunks(4).zip(bytes.chunks(4)) {
            let mut four = [vdupq_n_u8(0); PARTS];
            for (table, bytes) in tables.iter().zip(bytes) {
                let ([low, high], _) = table.as_chunks::<16>() else {
                    continue;
                };
                let (low, high): (uint8x16_t, uint8x16_t) = (transmute!(*low), transmute!(*high));
                for (sum, bytes) in four.iter_mut().zip(bytes.as_chunks::<PLACES>().0) {
                    *sum = vaddq_u8(*sum, looked_up(low, high, bytes));
                }
            }
            for part in 0..PARTS {
                let four: uint16x8_t = vreinterpretq_u16_u8(four[part]);
                all[part] = vaddq_u16(all[part], four);
                odd[part] = vaddq_u16(odd[part], vshrq_n_u16::<8>(four));
            }
        }
        let even = [0, 1, 2, 3].map(|part| vsubq_u16(all[part], vshlq_n_u16::<8>(odd[part])));
        let (even, odd): ([u16; BLOCK_ROWS / 2], [u16; BLOCK_ROWS / 2]) = (transmute!(even), transmute!(odd));
        for (sum, more) in sums.iter_mut().zip(even.iter().chain(&odd)) {
            *sum += i32::from(*more);
        }
    }
    sums
}

/// See [`crate::kernels::FastScanFn`].
#[target_feature(enable = "neon")]
pub(super) fn fast_scan(
    lookup: &Lookup,
    bytes: &[[u8; BLOCK_ROWS]],
    factors: &BlockFactors,
    estimates: &mut [f32; BLOCK_ROWS],
) {
    // Tables and bytes are of one length where they come from: the chunks of both must begin together.
    let count = lookup.tables.len().min(bytes.len());
    let sums = sums(&lookup.tables[..count], &bytes[..count]);
    estimate_all(lookup, &sums, factors, estimates);
}
