//! The rotation's loops, compiled again for every instruction set: sums and differences, in the same order in all of
//! them, so that the results are the same bits.

use std::f32::consts::FRAC_1_SQRT_2;
use std::ops::Range;

/// The values that the Hadamard transform of a round changes: a block at the front and at the back in turn.
pub fn block_of_round(round: usize, dim: usize, block: usize) -> Range<usize> {
    let start = if round.is_multiple_of(2) {
        0
    } else {
        dim.saturating_sub(block)
    };
    start..start.saturating_add(block)
}

/// See [`crate::kernels::RotateFn`].
#[expect(
    clippy::inline_always,
    reason = "inlined into a function for an instruction set, or it would not be compiled for it"
)]
#[inline(always)]
pub(super) fn rotate(signs: &[f32], block: usize, values: &mut [f32]) {
    let dim = values.len();
    if dim == 0 {
        return;
    }
    for (round, signs) in signs.chunks_exact(dim).enumerate() {
        for (value, sign) in values.iter_mut().zip(signs) {
            *value *= sign;
        }
        if let Some(block) = values.get_mut(block_of_round(round, dim, block)) {
            hadamard(block);
        }
        if block != dim {
            mix_halves(values);
        }
    }
}

/// Undoes `rotate`, up to rounding: the steps of each round are their own inverses, but for the lengths that the
/// factors in `signs` make up for.
pub fn rotate_back(signs: &[f32], block: usize, values: &mut [f32]) {
    let dim = values.len();
    if dim == 0 {
        return;
    }
    for (round, signs) in signs.chunks_exact(dim).enumerate().rev() {
        if block != dim {
            mix_halves(values);
        }
        if let Some(block) = values.get_mut(block_of_round(round, dim, block)) {
            hadamard(block);
        }
        for (value, sign) in values.iter_mut().zip(signs) {
            *value *= sign;
        }
    }
}

/// Sums and differences of the halves, divided by the square root of two.
#[expect(clippy::inline_always, reason = "as `rotate`")]
#[inline(always)]
fn mix_halves(values: &mut [f32]) {
    let (front, back) = values.split_at_mut(values.len().div_ceil(2));
    for (a, b) in front.iter_mut().zip(back) {
        (*a, *b) = ((*a + *b) * FRAC_1_SQRT_2, (*a - *b) * FRAC_1_SQRT_2);
    }
}

/// The Hadamard transform of a power of two of values, in place, not normalised.
#[expect(clippy::inline_always, reason = "as `rotate`")]
#[inline(always)]
fn hadamard(values: &mut [f32]) {
    // Steps inside of sixteen values first, on arrays of known length, so that they stay in registers.
    let (chunks, rest) = values.as_chunks_mut::<16>();
    if rest.is_empty() {
        for chunk in chunks {
            inner::<1>(chunk);
            inner::<2>(chunk);
            inner::<4>(chunk);
            inner::<8>(chunk);
        }
    }
    let mut half = if rest.is_empty() { 16 } else { 1 };
    while half < values.len() {
        for pair in values.chunks_exact_mut(2 * half) {
            let (left, right) = pair.split_at_mut(half);
            for (a, b) in left.iter_mut().zip(right) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

#[expect(
    clippy::inline_always,
    reason = "becomes a few shuffles where the array is in registers"
)]
#[inline(always)]
fn inner<const HALF: usize>(values: &mut [f32; 16]) {
    let old = *values;
    for at in 0..16 {
        values[at] = if at & HALF == 0 {
            old[at] + old[at + HALF]
        } else {
            old[at - HALF] - old[at]
        };
    }
}
