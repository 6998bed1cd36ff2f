//! Rows times a weight that stays as it is, in int8: `y = act(s_i w_j sum_k q_ik v_jk + b_j)`, where `q` are a row's
//! values in steps of `s_i` and `v` an output's weights in steps of `w_j`, whole numbers from -127 to 127.
//!
//! The instruction multiplies four unsigned bytes with four signed ones and adds the products to a sum in 32 bits. Rows
//! are the unsigned side, 128 more than they are; what that adds to a sum depends on the weight alone, and sums begin
//! with its negative. Panels and tiles are those of `product.rs`, with four inputs where that has one. Bound by
//! multiply-adds like that.

use std::arch::x86_64::{
    __m512i, _mm512_cvtepi32_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_load_si512, _mm512_mul_ps,
    _mm512_set1_epi32, _mm512_set1_ps,
};
use std::borrow::Cow;
use std::ops::Range;

use super::activation::activate;
use super::quantize;
use super::simd::{LANES, Vnni, load, store};
use super::tiles::{BLOCK, CacheLine, REGISTERS, ROWS, WIDTH, by_panel};
use crate::config::HiddenActivation;

/// Inputs that one lane of a register holds.
const FOUR: usize = 4;
/// Most inputs: 128 x 127 x 2^17 is below 2^31.
const MOST_INPUTS: usize = 1 << 17;

/// A line of the cache: four inputs of 16 outputs.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct PackedInt8Line([[i8; FOUR]; LANES]);

/// A line of the cache: sums of 16 outputs.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Sums([i32; LANES]);

/// A weight and its bias.
#[derive(Debug)]
pub(in super::super) struct Int8Panels {
    here: Vnni,
    inputs: usize,
    /// The same, with zeros up to a multiple of 16.
    padded: usize,
    outputs: usize,
    /// `[panels, padded inputs / 4]` of 48 outputs; zeros after the last one.
    weight: Vec<[PackedInt8Line; REGISTERS]>,
    /// `[panels]` of 48 outputs: what sums begin with.
    first: Vec<[Sums; REGISTERS]>,
    /// `[panels]` of 48 outputs: what one step of the output's weights is worth.
    steps: Vec<[CacheLine; REGISTERS]>,
    /// `[panels]` of 48 outputs.
    bias: Vec<[CacheLine; REGISTERS]>,
}

/// Position of a tile.
#[derive(Debug, Clone, Copy)]
struct Int8Tile {
    panel: usize,
    /// The first row of the piece.
    row: usize,
    /// Among the outputs of a row, of which there are `columns`.
    column: usize,
    columns: usize,
}

/// Up to 64 rows in steps of their own.
struct Quantized<'a> {
    /// `[rows, padded inputs]`, each 128 more than it is.
    values: &'a [[u8; FOUR]],
    /// `[rows]`.
    steps: &'a [f32],
}

impl Int8Panels {
    /// Quantises and packs a weight `[out, in]` and a bias `[out]`, neither of them empty. `None` where sums over so
    /// many inputs do not fit.
    pub(super) fn of(here: Vnni, weight: &[f32], inputs: usize, bias: Option<&[f32]>) -> Option<Self> {
        if inputs > MOST_INPUTS {
            return None;
        }
        let padded = inputs.next_multiple_of(LANES);
        let (outputs, fours) = (weight.len() / inputs, padded / FOUR);
        let count = outputs.div_ceil(WIDTH);
        let (mut numbers, mut steps) = (vec![0; outputs * padded], vec![0.0; outputs]);
        quantize::round(
            here.avx512(),
            &widened(weight, inputs, padded),
            padded,
            &mut numbers,
            &mut steps,
        );
        let mut packed = vec![[PackedInt8Line([[0; FOUR]; LANES]); REGISTERS]; count * fours];
        let mut first = vec![[Sums([0; LANES]); REGISTERS]; count];
        for (output, row) in numbers.chunks_exact(padded).enumerate() {
            let (panel, register, lane) = (output / WIDTH, output % WIDTH / LANES, output % LANES);
            for (place, four) in packed[panel * fours..][..fours].iter_mut().zip(row.as_chunks().0) {
                place[register].0[lane] = *four;
            }
            first[panel][register].0[lane] = row.iter().map(|number| -128 * i32::from(*number)).sum();
        }
        let bias = bias.map_or_else(|| vec![[CacheLine([0.0; LANES]); REGISTERS]; count], by_panel);
        Some(Self {
            here,
            inputs,
            padded,
            outputs,
            weight: packed,
            first,
            steps: by_panel(&steps),
            bias,
        })
    }

