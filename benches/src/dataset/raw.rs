//! Values in and out of files: little-endian, in large pieces, with every length checked before anything is allocated.

use std::io::{Read, Write};
use std::path::Path;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::error::{Result, malformed};

// Vectors are read and written as they lie in memory.
const _: () = assert!(cfg!(target_endian = "little"), "the data readers expect a little-endian machine");

/// A value that lies in a file as it lies in memory.
pub(super) trait Value: FromBytes + IntoBytes + Immutable + Default + Clone {}
impl<T: FromBytes + IntoBytes + Immutable + Default + Clone> Value for T {}

/// An open file and its length, read front to back.
pub(super) struct Source<'a> {
    path: &'a Path,
    file: fs_err::File,
    len: u64,
}

impl<'a> Source<'a> {
    pub(super) fn open(path: &'a Path) -> Result<Self> {
        let file = fs_err::File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { path, file, len })
    }

    pub(super) fn path(&self) -> &'a Path {
        self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The file must hold exactly `expected` bytes; `what` says of what.
    pub(super) fn expect_len(&self, expected: u128, what: &str) -> Result<()> {
        if u128::from(self.len) == expected {
            return Ok(());
        }
        Err(malformed(self.path, "file size", format!("{expected} bytes ({what})"), self.len))
    }

    /// The next `count` values. Call [`Source::expect_len`] before, so that a lying header cannot ask for the world.
    pub(super) fn values<T: Value>(&mut self, count: usize, field: &str) -> Result<Vec<T>> {
        let bytes = count as u128 * size_of::<T>() as u128;
        if bytes > u128::from(self.len) {
            return Err(malformed(self.path, field, format!("{bytes} bytes"), format!("a file of {}", self.len)));
        }
        let mut values = vec![T::default(); count];
        self.fill(&mut values, field)?;
        Ok(values)
    }

    /// Fills a slice.
    pub(super) fn fill<T: Value>(&mut self, values: &mut [T], field: &str) -> Result<()> {
        let bytes = values.as_mut_bytes();
        let wanted = bytes.len();
        self.file.read_exact(bytes).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                malformed(self.path, field, format!("{wanted} bytes"), "the end of the file")
            }
            _ => error.into(),
        })
    }
}

/// Writes values as they lie in memory.
pub(super) fn write_values<T: Value>(out: &mut impl Write, values: &[T]) -> std::io::Result<()> {
    out.write_all(values.as_bytes())
}
