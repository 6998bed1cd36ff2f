//! The codes of all rows, owned while an index is built and mapped while it is searched.

use aligned_vec::{AVec, ConstAlign, avec};
use rayon::prelude::*;
use zerocopy::IntoBytes as _;

use super::check::{self, CheckScratch};
use super::codec::{Codec, EncodedRowFactors};
use super::prepared::PreparedQuery;
use crate::kernels::{self, BLOCK_ROWS, BlockFactors, Kernels, Lookup, kernels};
use crate::rows::VectorRows;
use crate::storage::MmapFile;

/// Words after the bits of a sketch: four factors of f32.
const FACTOR_WORDS: usize = 2;

/// Words of one sketch with its factors: a power of two up to a cache line (8 words), else whole cache lines.
pub fn line_words(dim: usize) -> usize {
    let words = dim.div_ceil(64) + FACTOR_WORDS;
    if words <= 8 {
        words.next_power_of_two()
    } else {
        words.next_multiple_of(8)
    }
}

/// Bytes of one int8 row: whole cache lines.
pub fn row_bytes(dim: usize) -> usize {
    dim.next_multiple_of(64)
}

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// Starts on a cache line, so that a code is in no more of them than it must.
type CacheAligned<T> = AVec<T, ConstAlign<CACHE_LINE>>;

/// The codes of `n` rows, in memory.
#[derive(Debug, Clone)]
pub struct Codes {
    /// The quantiser by which the codes were made.
    pub codec: Codec,
    /// [`line_words`] per row: bits, then sketch factor and error, then int8 scale and bias.
    pub lines: CacheAligned<u64>,
    /// [`row_bytes`] per row; unsigned, 128 added.
    pub rows: CacheAligned<u8>,
}

impl Codes {
    /// No codes yet, with room for those of `rows` rows.
    pub fn with_capacity(codec: Codec, rows: usize) -> Self {
        let lines = AVec::with_capacity(CACHE_LINE, rows * line_words(codec.dim()));
        let rows = AVec::with_capacity(CACHE_LINE, rows * row_bytes(codec.dim()));
        Self { codec, lines, rows }
    }

    /// Appends codes of the same quantiser.
    pub fn append(&mut self, others: &Self) {
        self.lines.extend_from_slice(&others.lines);
        self.rows.extend_from_slice(&others.rows);
    }

    /// Encodes all rows, on the current rayon pool.
    pub fn encode(rows: &(impl VectorRows + ?Sized), codec: Codec) -> Self {
        let (words, bytes) = (line_words(codec.dim()), row_bytes(codec.dim()));
        let mut lines = avec![[CACHE_LINE] | 0u64; rows.len() * words];
        // 128 represents 0, also in the padding.
        let mut codes = avec![[CACHE_LINE] | 128u8; rows.len() * bytes];
        let bits = codec.dim().div_ceil(64);
        lines
            .par_chunks_exact_mut(words)
            .zip(codes.par_chunks_exact_mut(bytes))
            .enumerate()
            .for_each_init(Vec::new, |scratch, (node, (line, row))| {
                let (signs, rest) = line.split_at_mut(bits);
                let factors = codec.encode(rows.row(node as u32), signs, row, scratch);
                if let [first, second, ..] = rest {
                    *first = pack(factors.sketch, factors.error);
                    *second = pack(factors.scale, factors.bias);
                }
            });
        Self {
            codec,
            lines,
            rows: codes,
        }
    }

    /// The codes in another order: row `i` of the result is row `order[i]` of this.
    #[must_use]
    pub fn reordered(&self, order: &[u32]) -> Self {
        let (words, bytes) = (line_words(self.codec.dim()), row_bytes(self.codec.dim()));
        let mut reordered = Self::with_capacity(self.codec.clone(), order.len());
        for &node in order {
            let node = node as usize;
            reordered
                .lines
                .extend_from_slice(self.lines.get(node * words..(node + 1) * words).unwrap_or(&[]));
            reordered
                .rows
                .extend_from_slice(self.rows.get(node * bytes..(node + 1) * bytes).unwrap_or(&[]));
        }
        reordered
    }

    /// What a search reads.
    pub fn view(&self) -> CodesView<'_> {
        CodesView::new(&self.codec, &self.lines, &self.rows)
    }
}

