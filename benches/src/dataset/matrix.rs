//! Rows of vectors and lists of neighbours in memory.

/// Row-major vectors, all of one length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Matrix {
    dim: usize,
    values: Vec<f32>,
}

impl Matrix {
    /// Rows of `dim` values; values behind the last whole row are dropped.
    pub fn new(dim: usize, mut values: Vec<f32>) -> Self {
        let whole = values.len().checked_div(dim).unwrap_or(0) * dim;
        values.truncate(whole);
        Self { dim, values }
    }

    /// Values per row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.dim).unwrap_or(0)
    }

    /// No rows at all.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// One row; empty where there is none.
    pub fn row(&self, row: usize) -> &[f32] {
        self.values.get(row * self.dim..(row + 1) * self.dim).unwrap_or(&[])
    }

    /// All rows in order.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.dim.max(1))
    }

    /// All values in order.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All values in order.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Keeps the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows.saturating_mul(self.dim));
    }
}

/// For every query the ids of its nearest rows, nearest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Neighbours {
    k: usize,
    ids: Vec<u32>,
}

impl Neighbours {
    /// Lists of `k` ids; ids behind the last whole list are dropped.
    pub fn new(k: usize, mut ids: Vec<u32>) -> Self {
        let whole = ids.len().checked_div(k).unwrap_or(0) * k;
        ids.truncate(whole);
        Self { k, ids }
    }

    /// Ids per query.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Queries.
    pub fn len(&self) -> usize {
        self.ids.len().checked_div(self.k).unwrap_or(0)
    }

    /// No queries at all.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The ids of one query; empty where there is none.
    pub fn of(&self, query: usize) -> &[u32] {
        self.ids.get(query * self.k..(query + 1) * self.k).unwrap_or(&[])
    }

    /// All ids in order.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }
}
