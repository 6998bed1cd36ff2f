//! Rows of vectors and lists of neighbours in memory, how two vectors are compared, and what a metric asks of them: finite values, and
//! unit length for `ip`.

use std::fmt::Display;
use std::path::Path;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Rows this close to length 1 are left as they are.
const EXACT: f64 = 1e-6;
/// Rows this close are stretched to length 1: f16 storage is off by up to 5e-4 per value.
const ROUNDING: f64 = 1e-2;

/// Row-major values, all rows of one length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rows<T> {
    width: usize,
    values: Vec<T>,
}

/// Vectors.
pub type Matrix = Rows<f32>;
/// For every query the ids of its nearest rows, nearest first.
pub type Neighbours = Rows<u32>;

impl<T> Rows<T> {
    /// Rows of `width` values; values after the last whole row are dropped.
    pub fn new(width: usize, values: Vec<T>) -> Self {
        let mut rows = Self { width, values };
        rows.truncate(rows.len());
        rows
    }

    /// Values per vector.
    pub fn dim(&self) -> usize {
        self.width
    }

    /// Ids per query.
    pub fn k(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// No rows at all.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// One row; empty where there is none.
    pub fn row(&self, row: usize) -> &[T] {
        self.values.get(row * self.width..(row + 1) * self.width).unwrap_or(&[])
    }

    /// All rows in order.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, T> {
        self.values.chunks_exact(self.width.max(1))
    }

    /// All values in order.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Keeps the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows.saturating_mul(self.width));
    }
}

/// Neighbours of ids none of which may be negative.
pub(super) fn of_rows<T: TryInto<u32> + Copy + Display>(
    path: &Path,
    k: usize,
    ids: impl Iterator<Item = T>,
) -> Result<Neighbours> {
    let ids = ids.map(|id| id.try_into().map_err(|_| Error::malformed(path, "ids", "ids of rows", id)));
    Ok(Neighbours::new(k, ids.collect::<Result<_>>()?))
}

/// How vectors are compared; the larger score is the nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Inner product of unit vectors.
    Ip,
    /// Inner product of vectors of any length.
    Dot,
    /// Minus the squared Euclidean distance.
    L2,
}

impl From<Metric> for dyad_index::Metric {
    fn from(metric: Metric) -> Self {
        match metric {
            Metric::Ip => Self::Cosine,
            Metric::Dot => Self::Dot,
            Metric::L2 => Self::L2,
        }
    }
}

impl Metric {
    /// Its name in workloads and requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Dot => "dot",
            Self::L2 => "l2",
        }
    }

    /// The score in f64: what recall is judged by.
    pub fn score(self, left: &[f32], right: &[f32]) -> f64 {
        let pairs = left.iter().zip(right).map(|(left, right)| (f64::from(*left), f64::from(*right)));
        match self {
            Self::Ip | Self::Dot => pairs.map(|(left, right)| left * right).sum(),
            Self::L2 => -pairs.map(|(left, right)| (left - right) * (left - right)).sum::<f64>(),
        }
    }
}

/// Refuses rows with NaN or infinite values.
pub fn require_finite(path: &Path, matrix: &Matrix) -> Result<()> {
    let Some(at) = matrix.values().par_iter().position_first(|value| !value.is_finite()) else { return Ok(()) };
    let field = format!("row {}, value {}", at / matrix.dim(), at % matrix.dim());
    Err(Error::malformed(path, field, "a finite number", matrix.values()[at]))
}

/// Makes every row a unit vector. Rows that are not nearly of unit length already are refused unless `any_length`.
pub fn make_unit(path: &Path, matrix: &mut Matrix, any_length: bool) -> Result<()> {
    require_finite(path, matrix)?;
    let dim = matrix.dim().max(1);
    matrix.values.par_chunks_mut(dim).enumerate().try_for_each(|(row, values)| {
        let length = values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>().sqrt();
        let off = (length - 1.0).abs();
        if length == 0.0 {
            return Err(Error::malformed(path, format!("row {row}"), "a direction", "the zero vector"));
        }
        if off > ROUNDING && !any_length {
            let expected = "unit length (metric `ip`; `normalise = true` in the workload scales the rows)";
            return Err(Error::malformed(path, format!("row {row}"), expected, format!("length {length:.4}")));
        }
        if off > EXACT {
            for value in values {
                *value = (f64::from(*value) / length) as f32;
            }
        }
        Ok(())
    })
}