fn pack(low: f32, high: f32) -> u64 {
    u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
}

fn unpack(word: u64) -> (f32, f32) {
    (f32::from_bits(word as u32), f32::from_bits((word >> 32) as u32))
}

/// A view of codes. A row that does not exist scores NaN, which no search keeps.
#[derive(Debug, Clone, Copy)]
pub struct CodesView<'a> {
    codec: &'a Codec,
    lines: &'a [u64],
    rows: &'a [u8],
    bits: usize,
    words: usize,
    bytes: usize,
    kernels: &'static Kernels,
    /// The file of which they are read, where it does not fit into memory.
    on_disk: Option<&'a MmapFile>,
}

impl<'a> CodesView<'a> {
    /// Views codes as [`Codes`] lays them out.
    pub fn new(codec: &'a Codec, lines: &'a [u64], rows: &'a [u8]) -> Self {
        let dim = codec.dim();
        let (bits, words, bytes) = (dim.div_ceil(64), line_words(dim), row_bytes(dim));
        Self {
            codec,
            lines,
            rows,
            bits,
            words,
            bytes,
            kernels: kernels(),
            on_disk: None,
        }
    }

    /// The same of a file that does not fit into memory: rows are asked for from the disk before they are read.
    #[must_use]
    pub fn on_disk(self, file: Option<&'a MmapFile>) -> Self {
        Self { on_disk: file, ..self }
    }

    /// Whether they are in a file that does not fit into memory.
    pub(crate) fn are_on_disk(&self) -> bool {
        self.on_disk.is_some()
    }

