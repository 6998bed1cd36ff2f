//! Rows of vectors, from which codes are made.

use std::ops::Range;

/// Rows of vectors, all of one length.
pub trait VectorRows: Sync {
    /// Values per row.
    fn dim(&self) -> usize;
    /// Rows.
    fn len(&self) -> usize;
    /// One row; empty where there is none.
    fn row(&self, node: u32) -> &[f32];
    /// No rows at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Says that rows will be read soon, in order, so that those of a file come from the disk in long reads.
    fn read_ahead(&self, _rows: Range<usize>) {}
}

/// Rows that are contiguous in memory.
#[derive(Debug, Clone, Copy)]
pub struct DenseRows<'a> {
    values: &'a [f32],
    dim: usize,
}

impl<'a> DenseRows<'a> {
    /// Rows of `dim` values; values after the last whole row are ignored.
    pub fn new(values: &'a [f32], dim: usize) -> Self {
        Self { values, dim }
    }
}

impl VectorRows for DenseRows<'_> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn len(&self) -> usize {
        self.values.len().checked_div(self.dim).unwrap_or(0)
    }

    fn row(&self, node: u32) -> &[f32] {
        let start = node as usize * self.dim;
        self.values.get(start..start + self.dim).unwrap_or(&[])
    }
}

/// Consecutive rows of a larger set.
#[derive(Clone, Copy)]
pub struct RowRange<'a> {
    rows: &'a dyn VectorRows,
    first: usize,
    len: usize,
}

impl<'a> RowRange<'a> {
    /// At most `len` rows from `first` on.
    pub fn new(rows: &'a dyn VectorRows, first: usize, len: usize) -> Self {
        Self {
            rows,
            first,
            len: len.min(rows.len().saturating_sub(first)),
        }
    }
}

impl std::fmt::Debug for RowRange<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowRange")
            .field("first", &self.first)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl VectorRows for RowRange<'_> {
    fn dim(&self) -> usize {
        self.rows.dim()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn row(&self, node: u32) -> &[f32] {
        if (node as usize) < self.len {
            self.rows.row(self.first as u32 + node)
        } else {
            &[]
        }
    }

    fn read_ahead(&self, rows: Range<usize>) {
        self.rows
            .read_ahead(self.first + rows.start..self.first + rows.end.min(self.len));
    }
}
