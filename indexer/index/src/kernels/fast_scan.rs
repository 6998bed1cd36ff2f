//! Blocks of 64 sketches, byte by byte, whose products with a question are sums of entries of small tables: a register
//! looks up 16 to 64 rows at once (Fast Scan: André, Kermarrec and Le Scouarnec 2015; of sketches of one bit, `RaBitQ`,
//! section 3.3.2).

use zerocopy::IntoBytes as _;

/// Rows of a block.
pub const BLOCK_ROWS: usize = 64;
/// Rows of its first half, which have the even places of each byte; those of the second have the odd ones, so that sums
/// of 16 bits come out in the order of the rows.
const HALF: usize = BLOCK_ROWS / 2;
/// Bytes of sketches after which sums of 16 bits are added to those of 32: each byte adds at most 2 * [`MOST`].
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) const ROUND: usize = 256;
/// The largest entry of a table: eight of them fit into a byte.
pub const MOST: u8 = 31;

/// A question, as [`Kernels::fast_scan`](super::Kernels::fast_scan) reads it.
#[derive(Debug, Clone, Default)]
pub struct Lookup {
    /// For each byte of a sketch: 16 entries for its lower half and 16 for its upper, none above [`MOST`]. An entry is
    /// the sum of the question's values where the half byte has ones, less the least such sum.
    pub tables: Vec<[u8; 32]>,
    /// Added to twice the sum of a row's entries: the result is the inner product of the question's values and the
    /// signs of the row.
    pub shift: i32,
    /// The factor of that product, with the row's.
    pub scale: f32,
    /// The factor of a row's bias.
    pub bias: f32,
    /// Part of every estimate.
    pub base: f32,
    /// The factor of a row's error.
    pub optimism: f32,
}

/// The factors of a block's rows: `scale * sketch` turns a product of signs into one of vectors, to which multiples of
/// `bias` and `error` are added.
#[derive(Debug, Clone)]
pub struct BlockFactors {
    /// The sketch factor of each row, of the product of signs.
    pub sketch: [f32; BLOCK_ROWS],
    /// Inner product of row and centre, or what else an estimate holds that does not depend on the question.
    pub bias: [f32; BLOCK_ROWS],
    /// Standard deviation of the estimate for a question of length 1.
    pub error: [f32; BLOCK_ROWS],
}

/// `(lookup, bytes, factors, estimates)`: the estimate of each row of a block. `bytes[j]` holds byte `j` of all rows,
/// as [`TransposeFn`] writes it. Of `lookup.tables` and `bytes` the shorter counts.
pub type FastScanFn = fn(&Lookup, &[[u8; BLOCK_ROWS]], &BlockFactors, &mut [f32; BLOCK_ROWS]);

/// `(estimates, least)`: a bit for each estimate that is not below `least`, none where it is not a number.
pub type NotBelowFn = fn(&[f32; BLOCK_ROWS], f32) -> u64;

/// `(lines, stride, ids, bytes)`: the sketches of the first 64 `ids`, byte by byte: byte `j` of that of `ids[row]` is
/// `bytes[j][2 * row]`, or `bytes[j][2 * (row - 32) + 1]` from row 32 on. `lines` has `stride` values for each id; a
/// row that it does not have, and a byte that a row does not have, is 0.
pub type TransposeFn = fn(&[u64], usize, &[u32], &mut [[u8; BLOCK_ROWS]]);

/// The row at a place of each byte.
pub(super) const fn row_at(place: usize) -> usize {
    place / 2 + HALF * (place % 2)
}

/// The line of a block's row; empty where there is none.
#[inline]
pub(super) fn line<'a>(lines: &'a [u64], stride: usize, ids: &[u32], row: usize) -> &'a [u64] {
    let found = ids.get(row).and_then(|id| {
        let start = (*id as usize).checked_mul(stride)?;
        lines.get(start..start.checked_add(stride)?)
    });
    found.unwrap_or(&[])
}

/// In plain Rust, see [`TransposeFn`].
pub(super) fn transpose(lines: &[u64], stride: usize, ids: &[u32], bytes: &mut [[u8; BLOCK_ROWS]]) {
    for place in 0..BLOCK_ROWS {
        let line = line(lines, stride, ids, row_at(place)).as_bytes();
        for (at, bytes) in bytes.iter_mut().enumerate() {
            bytes[place] = line.get(at).copied().unwrap_or(0);
        }
    }
}

/// The estimate of a row, by the sum of its entries.
#[expect(
    clippy::inline_always,
    reason = "inlined into a function for an instruction set, or it would not be compiled for it"
)]
#[inline(always)]
fn estimate(lookup: &Lookup, sum: i32, factors: &BlockFactors, row: usize) -> f32 {
    let product = sum.wrapping_mul(2).wrapping_add(lookup.shift) as f32;
    let estimate = product * (lookup.scale * factors.sketch[row]) + lookup.bias * factors.bias[row] + lookup.base;
    estimate + lookup.optimism * factors.error[row]
}

/// The estimates of all rows, by the sums of their entries.
#[expect(
    clippy::inline_always,
    reason = "inlined into a function for an instruction set, or it would not be compiled for it"
)]
#[inline(always)]
pub(super) fn estimate_all(
    lookup: &Lookup,
    sums: &[i32; BLOCK_ROWS],
    factors: &BlockFactors,
    estimates: &mut [f32; BLOCK_ROWS],
) {
    for row in 0..BLOCK_ROWS {
        estimates[row] = estimate(lookup, sums[row], factors, row);
    }
}

/// In plain Rust, see [`FastScanFn`].
pub(super) fn fast_scan(
    lookup: &Lookup,
    bytes: &[[u8; BLOCK_ROWS]],
    factors: &BlockFactors,
    estimates: &mut [f32; BLOCK_ROWS],
) {
    let mut sums = [0i32; BLOCK_ROWS];
    for (table, bytes) in lookup.tables.iter().zip(bytes) {
        for (place, byte) in bytes.iter().enumerate() {
            let (low, high) = (usize::from(byte & 15), usize::from(byte >> 4));
            sums[row_at(place)] += i32::from(table[low]) + i32::from(table[16 + high]);
        }
    }
    estimate_all(lookup, &sums, factors, estimates);
}

/// In plain Rust, see [`NotBelowFn`].
pub(super) fn not_below(estimates: &[f32; BLOCK_ROWS], least: f32) -> u64 {
    (0..BLOCK_ROWS).fold(0, |found, row| found | u64::from(estimates[row] >= least) << row)
}
