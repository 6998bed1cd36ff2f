//! Vectors from their int8 codes, for indexes that store no others: scores of rows by node, and the rows themselves.
//!
//! A question is compared in twice eight bits here, so that the rounding of the row alone is left. Its score has what
//! the row's factors tell exactly: by inner products that of row and centre, by distances the length of the residual.
//! What is decoded and encoded again by the same quantiser has the same int8 row.

use super::codes::CodesView;
use super::prepared::PreparedQuery;
use crate::model::Metric;

/// Int8 codes as the rows of a shard.
#[derive(Debug, Clone, Copy)]
pub struct CodeRows<'a> {
    slots: &'a [u32],
    codes: CodesView<'a>,
}

impl<'a> CodeRows<'a> {
    /// The codes of nodes, each of which is in its place of `slots`.
    pub fn new(slots: &'a [u32], codes: CodesView<'a>) -> Self {
        Self { slots, codes }
    }

    fn slot(&self, node: u32) -> Option<u32> {
        self.slots.get(node as usize).copied()
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// No rows at all.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The slot of each node.
    pub(crate) fn slots(&self) -> &'a [u32] {
        self.slots
    }

    /// Prepares a question for [`Self::score`].
    pub fn prepare(&self, query: &[f32]) -> PreparedQuery {
        let mut prepared = PreparedQuery::default();
        if query.len() == self.codes.codec().dim() {
            self.codes.codec().prepare(query, &mut prepared);
            prepared.refine();
        } else {
            prepared = PreparedQuery::none();
        }
        prepared
    }

    /// The score of a row; NaN where there is no such row.
    pub fn score(&self, node: u32, prepared: &PreparedQuery) -> f32 {
        self.slot(node)
            .map_or(f32::NAN, |slot| self.codes.score_refined(prepared, slot))
    }

    /// Whether there is such a row.
    pub fn is_valid(&self, node: u32) -> bool {
        self.slot(node).is_some_and(|slot| self.codes.is_valid(slot))
    }

    /// Prefetches a row.
    pub fn prefetch(&self, node: u32) {
        if let Some(slot) = self.slot(node) {
            self.codes.prefetch_code(slot);
        }
    }

    /// A row; empty where there is none.
    pub fn decode(&self, node: u32, row: &mut Vec<f32>) {
        row.clear();
        if let Some(slot) = self.slot(node) {
            self.codes.decode(slot, row);
        }
    }
}

impl CodesView<'_> {
    /// The score of a row by its int8 code and a question that was [refined](PreparedQuery::refine).
    pub(crate) fn score_refined(&self, query: &PreparedQuery, slot: u32) -> f32 {
        match (self.row(slot), self.factors(slot)) {
            (Some(row), Some(factors)) => {
                let product = self.dot_i8(&query.values, row).wrapping_sub(query.offset) as f32;
                let low = self.dot_i8(&query.low, row).wrapping_sub(query.low_offset) as f32;
                let residuals = product * query.scale + low * query.low_scale;
                let score = residuals * factors.scale + query.bias * factors.bias + query.base;
                // Between rounded vectors, too, no distance is below 0.
                if score > 0.0 && self.codec().metric() == Metric::L2 {
                    0.0
                } else {
                    score
                }
            }
            _ => f32::NAN,
        }
    }

    /// The row of a slot from its int8 code; empty where there is none.
    fn decode(&self, slot: u32, row: &mut Vec<f32>) {
        let (Some(codes), Some(factors)) = (self.row(slot), self.factors(slot)) else {
            return;
        };
        let codec = self.codec();
        row.extend(
            codes
                .iter()
                .take(codec.dim())
                .map(|code| (f32::from(*code) - 128.0) * factors.scale),
        );
        if codec.metric() == Metric::L2 {
            let squared: f32 = row.iter().map(|value| value * value).sum();
            let longer = (-2.0 * factors.bias / squared).sqrt();
            if longer.is_finite() {
                for value in row.iter_mut() {
                    *value *= longer;
                }
            }
        }
        codec.restore(row);
    }
}
