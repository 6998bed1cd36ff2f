//! Checks of a vector before it is indexed: finite, of the right dimension, of unit length where the metric needs it.

use dyad_index::Metric;
use dyad_index::format::RowType;

use crate::row_error::RowError;

/// Rows whose length differs from 1 by no more are left as they are: f32 arithmetic does no better.
const EXACT: f32 = 1e-5;
/// Rows whose length differs from 1 by no more are normalised: f16 storage is off by up to 5e-4 per value.
const TOLERANCE: f32 = 1e-2;

/// Rows of other metrics are shorter where they are stored in float16, whose largest number this is.
const LONGEST_F16: f32 = 65_504.0;
/// In float32 the square of a row's length, and that of the distance of two, must not overflow.
const LONGEST_F32: f32 = 9e18;

/// Checks rows one after another and counts those that it has normalised.
#[derive(Debug, Clone)]
pub struct RowCheck {
    dim: usize,
    metric: Metric,
    row_type: RowType,
    rows: u64,
    renormalised: u64,
    largest_deviation: f32,
}

impl RowCheck {
    /// Expects rows of `dim` values that are compared by `metric`, and stored as `row_type`.
    pub fn new(dim: usize, metric: Metric, row_type: RowType) -> Self {
        Self {
            dim,
            metric,
            row_type,
            rows: 0,
            renormalised: 0,
            largest_deviation: 0.0,
        }
    }

    /// Refuses a row that cannot be compared, naming its key; for [`Metric::Cosine`] normalises one that is nearly of
    /// unit length.
    pub fn check(&mut self, key: &str, row: &mut [f32]) -> Result<(), RowError> {
        self.rows += 1;
        let number = self.rows;
        let key = || key.to_owned();
        if row.len() != self.dim {
            return Err(RowError::Dimension {
                key: key(),
                row: number,
                expected: self.dim,
                got: row.len(),
            });
        }
        if let Some(position) = row.iter().position(|value| !value.is_finite()) {
            return Err(RowError::NonFinite {
                key: key(),
                row: number,
                position: position + 1,
            });
        }
        // In f64, so that the squares of large values cannot overflow.
        let length = row
            .iter()
            .map(|&value| f64::from(value) * f64::from(value))
            .sum::<f64>()
            .sqrt() as f32;
        if self.metric != Metric::Cosine {
            let (limit, reason, fix) = match self.row_type {
                RowType::F16 => (
                    LONGEST_F16,
                    "stored in float16",
                    ", or store them in float32 (`--vector-type f32`)",
                ),
                RowType::F32 | RowType::Int8 => (LONGEST_F32, "compared in float32", ""),
            };
            // False for a length that is no number as well.
            return if length < limit {
                Ok(())
            } else {
                Err(RowError::TooLong {
                    key: key(),
                    row: number,
                    length,
                    limit,
                    reason,
                    fix,
                })
            };
        }
        if length < f32::MIN_POSITIVE {
            return Err(RowError::ZeroVector {
                key: key(),
                row: number,
            });
        }
        let deviation = (length - 1.0).abs();
        if deviation > TOLERANCE {
            return Err(RowError::NotUnit {
                key: key(),
                row: number,
                length,
            });
        }
        if deviation > EXACT {
            for value in row.iter_mut() {
                *value /= length;
            }
            self.renormalised += 1;
            self.largest_deviation = self.largest_deviation.max(deviation);
        }
        Ok(())
    }

    /// A note on the rows that were normalised; none where there were none.
    pub fn note(&self) -> Option<String> {
        (self.renormalised > 0).then(|| {
            format!(
                "{} of {} vectors were not exactly of unit length and were normalised (largest deviation {:.1e})",
                self.renormalised, self.rows, self.largest_deviation
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_rows_pass_untouched() {
        let mut check = RowCheck::new(2, Metric::Cosine, RowType::F16);
        let mut row = [0.6, 0.8];
        check.check("a", &mut row).unwrap();
        assert_eq!(row.map(f32::to_bits), [0.6f32, 0.8].map(f32::to_bits));
        assert_eq!(check.note(), None);
    }

    #[test]
    fn rows_within_tolerance_are_normalised_and_counted() {
        let mut check = RowCheck::new(2, Metric::Cosine, RowType::F16);
        let mut row = [0.6006, 0.8008];
        check.check("a", &mut row).unwrap();
        assert!((row[0] - 0.6).abs() < 1e-6 && (row[1] - 0.8).abs() < 1e-6);
        check.check("b", &mut [1.0, 0.0]).unwrap();
        assert_eq!(
            check.note().unwrap(),
            "1 of 2 vectors were not exactly of unit length and were normalised (largest deviation 1.0e-3)"
        );
    }

    #[test]
    fn bad_rows_are_refused_by_key() {
        let refused = |row: &mut [f32]| {
            RowCheck::new(2, Metric::Cosine, RowType::F16)
                .check("k7", row)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refused(&mut [1.0]),
            "vector of document `k7` (row 1): expected 2 values, got 1"
        );
        assert_eq!(
            refused(&mut [0.0, f32::NAN]),
            "vector of document `k7` (row 1): value 2 (from 1) is not a finite number. Embed the document again"
        );
        assert!(refused(&mut [0.0, 0.0]).starts_with("vector of document `k7` (row 1) is zero"));
        assert!(refused(&mut [3.0, 4.0]).starts_with("vector of document `k7` (row 1) has length 5.000,"));
        assert!(refused(&mut [3e30, 4e30]).contains("has length"));
    }

    #[test]
    fn lengths_have_the_limit_of_the_type_that_they_are_stored_in() {
        let check = |row_type, value: f32| {
            RowCheck::new(2, Metric::Dot, row_type)
                .check("k", &mut [value, 0.0])
                .map_err(|error| error.to_string())
        };
        assert!(check(RowType::F16, 65_000.0).is_ok() && check(RowType::F32, 1e18).is_ok());
        let message = check(RowType::F16, 70_000.0).unwrap_err();
        assert!(
            message.contains("row 1") && message.contains("--vector-type f32"),
            "{message}"
        );
        assert!(check(RowType::F32, 1e19).unwrap_err().contains("compared in float32"));
        assert!(check(RowType::F32, f32::INFINITY).is_err());
    }
}
