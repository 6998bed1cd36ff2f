//! Checks that stored codes are those of a row, for `verify`.

use super::codec::{Codec, EncodedRowFactors};
use crate::kernels::dot;
use crate::model::Metric;

/// The codes of one slot.
pub(super) struct StoredSlot<'a> {
    pub(super) line: &'a [u64],
    pub(super) codes: &'a [u8],
    pub(super) factors: EncodedRowFactors,
}

/// Scratch memory of [`differ`].
#[derive(Debug, Default)]
pub(crate) struct CheckScratch {
    line: Vec<u64>,
    codes: Vec<u8>,
    residual: Vec<f32>,
}

/// Encodes the row again and compares: bytes may differ by what rounding moves, and NaN differs from everything.
pub(super) fn differ(
    codec: &Codec,
    stored: &StoredSlot<'_>,
    row: &[f32],
    rounding: f32,
    scratch: &mut CheckScratch,
) -> Option<&'static str> {
    let CheckScratch { line, codes, residual } = scratch;
    line.clear();
    line.resize(codec.dim().div_ceil(64), 0);
    codes.clear();
    codes.resize(stored.codes.len(), 128);
    let fresh = codec.encode(row, line, codes, residual);
    codec.residual(row, 1.0, residual);
    let length = |values: &[f32]| dot(values, values).sqrt();
    let (long, short) = (length(row), length(residual));
    // How much the residual, and so everything computed from it, may differ by rounding.
    let moved = rounding * long + 1e-4 * short;
    let near = |a: f32, b: f32, by: f32| (a - b).abs() <= by;
    let by_bias = match codec.metric() {
        // Of a decoded row, the residual too is rounded: by half a step, of 127 to its largest value, in each place.
        Metric::Cosine | Metric::Dot => {
            ((rounding + 1e-5) * long + 2.0 * rounding * short) * length(codec.centre()).max(1e-3)
        }
        Metric::L2 => moved * (short + moved),
    };
    let EncodedRowFactors {
        sketch,
        error,
        scale,
        bias,
    } = stored.factors;
    // A residual no longer than the possible rounding has no meaningful direction.
    let tells = short > 20.0 * moved;
    let factors = [
        ("bias", near(bias, fresh.bias, by_bias)),
        ("scale", near(scale, fresh.scale, moved)),
        (
            "sketch factor",
            near(sketch, fresh.sketch, if tells { 0.1 * short } else { short + moved }),
        ),
        (
            "error",
            near(error, fresh.error, if tells { 0.1 * short } else { short + moved }),
        ),
    ];
    if let Some((name, _)) = factors.into_iter().find(|(_, near)| !near) {
        return Some(name);
    }
    let apart = residual
        .iter()
        .zip(stored.codes)
        .map(|(value, code)| value - (f32::from(*code) - 128.0) * scale);
    let apart = apart.map(|difference| difference * difference).sum::<f32>().sqrt();
    let step = 0.5 * fresh.scale * (residual.len() as f32).sqrt();
    if !near(apart, 0.0, 1.01 * step + moved) || stored.codes.iter().skip(residual.len()).any(|code| *code != 128) {
        return Some("int8 row");
    }
    let bits = residual.iter().enumerate();
    let wrong = bits.filter(|(at, value)| {
        let set = stored.line.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1);
        value.abs() > moved && set != (**value > 0.0)
    });
    (wrong.count() > 0).then_some("signs")
}
