//! Rows that a metric can use: finite, and of unit length for inner products.

use std::path::Path;

use rayon::prelude::*;

use super::error::{Error, Result, malformed};
use super::matrix::Matrix;

/// Rows this close to length 1 are left as they are.
const EXACT: f64 = 1e-6;
/// Rows this close are stretched to length 1: f16 storage is off by up to 5e-4 per value.
const ROUNDING: f64 = 1e-2;

/// Refuses rows with NaN or infinite values.
pub fn require_finite(path: &Path, matrix: &Matrix) -> Result<()> {
    let finite = |row: &[f32]| row.iter().all(|value| value.is_finite());
    match matrix.values().par_chunks(matrix.dim().max(1)).position_first(|row| !finite(row)) {
        None => Ok(()),
        Some(row) => {
            let at = matrix.row(row).iter().position(|value| !value.is_finite()).unwrap_or(0);
            Err(malformed(path, format!("row {row}, value {at}"), "a finite number", matrix.row(row)[at]))
        }
    }
}

/// Makes every row a unit vector; says whether any changed. Rows that are not nearly of unit length already are refused
/// unless `any_length`.
pub fn make_unit(path: &Path, matrix: &mut Matrix, any_length: bool) -> Result<bool> {
    require_finite(path, matrix)?;
    let dim = matrix.dim().max(1);
    let changed: Vec<bool> = matrix
        .values_mut()
        .par_chunks_mut(dim)
        .enumerate()
        .map(|(row, values)| stretch(path, row, values, any_length))
        .collect::<std::result::Result<_, Error>>()?;
    Ok(changed.contains(&true))
}

fn stretch(path: &Path, row: usize, values: &mut [f32], any_length: bool) -> Result<bool> {
    let length = values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>().sqrt();
    if length == 0.0 {
        return Err(malformed(path, format!("row {row}"), "a direction", "the zero vector"));
    }
    let off = (length - 1.0).abs();
    if off > ROUNDING && !any_length {
        let expected = "unit length (metric `ip`; `normalise = true` in the workload scales the rows)";
        return Err(malformed(path, format!("row {row}"), expected, format!("length {length:.4}")));
    }
    if off <= EXACT {
        return Ok(false);
    }
    for value in values {
        *value = (f64::from(*value) / length) as f32;
    }
    Ok(true)
}
