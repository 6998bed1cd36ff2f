//! Sketches by `cnt`, which counts the ones of each byte: 128 bits at a time.

use std::arch::aarch64::{
    int16x8_t, uint8x16_t, vaddlvq_s16, vaddq_u8, vandq_u8, vcntq_u8, vdupq_n_s16, vpadalq_s8, vreinterpretq_s8_u8,
    vshlq_n_u8, vsubq_u8,
};

use zerocopy::transmute;

use crate::kernels::padding::padded;
use crate::kernels::sketches::Sketches;

/// Words of one register.
const LANES: usize = 2;
/// Registers after which the 16-bit sums are emptied: each adds at most 2 * 64, so they would hold 255.
const ROUNDS: usize = 128;

#[inline]
#[target_feature(enable = "neon")]
fn load(words: &[u64; LANES]) -> uint8x16_t {
    transmute!(*words)
}

/// `sums` and, per 16 bits: the bits shared with each plane, weighted 1, 2, 4 and -8.
#[inline]
#[target_feature(enable = "neon")]
fn add(sums: int16x8_t, code: uint8x16_t, planes: [uint8x16_t; 4]) -> int16x8_t {
    let [ones, twos, fours, eights] = [
        vcntq_u8(vandq_u8(code, planes[0])),
        vcntq_u8(vandq_u8(code, planes[1])),
        vcntq_u8(vandq_u8(code, planes[2])),
        vcntq_u8(vandq_u8(code, planes[3])),
    ];
    // Per byte -64..=56, which an i8 holds, so that wrapping on the way does no harm.
    let low = vaddq_u8(ones, vshlq_n_u8::<1>(twos));
    let high = vsubq_u8(vshlq_n_u8::<2>(fours), vshlq_n_u8::<3>(eights));
    vpadalq_s8(sums, vreinterpretq_s8_u8(vaddq_u8(low, high)))
}

/// Weighted bits of every id, see [`crate::kernels::SketchFn`].
#[target_feature(enable = "neon")]
pub(super) fn sketch(planes: &[u64], words: usize, lines: &[u64], stride: usize, ids: &[u32], out: &mut [i32]) {
    let table = Sketches::new(planes, words, lines, stride);
    for (id, out) in ids.iter().zip(out) {
        *out = match table.and_then(|table| Some((table, table.code(*id)?))) {
            Some((table, code)) => weighted(&table, code),
            None => i32::MIN,
        };
    }
}

/// Weighted bits of one sketch.
#[inline]
#[target_feature(enable = "neon")]
fn weighted(table: &Sketches<'_>, code: &[u64]) -> i32 {
    let (pairs, rest) = code.as_chunks::<LANES>();
    let planes = [0, 1, 2, 3].map(|p| table.plane(p).as_chunks::<LANES>());
    let mut sum = 0i32;
    let mut sums = vdupq_n_s16(0);
    for (i, pair) in pairs.iter().enumerate() {
        let planes = [
            load(&planes[0].0[i]),
            load(&planes[1].0[i]),
            load(&planes[2].0[i]),
            load(&planes[3].0[i]),
        ];
        sums = add(sums, load(pair), planes);
        if (i + 1) % ROUNDS == 0 {
            sum = sum.wrapping_add(vaddlvq_s16(sums));
            sums = vdupq_n_s16(0);
        }
    }
    if !rest.is_empty() {
        let planes = [
            load(&padded(planes[0].1)),
            load(&padded(planes[1].1)),
            load(&padded(planes[2].1)),
            load(&padded(planes[3].1)),
        ];
        sums = add(sums, load(&padded(rest)), planes);
    }
    sum.wrapping_add(vaddlvq_s16(sums))
}
