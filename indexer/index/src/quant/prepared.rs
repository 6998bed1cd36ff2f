//! A question, rounded for comparison with codes.

/// Parts of a step of int8 in which a refined question is rounded: half a step is 127 of them.
const STEPS_OF_A_STEP: f32 = 254.0;
/// Planes of the four-bit question.
pub(super) const PLANES: usize = 4;

/// A question, or a row used as one, prepared for comparison with codes. Reused from one question to the next.
#[derive(Debug, Clone, Default)]
pub struct PreparedQuery {
    /// Rotated residual, rounded to int8; padded with zeros to whole cache lines.
    pub(super) values: Vec<i8>,
    /// The rotated residual rounded to four bits in two's complement, one plane of bits after another.
    pub(super) planes: Vec<u64>,
    /// The factor of int8 products.
    pub(super) scale: f32,
    /// 128 times the sum of `values`: rows are stored with 128 added.
    pub(super) offset: i32,
    /// The factor of sketch products.
    pub(super) sketch_scale: f32,
    /// Sum of the four-bit values.
    pub(super) sketch_sum: i32,
    /// Length of the residual.
    pub(super) norm: f32,
    /// See [`Self::length()`].
    pub(super) length: f32,
    /// The factor of a row's bias.
    pub(super) bias: f32,
    /// The part of the score that does not depend on the row.
    pub(super) base: f32,
    pub(super) residual: Vec<f32>,
    /// What rounding has left of the rotated residual, rounded to int8 itself: see [`Self::refine`].
    pub(super) low: Vec<i8>,
    /// The factor of its products.
    pub(super) low_scale: f32,
    /// 128 times the sum of `low`.
    pub(super) low_offset: i32,
}

/// The nearest integer, ties to even, for values below 2^22: adding this constant leaves no room for a fraction.
/// `f32::round_ties_even` is a call into the C library where the target has no instruction for it.
pub(super) fn round(value: f32) -> i32 {
    const SHIFT: f32 = 12_582_912.0;
    (value + SHIFT).to_bits().wrapping_sub(SHIFT.to_bits()).cast_signed()
}

/// The factor that scales `largest` to `steps`; 0 where `largest` is so small that this is not
/// finite: such values count as 0.
pub(super) fn steps_per(steps: f32, largest: f32) -> f32 {
    let inverse = steps / largest;
    if inverse.is_finite() { inverse } else { 0.0 }
}

impl PreparedQuery {
    /// Length of the question where its scores grow with it, as inner products do; 1 otherwise.
    pub(crate) fn length(&self) -> f32 {
        self.length
    }

    /// Rounds a question that was [prepared](super::Codec::prepare) to twice eight bits, for comparison with rows of
    /// which nothing but the code is stored.
    pub(crate) fn refine(&mut self) {
        self.low_scale = self.scale / STEPS_OF_A_STEP;
        let steps = steps_per(1.0, self.low_scale);
        self.low.clear();
        self.low_offset = 0;
        for (values, high) in self.residual.chunks(64).zip(self.values.chunks(64)) {
            let mut left = [0.0; 64];
            for ((left, value), high) in left.iter_mut().zip(values).zip(high) {
                *left = value - f32::from(*high) * self.scale;
            }
            let rounded = rounded(&left, steps);
            self.low_offset += 128 * rounded.iter().map(|value| i32::from(*value)).sum::<i32>();
            self.low.extend_from_slice(&rounded);
        }
    }

    /// No question: every score is NaN.
    pub(super) fn none() -> Self {
        Self {
            scale: f32::NAN,
            ..Self::default()
        }
    }

