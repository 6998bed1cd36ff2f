//! Rows of vectors as searches compare them with questions.

use zerocopy::IntoBytes as _;

use crate::kernels;
use crate::model::Metric;
use crate::quant::{CodeRows, PreparedQuery};
use crate::rows::VectorRows;

/// Rows that can be compared with a question exactly, whatever their type in memory.
pub trait ExactRows: Sync {
    /// Rows.
    fn count(&self) -> usize;
    /// Score of a row: see [`Metric::score`].
    /// NaN where there is no such row.
    fn score(&self, node: u32, query: &[f32], metric: Metric) -> f32;
    /// Whether there is such a row, of finite values.
    fn is_valid(&self, node: u32) -> bool;
    /// Prefetches a row.
    fn prefetch(&self, node: u32);
    /// The int8 codes that the rows are, where no others are stored: whoever compares many rows with a question
    /// prepares that once, see [`RowQuestion`].
    fn codes(&self) -> Option<CodeRows<'_>> {
        None
    }
}

/// A question that is compared with many rows.
pub struct RowQuestion<'a, R: ?Sized> {
    rows: &'a R,
    query: &'a [f32],
    metric: Metric,
    prepared: Option<(CodeRows<'a>, PreparedQuery)>,
}

impl<R: ?Sized> std::fmt::Debug for RowQuestion<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowQuestion")
            .field("values", &self.query.len())
            .field("metric", &self.metric)
            .finish_non_exhaustive()
    }
}

impl<'a, R: ExactRows + ?Sized> RowQuestion<'a, R> {
    /// A question of as many values as the rows have.
    pub fn new(rows: &'a R, query: &'a [f32], metric: Metric) -> Self {
        let prepared = rows.codes().map(|codes| (codes, codes.prepare(query)));
        Self {
            rows,
            query,
            metric,
            prepared,
        }
    }

    /// See [`ExactRows::score`].
    pub fn score(&self, node: u32) -> f32 {
        match &self.prepared {
            Some((codes, prepared)) => codes.score(node, prepared),
            None => self.rows.score(node, self.query, self.metric),
        }
    }
}

impl<T: VectorRows + ?Sized> ExactRows for T {
    fn count(&self) -> usize {
        self.len()
    }

    fn score(&self, node: u32, query: &[f32], metric: Metric) -> f32 {
        metric.score(query, self.row(node))
    }

    fn is_valid(&self, node: u32) -> bool {
        let row = self.row(node);
        !row.is_empty() && row.iter().all(|value| value.is_finite())
    }

    fn prefetch(&self, node: u32) {
        kernels::prefetch(self.row(node).as_bytes());
    }
}
