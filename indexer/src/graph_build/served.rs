//! Rows rounded as a shard will store them, so that a certificate measures what is served and not what was given.

use dyad_index::Metric;
use dyad_index::format::RowType;
use dyad_index::quant::CodeRows;
use dyad_index::search::{ExactRows, VectorRows};
use half::f16;
use half::slice::HalfFloatSliceExt as _;

/// Vectors in memory, scored as if they were read from a shard of the row type.
#[derive(Clone, Copy)]
pub(super) struct ServedRows<'a> {
    pub(super) rows: &'a dyn VectorRows,
    pub(super) row_type: RowType,
    /// The codes of the rows, which stand for them where the type is int8.
    pub(super) codes: CodeRows<'a>,
}

impl<'a> ServedRows<'a> {
    pub(super) fn new(rows: &'a dyn VectorRows, row_type: RowType, codes: CodeRows<'a>) -> Self {
        Self { rows, row_type, codes }
    }
}

impl ExactRows for ServedRows<'_> {
    fn count(&self) -> usize {
        self.rows.len()
    }

    fn score(&self, node: u32, query: &[f32], metric: Metric) -> f32 {
        let row = self.rows.row(node);
        match self.row_type {
            RowType::F32 => metric.score(query, row),
            RowType::Int8 => self.codes.score(node, &self.codes.prepare(query)),
            RowType::F16 => {
                let mut narrow = vec![f16::ZERO; row.len()];
                narrow.convert_from_f32_slice(row);
                let mut wide = vec![0.0; row.len()];
                narrow.convert_to_f32_slice(&mut wide);
                metric.score(query, &wide)
            }
        }
    }

    fn is_valid(&self, node: u32) -> bool {
        self.rows.is_valid(node)
    }

    fn prefetch(&self, node: u32) {
        ExactRows::prefetch(self.rows, node);
    }

    fn codes(&self) -> Option<CodeRows<'_>> {
        (self.row_type == RowType::Int8).then_some(self.codes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyad_index::quant::{Codec, Codes};
    use dyad_index::search::{DenseRows, RowQuestion};

    #[test]
    fn f16_and_int8_round_and_f32_does_not() {
        // Next to 1.0, f16 has steps of 1/1024 above and 1/2048 below.
        let values = [1.0 + 1.0 / 4096.0, 0.5, 1.0 - 1.0 / 4096.0, 0.25];
        let rows = DenseRows::new(&values, 2);
        let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 1));
        let codes = CodeRows::new(&[0, 1], codes.view());
        let served = |row_type| ServedRows {
            rows: &rows,
            row_type,
            codes,
        };
        let score = |row_type, node| served(row_type).score(node, &[1.0, 0.0], Metric::Cosine);
        assert_eq!(score(RowType::F32, 0).to_bits(), values[0].to_bits());
        assert_eq!(
            (score(RowType::F16, 0).to_bits(), score(RowType::F16, 1).to_bits()),
            (1f32.to_bits(), 1f32.to_bits())
        );
        // By its code the first row is within half a step of it, whichever way it is scored.
        let asked = RowQuestion::new(&served(RowType::Int8), &[1.0, 0.0], Metric::Cosine).score(0);
        let coded = score(RowType::Int8, 0);
        assert!(
            (coded - values[0]).abs() < 0.01 && coded.to_bits() == asked.to_bits(),
            "{coded}"
        );
        assert!(RowType::ALL.iter().all(|row_type| score(*row_type, 2).is_nan()));
    }
}
