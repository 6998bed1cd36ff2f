//! Values of a NumPy file that is mapped in place of being read, so that processes which need the same vectors share
//! one copy, and the system may drop pages of it: for sets that take most of the memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use dyad_files::npy::{NpyFile, NpyValue};
use memmap2::Mmap;
use zerocopy::FromBytes as _;

use crate::error::{BenchError, BenchResult};

/// All values of a file, in order. Clones share the map.
#[derive(Clone)]
pub(super) struct MappedValues<T> {
    map: Arc<Mmap>,
    /// Place in the file at which the values begin.
    start: usize,
    values: PhantomData<T>,
}

impl<T: NpyValue> MappedValues<T> {
    /// Maps a file. It must not be written to for as long as this lives: for files of the work directory, which are
    /// complete before they are mapped, and which a lock keeps other runs from.
    #[expect(unsafe_code, reason = "maps a file")]
    pub(super) fn open(path: &Path) -> BenchResult<Self> {
        let array = NpyFile::open(path)?;
        array.check_dtype(&[T::DTYPE])?;
        let file = fs_err::File::open(path)?;
        // SAFETY: the map is only read, and any bytes are valid values. Files that are mapped are written whole before,
        // by this process or by the one that started it, which holds the lock of the work directory. A later run
        // removes them before it writes, so that a map which is left of an earlier one keeps its file.
        let map = unsafe { Mmap::map(file.file()) }
            .map_err(|error| BenchError::file(path, format!("cannot be mapped: {error}")))?;
        let (start, len) = (array.start(), array.len());
        let fits = map.get(start..).and_then(|bytes| <[T]>::ref_from_bytes(bytes).ok());
        if fits.is_none_or(|values| values.len() != len) {
            let (expected, bytes) = (format!("{len} values at a multiple of {}", align_of::<T>()), map.len());
            return Err(BenchError::malformed(
                path,
                "values",
                expected,
                format!("{bytes} bytes, values from {start}"),
            ));
        }
        Ok(Self {
            map: Arc::new(map),
            start,
            values: PhantomData,
        })
    }
}

impl<T: NpyValue> Deref for MappedValues<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // Compared when it was opened.
        let bytes = self.map.get(self.start..).unwrap_or_default();
        <[T]>::ref_from_bytes(bytes).unwrap_or_default()
    }
}

impl<T> fmt::Debug for MappedValues<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Mapped")
            .field("bytes", &self.map.len())
            .finish_non_exhaustive()
    }
}