    pub(super) fn set(&mut self, residual: &[f32]) {
        let (squared, largest) = squared_and_largest(residual);
        self.norm = squared.sqrt();
        self.scale = largest / 127.0;
        self.sketch_scale = largest / 7.0;
        let (steps, sketch_steps) = (steps_per(127.0, largest), steps_per(7.0, largest));
        let words = residual.len().div_ceil(64);
        self.values.clear();
        self.planes.clear();
        self.planes.resize(PLANES * words, 0);
        (self.offset, self.sketch_sum) = (0, 0);
        for (at, values) in residual.chunks(64).enumerate() {
            let rounded = rounded(values, steps);
            self.offset += 128 * rounded.iter().map(|value| i32::from(*value)).sum::<i32>();
            self.values.extend_from_slice(&rounded);
            let rounded = self::rounded(values, sketch_steps);
            self.sketch_sum += rounded.iter().map(|value| i32::from(*value)).sum::<i32>();
            let places = self.planes.iter_mut().skip(at).step_by(words);
            places
                .enumerate()
                .for_each(|(plane, place)| *place = bit_of_each(&rounded, plane));
        }
    }
}

/// Sum of the squares, in 16 partial sums whatever the instruction set, and the largest size.
fn squared_and_largest(values: &[f32]) -> (f32, f32) {
    let (mut squares, mut largest) = ([0.0f32; 16], [0.0f32; 16]);
    for chunk in values.chunks(16) {
        for ((square, largest), value) in squares.iter_mut().zip(&mut largest).zip(chunk) {
            *square += value * value;
            *largest = if value.abs() > *largest { value.abs() } else { *largest };
        }
    }
    (squares.iter().sum(), largest.iter().copied().fold(0.0, f32::max))
}

/// At most 64 values as integers, then zeros.
fn rounded(values: &[f32], steps: f32) -> [i8; 64] {
    let mut rounded = [0; 64];
    for (integer, value) in rounded.iter_mut().zip(values) {
        *integer = round(value * steps) as i8;
    }
    rounded
}

/// Bit `plane` of each value.
fn bit_of_each(values: &[i8; 64], plane: usize) -> u64 {
    // Per eight values, the product moves the lowest bit of byte `i` to bit `56 + i`: no two of them meet.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    const LOWEST: u64 = 0x0101_0101_0101_0101;
    let (eights, _) = values.as_chunks::<8>();
    eights.iter().rev().fold(0, |bits, eight| {
        let bytes = u64::from_le_bytes(eight.map(i8::cast_unsigned));
        bits << 8 | ((bytes >> plane & LOWEST).wrapping_mul(GATHER) >> 56)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_hold_the_bits_of_each_value() {
        let values: [i8; 64] = std::array::from_fn(|at| ((at * 37 + 5) % 16) as i8 - 8);
        for plane in 0..PLANES {
            let bits = bit_of_each(&values, plane);
            for (at, value) in values.iter().enumerate() {
                assert_eq!(
                    bits >> at & 1,
                    u64::from(value.cast_unsigned() >> plane & 1),
                    "value {at}, plane {plane}"
                );
            }
        }
    }

    #[test]
    fn a_question_is_rounded_to_the_nearest_steps() {
        for dim in [1usize, 63, 64, 65, 100, 384] {
            let residual: Vec<f32> = (0..dim).map(|at| ((at * 29 + 3) % 101) as f32 / 50.0 - 1.0).collect();
            let mut prepared = PreparedQuery::default();
            prepared.set(&residual);
            let words = dim.div_ceil(64);
            assert!(prepared.values.len() == 64 * words && prepared.planes.len() == PLANES * words);
            let largest = residual.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
            let (mut sums, mut squared) = ((0, 0), 0.0f64);
            for (at, value) in residual.iter().enumerate() {
                let bit = |plane: usize| (prepared.planes[plane * words + at / 64] >> (at % 64) & 1) as i32;
                let four = bit(0) + 2 * bit(1) + 4 * bit(2) - 8 * bit(3);
                assert_eq!(four, (value * (7.0 / largest)).round_ties_even() as i32, "{dim}, {at}");
                let eight = i32::from(prepared.values[at]);
                assert_eq!(
                    eight,
                    (value * (127.0 / largest)).round_ties_even() as i32,
                    "{dim}, {at}"
                );
                sums = (sums.0 + four, sums.1 + eight);
                squared += f64::from(*value).powi(2);
            }
            assert_eq!((prepared.sketch_sum, prepared.offset), (sums.0, 128 * sums.1));
            assert!(prepared.values[dim..].iter().all(|value| *value == 0));
            assert!((f64::from(prepared.norm) - squared.sqrt()).abs() < 1e-4);
        }
    }
}
