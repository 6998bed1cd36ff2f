//! The inner loops: inner products, distances and sketches, chosen once for the machine.
//!
//! | file | contents |
//! |---|---|
//! | `choose.rs` | dispatch: detection of instruction sets, and `DYAD_KERNELS` |
//! | `scalar.rs` | plain Rust: the oracle and the fallback |
//! | `rotate.rs` | the loops of the rotation, which every instruction set shares |
//! | `sums.rs` | the loops over rows that every instruction set shares |
//! | `sketches.rs` | bounds of a sketch table, shared by its kernels |
//! | `fast_scan.rs` | blocks of sketches: how they are laid out, and their estimates in plain Rust |
//! | `padding.rs` | zero padding of the remainder of a row |
//! | `prefetch.rs` | prefetching of cache lines |
//! | `x86/` | AVX2 and AVX-512 |
//! | `aarch64/` | NEON |
//!
//! A function compiled for an instruction set is returned only after that set was detected, so a [`Kernels`] is safe to
//! call.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod choose;
mod fast_scan;
mod padding;
mod prefetch;
mod rotate;
mod scalar;
mod sketches;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod sums;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use choose::{ENVIRONMENT, UnknownKernels, available, choose, kernels, requested_set};
pub use fast_scan::{BLOCK_ROWS, BlockFactors, FastScanFn, Lookup, MOST, NotBelowFn, TransposeFn};
pub use prefetch::{prefetch, prefetch_start};
pub use rotate::{block_of_round, rotate_back};
pub use scalar::SCALAR;

use half::f16;

/// The kernels of one instruction set.
///
/// Where two slices differ in length, the shorter counts. Integer results are exact for up to 65,536 values and wrap
/// beyond; floating sums differ between instruction sets by the order of addition.
#[derive(Debug, Clone, Copy)]
pub struct Kernels {
    /// Name of the instruction set: `scalar`, `avx2`, `avx512` or `neon`.
    pub name: &'static str,
    /// Inner product of two rows.
    pub dot: fn(&[f32], &[f32]) -> f32,
    /// Squared Euclidean distance of two rows.
    pub squared_l2: fn(&[f32], &[f32]) -> f32,
    /// Inner product of a query and a row of half precision.
    pub dot_f16: fn(&[f32], &[f16]) -> f32,
    /// Inner product of a query and a row of bytes (an int8 code + 128).
    pub dot_i8: fn(&[i8], &[u8]) -> i32,
    /// [`Kernels::dot_i8`] of one query and four rows, which share the query's loads.
    pub dot_i8_x4: fn(&[i8], [&[u8]; 4]) -> [i32; 4],
    /// Inner products of a 4-bit query and sketches of one bit per value.
    pub sketch: SketchFn,
    /// Estimates of a block of sketches, from tables of the question: for many rows, where [`Kernels::sketch`] is for a
    /// few.
    pub fast_scan: FastScanFn,
    /// Compares the estimates of a block with a threshold.
    pub not_below: NotBelowFn,
    /// Lays out a block of sketches.
    pub transpose: TransposeFn,
    /// Rotates a vector: the same bits on every instruction set.
    pub rotate: RotateFn,
}

/// `(planes, words, lines, stride, ids, out)`: for each id, the weighted number of bits that its sketch shares with the
/// query's planes.
///
/// - `planes`: `4 * words` values, plane after plane; plane `p` holds bit `p` of each query value, in two's complement,
///   so that the weights are 1, 2, 4 and -8.
/// - `lines`: the table, `stride` values per id, of which the first `words` are the sketch. The rest is not counted.
/// - `out[i]` is the sum for `ids[i]`, or [`i32::MIN`] where the table has no such row (no row at all where `stride <
///   words`, `stride == 0` or `planes` is too short). The shorter of `ids` and `out` counts; the rest of `out` stays as
///   it was.
pub type SketchFn = fn(planes: &[u64], words: usize, lines: &[u64], stride: usize, ids: &[u32], out: &mut [i32]);

/// `(signs, block, values)`: for each round, the product of `values` and that round's `values.len()` factors of
/// `signs`, the Hadamard transform (not normalised) of the `block` values that [`block_of_round`] names, and, where
/// `block` is less than all, the sums and differences of the halves, divided by the square root of two. A `block` that
/// is no power of two, or more than all, gives other values, and reads nothing outside.
pub type RotateFn = fn(signs: &[f32], block: usize, values: &mut [f32]);

/// Inner product of two rows of the same length.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    (kernels().dot)(a, b)
}