    pub(super) fn inputs(&self) -> usize {
        self.inputs
    }

    pub(super) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Rows `[n, in]` to the outputs of some panels, on this thread.
    #[expect(
        unsafe_code,
        reason = "calls a function compiled for AVX-512 VNNI, after the processor was checked"
    )]
    pub(super) fn part(
        &self,
        rows: &[f32],
        panels: Range<usize>,
        activation: Option<HiddenActivation>,
        outputs: &mut [f32],
    ) {
        let columns = (panels.end * WIDTH).min(self.outputs) - panels.start * WIDTH;
        let most = BLOCK.min(rows.len() / self.inputs);
        let (mut numbers, mut steps) = (vec![0_i8; most * self.padded], vec![0.0; most]);
        for (rows, outputs) in rows
            .chunks(BLOCK * self.inputs)
            .zip(outputs.chunks_mut(BLOCK * columns))
        {
            let count = rows.len() / self.inputs;
            let (numbers, steps) = (&mut numbers[..count * self.padded], &mut steps[..count]);
            quantize::round(
                self.here.avx512(),
                &widened(rows, self.inputs, self.padded),
                self.padded,
                numbers,
                steps,
            );
            let values: Vec<[u8; FOUR]> = numbers
                .as_chunks()
                .0
                .iter()
                .map(|four| four.map(|number| number.cast_unsigned() ^ 128))
                .collect();
            // SAFETY: the processor has AVX-512 VNNI, as `self.here` says.
            unsafe {
                self.block(
                    &Quantized { values: &values, steps },
                    panels.clone(),
                    columns,
                    activation,
                    outputs,
                );
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    fn block(
        &self,
        rows: &Quantized<'_>,
        panels: Range<usize>,
        columns: usize,
        activation: Option<HiddenActivation>,
        outputs: &mut [f32],
    ) {
        let count = rows.steps.len();
        for panel in panels.clone() {
            let mut tile = Int8Tile {
                panel,
                row: 0,
                column: (panel - panels.start) * WIDTH,
                columns,
            };
            while tile.row < count {
                tile.row += match count - tile.row {
                    ROWS.. => self.tile::<ROWS>(tile, rows, activation, outputs),
                    4.. => self.tile::<4>(tile, rows, activation, outputs),
                    2.. => self.tile::<2>(tile, rows, activation, outputs),
                    _ => self.tile::<1>(tile, rows, activation, outputs),
                };
            }
        }
    }

    /// `R` rows and one panel; gives `R`.
    // Plain loops: what iterators and closures call is compiled without AVX-512, and would not become part of this.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    fn tile<const R: usize>(
        &self,
        tile: Int8Tile,
        rows: &Quantized<'_>,
        activation: Option<HiddenActivation>,
        outputs: &mut [f32],
    ) -> usize {
        let Int8Tile {
            panel,
            row,
            column,
            columns,
        } = tile;
        let fours = self.padded / FOUR;
        let weight = &self.weight[panel * fours..][..fours];
        let mut values: [&[[u8; FOUR]]; R] = [&[]; R];
        for (number, values) in values.iter_mut().enumerate() {
            *values = &rows.values[(row + number) * fours..][..fours];
        }
        let sums = summed(&values, weight, &self.first[panel]);
        let width = WIDTH.min(columns - column);
        for number in 0..R {
            let place = &mut outputs[(row + number) * columns + column..][..width];
            let step = rows.steps[row + number];
            if let Ok(place) = <&mut [f32; WIDTH]>::try_from(&mut *place) {
                self.put(panel, step, activation, &sums[number], place);
            } else {
                let mut whole = [0.0; WIDTH];
                self.put(panel, step, activation, &sums[number], &mut whole);
                place.copy_from_slice(&whole[..width]);
            }
        }
        R
    }

    /// Sums of one row to its outputs.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn put(
        &self,
        panel: usize,
        step: f32,
        activation: Option<HiddenActivation>,
        sums: &[__m512i; REGISTERS],
        place: &mut [f32; WIDTH],
    ) {
        let (places, _) = place.as_chunks_mut::<LANES>();
        let step = _mm512_set1_ps(step);
        for register in 0..REGISTERS {
            let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[register]), step);
            let (steps, bias) = (
                load(&self.steps[panel][register].0),
                load(&self.bias[panel][register].0),
            );
            let sum = _mm512_fmadd_ps(scaled, steps, bias);
            let made = match activation {
                Some(activation) => activate(activation, sum),
                None => sum,
            };
            store(&mut places[register], made);
        }
    }
}

