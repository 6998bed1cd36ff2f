//! Rows times a weight that stays as it is, in f32: `y = act(x W^T + b)`.
//!
//! The weight is packed once in *panels* of 48 outputs. A tile of 8 rows and one panel takes 24 registers of sums, so
//! that each load of three registers of weights is followed by 24 multiply-adds, and what a tile has made is activated
//! while it is in the first cache. Bound by multiply-adds: a core of a Zen 4 does 117 GFLOP/s of them, of which such a
//! tile reached 112 over 1,920 rows times 384 x 1,536, and oneDNN's product, which lays the weight out at every call,
//! 104 over 2,048.

use std::arch::x86_64::{__m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_set1_ps, _mm512_setzero_ps};
use std::ops::Range;

use super::activation::activate;
use super::simd::{Avx512, LANES, load, store};
use super::tiles::{BLOCK, CacheLine, REGISTERS, ROWS, WIDTH, by_panel};
use crate::config::HiddenActivation;

/// Inputs of one tile at most; a panel of this many is 288 KiB.
const DEPTH: usize = 1536;

/// A weight and its bias.
#[derive(Debug)]
pub(in super::super) struct F32Panels {
    inputs: usize,
    outputs: usize,
    /// `[panels, inputs]` of 48 outputs; zeros after the last one.
    weight: Vec<[CacheLine; REGISTERS]>,
    /// `[panels]` of 48 outputs.
    bias: Vec<[CacheLine; REGISTERS]>,
}

/// Position and operation of a tile.
#[derive(Debug, Clone, Copy)]
struct ProductTile {
    panel: usize,
    /// The first row, among those of the block.
    row: usize,
    /// First of the inputs that are summed: the first inputs are added to the bias, later ones to the present outputs.
    first: usize,
    end: usize,
    /// Among the outputs of a row, of which there are `columns`.
    column: usize,
    columns: usize,
}

impl F32Panels {
    /// Packs a weight `[out, in]` and a bias `[out]`, neither of them empty. There are panels only where the processor
    /// has AVX-512F.
    pub(super) fn of(_: Avx512, weight: &[f32], inputs: usize, bias: Option<&[f32]>) -> Self {
        let outputs = weight.len() / inputs;
        let count = outputs.div_ceil(WIDTH);
        let zeros = [CacheLine([0.0; LANES]); REGISTERS];
        let mut packed = vec![zeros; count * inputs];
        for (output, row) in weight.chunks_exact(inputs).enumerate() {
            let (register, lane) = (output % WIDTH / LANES, output % LANES);
            let panel = &mut packed[output / WIDTH * inputs..][..inputs];
            for (place, value) in panel.iter_mut().zip(row) {
                place[register].0[lane] = *value;
            }
        }
        let bias = bias.map_or_else(|| vec![zeros; count], by_panel);
        Self {
            inputs,
            outputs,
            weight: packed,
            bias,
        }
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
        reason = "calls a function compiled for AVX-512, after the processor was checked"
    )]
    pub(super) fn part(
        &self,
        rows: &[f32],
        panels: Range<usize>,
        activation: Option<HiddenActivation>,
        outputs: &mut [f32],
    ) {
        // SAFETY: the processor has AVX-512F, as `of` was told.
        unsafe { self.blocks(rows, panels, activation, outputs) }
    }

    #[target_feature(enable = "avx512f")]
    fn blocks(&self, rows: &[f32], panels: Range<usize>, activation: Option<HiddenActivation>, outputs: &mut [f32]) {
        let columns = (panels.end * WIDTH).min(self.outputs) - panels.start * WIDTH;
        let depth = self.inputs.div_ceil(self.inputs.div_ceil(DEPTH));
        for (rows, outputs) in rows
            .chunks(BLOCK * self.inputs)
            .zip(outputs.chunks_mut(BLOCK * columns))
        {
            let count = rows.len() / self.inputs;
            for first in (0..self.inputs).step_by(depth) {
                let end = (first + depth).min(self.inputs);
                let activation = if end == self.inputs { activation } else { None };
                for panel in panels.clone() {
                    let mut tile = ProductTile {
                        panel,
                        row: 0,
                        first,
                        end,
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
        }
    }

    /// `R` rows and one panel; gives `R`.
    // Plain loops: what iterators and closures call is compiled without AVX-512, and would not become part of this.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn tile<const R: usize>(
        &self,
        tile: ProductTile,
        rows: &[f32],
        activation: Option<HiddenActivation>,
        outputs: &mut [f32],
    ) -> usize {
        let ProductTile {
            panel,
            row,
            first,
            end,
            column,
            columns,
        } = tile;
        let weight = &self.weight[panel * self.inputs..][first..end];
        let mut inputs: [&[f32]; R] = [&[]; R];
        for number in 0..R {
            inputs[number] = &rows[(row + number) * self.inputs..][first..end];
        }
        let sums = summed(&inputs, weight);
        let width = WIDTH.min(columns - column);
        for number in 0..R {
            let place = &mut outputs[(row + number) * columns + column..][..width];
            if let Ok(place) = <&mut [f32; WIDTH]>::try_from(&mut *place) {
                self.put(tile, activation, &sums[number], place);
            } else {
                let mut whole = [0.0; WIDTH];
                whole[..width].copy_from_slice(place);
                self.put(tile, activation, &sums[number], &mut whole);
                place.copy_from_slice(&whole[..width]);
            }
        }
        R
    }

    /// The summand of a row's outputs: the bias for the first inputs, the present values for later ones.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn put(
        &self,
        tile: ProductTile,
        activation: Option<HiddenActivation>,
        sums: &[__m512; REGISTERS],
        place: &mut [f32; WIDTH],
    ) {
        let (places, _) = place.as_chunks_mut::<LANES>();
        let bias = &self.bias[tile.panel];
        for register in 0..REGISTERS {
            let before = if tile.first == 0 {
                load(&bias[register].0)
            } else {
                load(&places[register])
            };
            let sum = _mm512_add_ps(before, sums[register]);
            let made = match activation {
                Some(activation) => activate(activation, sum),
                None => sum,
            };
            store(&mut places[register], made);
        }
    }
}

