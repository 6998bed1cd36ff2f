//! Pads the remainder of a row with zeros to a register.

/// `rest`, then zeros.
#[inline]
pub(super) fn padded<T: Copy + Default, const LANES: usize>(rest: &[T]) -> [T; LANES] {
    let mut lanes = [T::default(); LANES];
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane = *value;
    }
    lanes
}