/// Rows of `inputs` values with zeros up to `padded`.
fn widened(rows: &[f32], inputs: usize, padded: usize) -> Cow<'_, [f32]> {
    if inputs == padded {
        return Cow::Borrowed(rows);
    }
    let mut wide = vec![0.0; rows.len() / inputs * padded];
    for (wide, row) in wide.chunks_exact_mut(padded).zip(rows.chunks_exact(inputs)) {
        wide[..inputs].copy_from_slice(row);
    }
    Cow::Owned(wide)
}

/// For each row, as long as `panel`, the first sums and its products with the panel's rows.
#[expect(
    unsafe_code,
    reason = "bounds of each of eight rows cost more registers than there are"
)]
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn summed<const R: usize>(
    rows: &[&[[u8; FOUR]]; R],
    panel: &[[PackedInt8Line; REGISTERS]],
    first: &[Sums; REGISTERS],
) -> [[__m512i; REGISTERS]; R] {
    let mut sums = [[sums_of(&first[0]), sums_of(&first[1]), sums_of(&first[2])]; R];
    let mut values = [std::ptr::null::<[u8; FOUR]>(); R];
    for number in 0..R {
        values[number] = rows[number][..panel.len()].as_ptr();
    }
    for (at, lines) in panel.iter().enumerate() {
        let weights = [bytes_of(&lines[0]), bytes_of(&lines[1]), bytes_of(&lines[2])];
        for number in 0..R {
            // SAFETY: each row has as many fours as the panel has rows, as the slices above have made sure of, and `at`
            // is one of those.
            let four = unsafe { *values[number].add(at) };
            let four = _mm512_set1_epi32(i32::from_le_bytes(four));
            for register in 0..REGISTERS {
                sums[number][register] = _mm512_dpbusd_epi32(sums[number][register], four, weights[register]);
            }
        }
    }
    sums
}

#[expect(unsafe_code, reason = "vector load")]
#[inline]
#[target_feature(enable = "avx512f")]
fn bytes_of(line: &PackedInt8Line) -> __m512i {
    // SAFETY: a line is 64 bytes at an address that is a multiple of 64, which is what the instruction reads.
    unsafe { _mm512_load_si512((&raw const *line).cast()) }
}

#[expect(unsafe_code, reason = "vector load")]
#[inline]
#[target_feature(enable = "avx512f")]
fn sums_of(line: &Sums) -> __m512i {
    // SAFETY: as above.
    unsafe { _mm512_load_si512((&raw const *line).cast()) }
}