/// For each row, as long as `panel`, the sum of the panel's rows multiplied with its values.
#[expect(
    unsafe_code,
    reason = "bounds of each of eight rows cost more registers than there are"
)]
#[inline]
#[target_feature(enable = "avx512f")]
fn summed<const R: usize>(rows: &[&[f32]; R], panel: &[[CacheLine; REGISTERS]]) -> [[__m512; REGISTERS]; R] {
    let mut sums = [[_mm512_setzero_ps(); REGISTERS]; R];
    let mut values = [std::ptr::null::<f32>(); R];
    for number in 0..R {
        values[number] = rows[number][..panel.len()].as_ptr();
    }
    for (at, lines) in panel.iter().enumerate() {
        let weights = [load(&lines[0].0), load(&lines[1].0), load(&lines[2].0)];
        for number in 0..R {
            // SAFETY: each row has as many values as the panel has rows, as the slices above have made sure of, and
            // `at` is one of those.
            let value = _mm512_set1_ps(unsafe { *values[number].add(at) });
            for register in 0..REGISTERS {
                sums[number][register] = _mm512_fmadd_ps(value, weights[register], sums[number][register]);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::*;

    fn draw(size: &[i64]) -> Tensor {
        Tensor::randn(size, (Kind::Float, Device::Cpu))
    }

    fn values(tensor: &Tensor) -> Vec<f32> {
        Vec::try_from(tensor.flatten(0, -1)).unwrap()
    }

    /// The largest difference to torch's product in f64.
    fn apart(here: Avx512, [rows, inputs, outputs]: [usize; 3]) -> f64 {
        let [count, width, wide] = [rows, inputs, outputs].map(|size| size as i64);
        let (x, weight, bias) = (
            draw(&[count, width]),
            draw(&[wide, width]) / (inputs as f64).sqrt(),
            draw(&[wide]),
        );
        let double = |tensor: &Tensor| tensor.to_kind(Kind::Double);
        let product = double(&x).matmul(&double(&weight).transpose(0, 1));
        let mut worst = 0.0_f64;
        for biased in [false, true] {
            let of = biased.then(|| values(&bias));
            let panels = F32Panels::of(here, &values(&weight), inputs, of.as_deref());
            let sums = if biased {
                &product + double(&bias)
            } else {
                product.copy()
            };
            let expected = [
                (None, sums.copy()),
                (Some(HiddenActivation::Gelu), sums.gelu("none")),
                (Some(HiddenActivation::GeluTanh), sums.gelu("tanh")),
                (Some(HiddenActivation::Relu), sums.relu()),
            ];
            for (activation, expected) in expected {
                let mut got = vec![f32::NAN; rows * outputs];
                panels.part(&values(&x), 0..outputs.div_ceil(WIDTH), activation, &mut got);
                let got = double(&Tensor::from_slice(&got).view([count, wide]));
                // Of a NaN, which a value that nothing wrote is, the maximum is one.
                let most = if rows == 0 {
                    0.0
                } else {
                    (got - expected).abs().max().double_value(&[])
                };
                assert!(!most.is_nan(), "{rows} x {inputs} -> {outputs}, {activation:?}");
                worst = worst.max(most);
            }
        }
        worst
    }

    #[test]
    fn products_are_those_of_the_formula() {
        let Some(here) = Avx512::found() else {
            println!("skipped: this processor has no AVX-512");
            return;
        };
        tch::manual_seed(6);
        // Tiles of 8, 4, 2 and 1 rows; blocks and parts of one; whole panels and parts of one; inputs in one piece, two
        // and three.
        for rows in [0, 1, 2, 7, 8, 15, 64, 65, 129] {
            for (inputs, outputs) in [(1, 1), (16, 48), (33, 50), (384, 100), (1537, 7), (3100, 49)] {
                let worst = apart(here, [rows, inputs, outputs]);
                assert!(worst < 1e-5, "{rows} x {inputs} -> {outputs}: {worst}");
            }
        }
    }
}
