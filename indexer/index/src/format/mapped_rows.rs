//! Rows of f32 in a file that is mapped, such as those that a build has spooled.

use std::ops::Range;

use super::{FormatFault, section};
use crate::rows::{DenseRows, VectorRows};
use crate::storage::MmapFile;

/// Rows of f32 in a mapped file.
#[derive(Debug, Clone, Copy)]
pub struct MappedRows<'a> {
    map: &'a MmapFile,
    rows: DenseRows<'a>,
}

impl<'a> MappedRows<'a> {
    /// Views a file of rows of `dim` values. An error where it does not hold whole values.
    pub fn new(map: &'a MmapFile, dim: usize) -> std::result::Result<Self, FormatFault> {
        Ok(Self {
            map,
            rows: DenseRows::new(section::as_slice(map, "rows")?, dim),
        })
    }
}

impl VectorRows for MappedRows<'_> {
    fn dim(&self) -> usize {
        self.rows.dim()
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn row(&self, node: u32) -> &[f32] {
        self.rows.row(node)
    }

    fn read_ahead(&self, rows: Range<usize>) {
        let bytes = (self.dim() * size_of::<f32>()) as u64;
        let (start, end) = (rows.start.min(self.len()) as u64, rows.end.min(self.len()) as u64);
        self.map.advise_needed(start * bytes, end.saturating_sub(start) * bytes);
    }
}
