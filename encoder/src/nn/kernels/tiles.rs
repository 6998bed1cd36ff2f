//! The sizes of panels and tiles, which the products in f32 and int8 have in common.

use super::simd::LANES;

/// Registers of a panel's row.
pub(super) const REGISTERS: usize = 3;
/// Outputs of a panel.
pub(super) const WIDTH: usize = REGISTERS * LANES;
/// Rows of a tile.
pub(super) const ROWS: usize = 8;
/// Rows that go through all panels before the next ones do: their inputs stay in the second cache.
pub(super) const BLOCK: usize = 64;

/// A line of the cache.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct CacheLine(pub(super) [f32; LANES]);

/// One value per output, in panels; zeros after the last one.
pub(super) fn by_panel(values: &[f32]) -> Vec<[CacheLine; REGISTERS]> {
    let mut panels = vec![[CacheLine([0.0; LANES]); REGISTERS]; values.len().div_ceil(WIDTH)];
    for (output, value) in values.iter().enumerate() {
        panels[output / WIDTH][output % WIDTH / LANES].0[output % LANES] = *value;
    }
    panels
}
