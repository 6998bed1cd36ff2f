//! Sketches by the POPCNT instruction, 64 bits at a time.

use crate::kernels::scalar::weighted_bits;
use crate::kernels::sketches::Sketches;

/// Weighted bits of every id, see [`crate::kernels::SketchFn`].
#[target_feature(enable = "popcnt")]
pub(in super::super) fn sketch(
    planes: &[u64],
    words: usize,
    lines: &[u64],
    stride: usize,
    ids: &[u32],
    out: &mut [i32],
) {
    let table = Sketches::new(planes, words, lines, stride);
    for (id, out) in ids.iter().zip(out) {
        let code = table.and_then(|table| Some((table, table.code(*id)?)));
        *out = match code {
            Some((table, code)) => weighted_bits(&table, code),
            None => i32::MIN,
        };
    }
}
