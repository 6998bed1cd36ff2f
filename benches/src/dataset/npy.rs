//! NumPy arrays: vectors of f16, f32 or f64, ids of int32 or int64, latencies of f64.

use std::path::Path;

use dyad_files::npy::{NpyDtype, NpyFile, write};

use super::mapped::MappedValues;
use super::matrix::{Matrix, Neighbours, of_rows};
use crate::error::{BenchError, BenchResult};

/// Reads a matrix of `<f2`, `<f4` or `<f8` as f32.
pub fn read_vectors(path: &Path) -> BenchResult<Matrix> {
    let (mut file, dim) = open(path)?;
    Ok(Matrix::new(dim, file.read_f32(0..file.len())?))
}

/// Maps a matrix of `<f4`, which nothing may write to meanwhile.
pub(crate) fn map_vectors(path: &Path) -> BenchResult<Matrix> {
    let (_, dim) = open(path)?;
    Ok(Matrix::mapped(dim, MappedValues::open(path)?))
}

/// Reads neighbours: `<i4`, `<u4` or `<i8`, none of them negative.
pub fn read_neighbours(path: &Path) -> BenchResult<Neighbours> {
    let (k, ids) = read_ids(path)?;
    of_rows(path, k, ids.into_iter())
}

/// Reads a matrix of ids: its columns and its values. -1 stands for no neighbour.
pub fn read_ids(path: &Path) -> BenchResult<(usize, Vec<i64>)> {
    let (mut file, k) = open(path)?;
    file.check_dtype(&[NpyDtype::I32, NpyDtype::U32, NpyDtype::I64])?;
    let ids = match file.dtype() {
        NpyDtype::I32 => file.read::<i32>()?.into_iter().map(i64::from).collect(),
        NpyDtype::U32 => file.read::<u32>()?.into_iter().map(i64::from).collect(),
        _ => file.read()?,
    };
    Ok((k, ids))
}

/// Reads one dimension of `<f8`.
pub fn read_f64(path: &Path) -> BenchResult<Vec<f64>> {
    let mut file = NpyFile::open(path)?;
    match file.shape() {
        [_] => Ok(file.read()?),
        shape => Err(BenchError::malformed(
            path,
            "shape",
            "one dimension",
            format!("{shape:?}"),
        )),
    }
}

/// Writes a matrix as `<f4`.
pub fn write_vectors(path: &Path, matrix: &Matrix) -> BenchResult<()> {
    Ok(write(path, &[matrix.len(), matrix.dim()], matrix.values())?)
}

/// Writes ids as `<i4` of shape `[ids.len() / k, k]`.
pub fn write_ids(path: &Path, k: usize, ids: &[i32]) -> BenchResult<()> {
    Ok(write(path, &[ids.len().checked_div(k).unwrap_or(0), k], ids)?)
}

/// Writes one dimension of `<f8`.
pub fn write_f64(path: &Path, values: &[f64]) -> BenchResult<()> {
    Ok(write(path, &[values.len()], values)?)
}

/// A matrix that is not empty, and its columns.
fn open(path: &Path) -> BenchResult<(NpyFile, usize)> {
    let file = NpyFile::open(path)?;
    match file.shape() {
        &[n, columns] if n > 0 && columns > 0 => Ok((file, columns)),
        shape => Err(BenchError::malformed(
            path,
            "shape",
            "two dimensions, none of them 0",
            format!("{shape:?}"),
        )),
    }
}
