//! Bytes to typed slices, with length and alignment checked.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::FormatFault;

/// A mapped region as values; nothing is copied.
pub fn as_slice<'a, T: FromBytes + Immutable + KnownLayout>(
    bytes: &'a [u8],
    part: &str,
) -> Result<&'a [T], FormatFault> {
    <[T]>::ref_from_bytes(bytes).map_err(|_| {
        let size = size_of::<T>();
        let got = format!(
            "{} bytes at alignment {}",
            bytes.len(),
            bytes.as_ptr().align_offset(align_of::<T>())
        );
        FormatFault::new(part, format!("whole values of {size} bytes, aligned"), got)
    })
}

/// `count` values from byte `offset` on.
pub fn array<'a, T: FromBytes + Immutable + KnownLayout>(
    bytes: &'a [u8],
    offset: u64,
    count: u64,
    part: &str,
) -> Result<&'a [T], FormatFault> {
    let range = count
        .checked_mul(size_of::<T>() as u64)
        .and_then(|len| Some(offset as usize..offset.checked_add(len)? as usize));
    let slice = range.and_then(|range| bytes.get(range));
    let slice = slice.ok_or_else(|| {
        FormatFault::new(
            part,
            format!("{count} values at {offset}"),
            format!("{} bytes in all", bytes.len()),
        )
    })?;
    as_slice(slice, part)
}
