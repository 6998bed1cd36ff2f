//! Sketches laid out for a scan: blocks of rows, byte by byte, with their factors, and questions as tables that are
//! looked up.
//!
//! Laying out a row costs as much as estimating it a few times; all questions of a scan share it, and where blocks are
//! kept, later scans too.

use super::codec::EncodedRowFactors;
use super::codes::CodesView;
use super::prepared::{PLANES, PreparedQuery};
use crate::kernels::{BLOCK_ROWS, BlockFactors, Lookup, MOST};

/// Sketches of some slots, laid out for [`CodesView::estimate_block`].
#[derive(Debug, Clone, Default)]
pub(crate) struct SketchBlocks {
    /// Byte by byte, block by block.
    bytes: Vec<[u8; BLOCK_ROWS]>,
    factors: Vec<BlockFactors>,
    /// Bytes of one sketch.
    sketch_bytes: usize,
    is_damaged: bool,
}

impl SketchBlocks {
    /// Bytes that they take.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity() * BLOCK_ROWS + self.factors.capacity() * size_of::<BlockFactors>()
    }

    /// Whether some slot has no codes, or factors of its estimates that are not finite.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged
    }
}

const NO_FACTORS: BlockFactors = BlockFactors {
    sketch: [f32::NAN; BLOCK_ROWS],
    bias: [f32::NAN; BLOCK_ROWS],
    error: [f32::NAN; BLOCK_ROWS],
};

/// Blocks whose sketches are prefetched before they are laid out.
const AHEAD: usize = 4;

/// For each half byte, the ones of its intersection with each other one.
const SHARED: [[u8; 16]; 16] = {
    let mut shared = [[0; 16]; 16];
    let mut half = 0;
    while half < 16 {
        let mut other = 0;
        while other < 16 {
            shared[half][other] = (half & other).count_ones() as u8;
            other += 1;
        }
        half += 1;
    }
    shared
};

/// The entries of a half byte of a question, by its bits in each plane, and the least sum, which is left out of them.
/// Values are from -7 to 7, so that an entry is at most 28.
fn entries(planes: [usize; PLANES]) -> ([u8; 16], i32) {
    let [ones, twos, fours, eights] = planes.map(|plane| SHARED[plane & 15]);
    let mut sums = [0i8; 16];
    for (at, sum) in sums.iter_mut().enumerate() {
        *sum = (ones[at] + 2 * twos[at] + 4 * fours[at]).cast_signed() - 8 * eights[at].cast_signed();
    }
    // The sum of all that are negative.
    let least = sums[planes[PLANES - 1] & 15];
    (
        sums.map(|sum| (sum - least).cast_unsigned().min(MOST)),
        i32::from(least),
    )
}

impl PreparedQuery {
    /// Lays out the question for [`CodesView::estimate_block`], whose estimates are raised by `optimism` standard
    /// deviations of the error.
    pub(crate) fn look_up(&self, optimism: f32, lookup: &mut Lookup) {
        let bytes = self.planes.len() / PLANES * 8;
        let plane = |plane: usize, byte: usize| {
            let word = self.planes.get(plane * bytes / 8 + byte / 8).copied().unwrap_or(0);
            (word >> (byte % 8 * 8)) as usize & 255
        };
        let mut least = 0;
        lookup.tables.clear();
        lookup.tables.extend((0..bytes).map(|byte| {
            let planes: [usize; PLANES] = std::array::from_fn(|at| plane(at, byte));
            let ((low, low_least), (high, high_least)) = (entries(planes), entries(planes.map(|plane| plane >> 4)));
            least += low_least + high_least;
            let mut table = [0; 32];
            table[..16].copy_from_slice(&low);
            table[16..].copy_from_slice(&high);
            table
        }));
        lookup.shift = 2 * least - self.sketch_sum;
        (lookup.scale, lookup.optimism) = (self.sketch_scale, optimism * self.norm);
        (lookup.bias, lookup.base) = (self.bias, self.base);
        if self.planes.is_empty() {
            lookup.base = f32::NAN;
        }
    }
}

impl CodesView<'_> {
    /// Lays out the sketches of `slots`.
    pub(crate) fn lay_out(&self, slots: &[u32], blocks: &mut SketchBlocks) {
        let sketch_bytes = self.sketch_bytes();
        blocks.sketch_bytes = sketch_bytes;
        blocks.is_damaged = false;
        let count = slots.len().div_ceil(BLOCK_ROWS);
        blocks.factors.resize(count, NO_FACTORS);
        blocks.bytes.resize(count * sketch_bytes, [0; BLOCK_ROWS]);
        let all = slots;
        for (at, (slots, block)) in all.chunks(BLOCK_ROWS).zip(&mut blocks.factors).enumerate() {
            self.prefetch_lines(all.chunks(BLOCK_ROWS).nth(at + AHEAD).unwrap_or(&[]));
            if let Some(bytes) = blocks.bytes.get_mut(at * sketch_bytes..(at + 1) * sketch_bytes) {
                self.transpose(slots, bytes);
            }
            if slots.len() < BLOCK_ROWS {
                *block = NO_FACTORS;
            }
            for (row, slot) in slots.iter().enumerate() {
                let Some(EncodedRowFactors {
                    sketch, error, bias, ..
                }) = self.factors(*slot)
                else {
                    blocks.is_damaged = true;
                    block.bias[row] = f32::NAN;
                    continue;
                };
                blocks.is_damaged |= ![sketch, error, bias].iter().all(|factor| factor.is_finite());
                (block.sketch[row], block.bias[row], block.error[row]) = (sketch, bias, error);
            }
        }
    }

    /// The estimates of the slots of a block, as [`CodesView::estimate`] gives them. Places after the last slot get a
    /// value that is not a number.
    pub(crate) fn estimate_block(
        &self,
        lookup: &Lookup,
        blocks: &SketchBlocks,
        at: usize,
        estimates: &mut [f32; BLOCK_ROWS],
    ) {
        let start = at * blocks.sketch_bytes;
        match (
            blocks.factors.get(at),
            blocks.bytes.get(start..start + blocks.sketch_bytes),
        ) {
            (Some(factors), Some(bytes)) => self.fast_scan(lookup, bytes, factors, estimates),
            _ => estimates.fill(f32::NAN),
        }
    }
}