    /// Their quantiser.
    pub fn codec(&self) -> &'a Codec {
        self.codec
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.rows.len().checked_div(self.bytes).unwrap_or(0)
    }

    /// No rows at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a slot's codes are those of `row`, whose values may have been rounded since by `rounding` of its length.
    /// Returns the name of the first part that is not.
    pub(crate) fn differ(
        &self,
        slot: u32,
        row: &[f32],
        rounding: f32,
        scratch: &mut CheckScratch,
    ) -> Option<&'static str> {
        let (Some(line), Some(codes), Some(factors)) = (self.line(slot), self.row(slot), self.factors(slot)) else {
            return Some("codes");
        };
        check::differ(
            self.codec,
            &check::StoredSlot { line, codes, factors },
            row,
            rounding,
            scratch,
        )
    }

    /// Whether a slot has codes, with finite factors.
    pub fn is_valid(&self, slot: u32) -> bool {
        let finite = |EncodedRowFactors {
                          sketch,
                          error,
                          scale,
                          bias,
                      }| { [sketch, error, scale, bias].iter().all(|f| f.is_finite()) };
        self.row(slot).is_some() && self.factors(slot).is_some_and(finite)
    }

    pub(super) fn row(&self, slot: u32) -> Option<&'a [u8]> {
        let start = slot as usize * self.bytes;
        self.rows.get(start..start + self.bytes)
    }

    fn line(&self, slot: u32) -> Option<&'a [u64]> {
        let start = slot as usize * self.words;
        self.lines.get(start..start + self.words)
    }

    pub(super) fn factors(&self, slot: u32) -> Option<EncodedRowFactors> {
        let at = slot as usize * self.words + self.bits;
        let [first, second] = *self.lines.get(at..)?.first_chunk()?;
        let ((sketch, error), (scale, bias)) = (unpack(first), unpack(second));
        Some(EncodedRowFactors {
            sketch,
            error,
            scale,
            bias,
        })
    }

    /// Inner product of a question's int8 values and an int8 row, see [`Kernels::dot_i8`].
    pub(super) fn dot_i8(&self, values: &[i8], row: &[u8]) -> i32 {
        (self.kernels.dot_i8)(values, row)
    }

    /// What tells them from those of another shard.
    pub(crate) fn address(&self) -> usize {
        self.lines.as_ptr().addr()
    }

    /// Bytes of one sketch.
    pub(super) fn sketch_bytes(&self) -> usize {
        self.bits * size_of::<u64>()
    }

    /// Lays out the sketches of a block's slots, see [`kernels::TransposeFn`].
    pub(super) fn transpose(&self, slots: &[u32], bytes: &mut [[u8; BLOCK_ROWS]]) {
        (self.kernels.transpose)(self.lines, self.words, slots, bytes);
    }

    /// Estimates a block, see [`kernels::FastScanFn`].
    pub(super) fn fast_scan(
        &self,
        lookup: &Lookup,
        bytes: &[[u8; BLOCK_ROWS]],
        factors: &BlockFactors,
        estimates: &mut [f32; BLOCK_ROWS],
    ) {
        (self.kernels.fast_scan)(lookup, bytes, factors, estimates);
    }

    /// A bit for each estimate of a block that is not below `least`.
    pub(crate) fn not_below(&self, estimates: &[f32; BLOCK_ROWS], least: f32) -> u64 {
        (self.kernels.not_below)(estimates, least)
    }

    /// Prefetches the sketches of rows that [`Self::estimate`] will read.
    pub fn prefetch_lines(&self, slots: &[u32]) {
        for slot in slots {
            if let Some(line) = self.line(*slot) {
                kernels::prefetch(line.as_bytes());
            }
        }
    }

    /// Prefetches an int8 row that [`Self::score`] will read.
    pub fn prefetch_row(&self, slot: u32) {
        match (self.row(slot), self.on_disk) {
            (Some(row), Some(file)) => file.read_soon(row),
            (Some(row), None) => kernels::prefetch(row),
            (None, _) => {}
        }
    }

    /// Prefetches an int8 row and its factors, where nothing has read the sketch, which is next to them.
    pub(crate) fn prefetch_code(&self, slot: u32) {
        self.prefetch_lines(&[slot]);
        self.prefetch_row(slot);
    }

    /// Estimates the scores of rows from their sketches, raised by `optimism` standard deviations of the error.
    /// `scores` gets one value for each slot; `products` is scratch.
    pub fn estimate(
        &self,
        query: &PreparedQuery,
        slots: &[u32],
        optimism: f32,
        products: &mut Vec<i32>,
        scores: &mut Vec<f32>,
    ) {
        products.clear();
        products.resize(slots.len(), 0);
        (self.kernels.sketch)(&query.planes, self.bits, self.lines, self.words, slots, products);
        let optimism = optimism * query.norm;
        scores.clear();
        scores.extend(
            slots
                .iter()
                .zip(products.iter())
                .map(|(slot, product)| match self.factors(*slot) {
                    // The kernel knows no such row, or the question none of its planes.
                    Some(_) if *product == i32::MIN => f32::NAN,
                    Some(factors) => {
                        let agreement = (2 * product).wrapping_sub(query.sketch_sum) as f32;
                        let estimate =
                            agreement * (query.sketch_scale * factors.sketch) + query.bias * factors.bias + query.base;
                        estimate + optimism * factors.error
                    }
                    None => f32::NAN,
                }),
        );
    }

    /// The score of a row by its int8 code.
    pub fn score(&self, query: &PreparedQuery, slot: u32) -> f32 {
        match (self.row(slot), self.factors(slot)) {
            (Some(row), Some(factors)) => {
                let product = (self.kernels.dot_i8)(&query.values, row).wrapping_sub(query.offset);
                product as f32 * (factors.scale * query.scale) + query.bias * factors.bias + query.base
            }
            _ => f32::NAN,
        }
    }

    /// Prepares a row as a question, from its int8 code. For a row that does not exist every score is NaN.
    pub fn prepare(&self, slot: u32, prepared: &mut PreparedQuery) {
        match (self.row(slot), self.factors(slot)) {
            (Some(row), Some(factors)) => self.codec.prepare_code(row, factors, prepared),
            _ => *prepared = PreparedQuery::none(),
        }
    }

    /// Prepares a row for [`Self::score`] alone: cheaper than [`Self::prepare`], and without its rounding.
    pub fn prepare_exact(&self, slot: u32, prepared: &mut PreparedQuery) {
        let (Some(row), Some(factors)) = (self.row(slot), self.factors(slot)) else {
            *prepared = PreparedQuery::none();
            return;
        };
        prepared.values.clear();
        prepared
            .values
            .extend(row.iter().map(|code| (code ^ 0x80).cast_signed()));
        prepared.offset = 128 * prepared.values.iter().map(|value| i32::from(*value)).sum::<i32>();
        prepared.scale = factors.scale;
        (prepared.bias, prepared.base) = (1.0, self.codec.code_base(factors));
    }
}
