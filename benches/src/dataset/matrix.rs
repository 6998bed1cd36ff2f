//! Rows of vectors and lists of neighbours, in memory or mapped, how two vectors are compared, and what a metric asks
//! of them: finite values, and unit length for `ip`.

use std::fmt::Display;
use std::path::Path;

use dyad_files::npy::NpyValue;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::mapped::MappedValues;
use crate::error::{BenchError, BenchResult};

/// Rows this close to length 1 are left as they are.
const EXACT: f64 = 1e-6;
/// Rows this close are stretched to length 1: f16 storage is off by up to 5e-4 per value.
const ROUNDING: f64 = 1e-2;

/// Row-major values, all rows of one length.
#[derive(Debug, Clone)]
pub struct RowMatrix<T> {
    width: usize,
    values: MatrixValues<T>,
}

/// Where the values are.
#[derive(Debug, Clone)]
enum MatrixValues<T> {
    Owned(Vec<T>),
    Mapped(MappedValues<T>),
}

/// Vectors.
pub type Matrix = RowMatrix<f32>;
/// For every query the ids of its nearest rows, nearest first.
pub type Neighbours = RowMatrix<u32>;

impl<T: NpyValue> RowMatrix<T> {
    /// Rows of `width` values; values after the last whole row are dropped.
    pub fn new(width: usize, values: Vec<T>) -> Self {
        let mut rows = Self {
            width,
            values: MatrixValues::Owned(values),
        };
        rows.truncate(rows.len());
        rows
    }

    /// All values of a file, which are whole rows.
    pub(super) fn mapped(width: usize, values: MappedValues<T>) -> Self {
        Self {
            width,
            values: MatrixValues::Mapped(values),
        }
    }

    /// The values are still those of a file, all of them, and take no memory of their own.
    pub fn is_mapped(&self) -> bool {
        matches!(self.values, MatrixValues::Mapped(_))
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
        self.values().len().checked_div(self.width).unwrap_or(0)
    }

    /// No rows at all.
    pub fn is_empty(&self) -> bool {
        self.values().is_empty()
    }

    /// One row; empty where there is none.
    pub fn row(&self, row: usize) -> &[T] {
        self.values()
            .get(row * self.width..(row + 1) * self.width)
            .unwrap_or(&[])
    }

    /// All rows in order.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, T> {
        self.values().chunks_exact(self.width.max(1))
    }

    /// All values in order.
    pub fn values(&self) -> &[T] {
        match &self.values {
            MatrixValues::Owned(values) => values,
            MatrixValues::Mapped(values) => values,
        }
    }

    /// Keeps the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        let kept = rows.saturating_mul(self.width);
        if kept < self.values().len() {
            match &mut self.values {
                MatrixValues::Owned(values) => values.truncate(kept),
                MatrixValues::Mapped(values) => self.values = MatrixValues::Owned(values[..kept].to_vec()),
            }
        }
    }

    /// All values in memory of their own, to be changed.
    fn to_mut(&mut self) -> &mut [T] {
        if let MatrixValues::Mapped(values) = &self.values {
            self.values = MatrixValues::Owned(values.to_vec());
        }
        match &mut self.values {
            MatrixValues::Owned(values) => values,
            MatrixValues::Mapped(_) => &mut [],
        }
    }
}

impl<T> Default for RowMatrix<T> {
    /// None, of no values.
    fn default() -> Self {
        Self {
            width: 0,
            values: MatrixValues::Owned(Vec::new()),
        }
    }
}

impl<T: NpyValue + PartialEq> PartialEq for RowMatrix<T> {
    fn eq(&self, other: &Self) -> bool {
        self.width == other.width && self.values() == other.values()
    }
}

/// Neighbours of ids none of which may be negative.
pub(super) fn of_rows<T: TryInto<u32> + Copy + Display>(
    path: &Path,
    k: usize,
    ids: impl Iterator<Item = T>,
) -> BenchResult<Neighbours> {
    let ids = ids.map(|id| {
        id.try_into()
            .map_err(|_| BenchError::malformed(path, "ids", "ids of rows", id))
    });
    Ok(Neighbours::new(k, ids.collect::<BenchResult<_>>()?))
}

/// How vectors are compared; the larger score is the nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VectorMetric {
    /// Inner product of unit vectors.
    Ip,
    /// Inner product of vectors of any length.
    Dot,
    /// Minus the squared Euclidean distance.
    L2,
}

impl From<VectorMetric> for dyad_index::Metric {
    fn from(metric: VectorMetric) -> Self {
        match metric {
            VectorMetric::Ip => Self::Cosine,
            VectorMetric::Dot => Self::Dot,
            VectorMetric::L2 => Self::L2,
        }
    }
}

impl VectorMetric {
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
        let pairs = left
            .iter()
            .zip(right)
            .map(|(left, right)| (f64::from(*left), f64::from(*right)));
        match self {
            Self::Ip | Self::Dot => pairs.map(|(left, right)| left * right).sum(),
            Self::L2 => -pairs.map(|(left, right)| (left - right) * (left - right)).sum::<f64>(),
        }
    }
}

/// Refuses rows with NaN or infinite values.
pub fn require_finite(path: &Path, matrix: &Matrix) -> BenchResult<()> {
    let Some(at) = matrix.values().par_iter().position_first(|value| !value.is_finite()) else {
        return Ok(());
    };
    let field = format!("row {}, value {}", at / matrix.dim(), at % matrix.dim());
    Err(BenchError::malformed(
        path,
        field,
        "a finite number",
        matrix.values()[at],
    ))
}

/// Makes every row a unit vector; a mapped matrix whose rows are such already stays mapped. Rows that are not nearly of
/// unit length already are refused unless `any_length`.
pub fn make_unit(path: &Path, matrix: &mut Matrix, any_length: bool) -> BenchResult<()> {
    require_finite(path, matrix)?;
    let dim = matrix.dim().max(1);
    let rows = matrix.values().par_chunks(dim).enumerate();
    let off = rows
        .map(|(row, values)| {
            is_off_unit(values, any_length)
                .map_err(|(expected, got)| BenchError::malformed(path, format!("row {row}"), expected, got))
        })
        .try_reduce(|| false, |one, other| Ok(one | other))?;
    if off {
        matrix.to_mut().par_chunks_mut(dim).for_each(|values| {
            let length = length(values);
            if (length - 1.0).abs() > EXACT {
                for value in values {
                    *value = (f64::from(*value) / length) as f32;
                }
            }
        });
    }
    Ok(())
}

/// The Euclidean length.
fn length(values: &[f32]) -> f64 {
    values
        .iter()
        .map(|value| f64::from(*value) * f64::from(*value))
        .sum::<f64>()
        .sqrt()
}

/// Whether a row has to be scaled to be a unit vector; or what is expected of it and what it is, where it may not be
/// scaled.
fn is_off_unit(values: &[f32], any_length: bool) -> Result<bool, (&'static str, String)> {
    let length = length(values);
    let off = (length - 1.0).abs();
    if length == 0.0 {
        return Err(("a direction", "the zero vector".to_owned()));
    }
    if off > ROUNDING && !any_length {
        let expected = "unit length (metric `ip`; `normalise = true` in the workload scales the rows)";
        return Err((expected, format!("length {length:.4}")));
    }
    Ok(off > EXACT)
}
