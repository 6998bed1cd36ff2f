//! Data files of ann-benchmarks and VIBE: `train`, `test`, `neighbors` and the attribute `distance` in one HDF5 file.

use std::fmt::Display;
use std::path::Path;

use hdf5_pure::{AttrValue, File, H5Element};

use super::matrix::{Matrix, Neighbours, VectorMetric, of_rows};
use crate::error::{BenchError, BenchResult};

/// A data file's content.
#[derive(Debug, Clone, PartialEq)]
pub struct Hdf5 {
    /// `train`.
    pub base: Matrix,
    /// `test`.
    pub queries: Matrix,
    /// `neighbors`, where the file has them.
    pub neighbours: Option<Neighbours>,
    /// `angular`, `ip` and, of VIBE, `cosine` and `normalized` are inner products here, `euclidean` is L2.
    pub metric: VectorMetric,
    /// The rows are to be scaled to unit length: `angular` compares directions.
    pub any_length: bool,
}

/// Reads a data file of ann-benchmarks or VIBE. Sparse sets and other distances are refused.
pub fn read(path: &Path) -> BenchResult<Hdf5> {
    // `fs_err` names the file where it is missing or may not be read.
    drop(fs_err::File::open(path)?);
    let file = File::open(path).map_err(|error| BenchError::malformed(path, "header", "an HDF5 file", error))?;
    let attributes = file
        .root()
        .attrs()
        .map_err(|error| BenchError::malformed(path, "attributes", "readable ones", error))?;
    let text = |name: &str| match attributes.get(name) {
        Some(AttrValue::String(text) | AttrValue::AsciiString(text) | AttrValue::VarLenString(text)) => {
            Some(text.trim_end_matches('\0').to_owned())
        }
        _ => None,
    };
    if let Some(kind) = text("type").filter(|kind| kind != "dense") {
        return Err(BenchError::malformed(path, "attribute `type`", "dense", kind));
    }
    let distance = text("distance");
    let (metric, any_length) = match distance.as_deref() {
        Some("angular" | "cosine") => (VectorMetric::Ip, true),
        // VIBE's name of rows of unit length.
        Some("normalized") => (VectorMetric::Ip, false),
        Some("ip") => (VectorMetric::Dot, false),
        Some("euclidean") => (VectorMetric::L2, false),
        other => {
            let got = other.unwrap_or("no such attribute");
            return Err(BenchError::malformed(
                path,
                "attribute `distance`",
                "angular, cosine, normalized, euclidean or ip",
                got,
            ));
        }
    };
    let (dim, base) = dataset::<f32>(path, &file, "train")?;
    let (query_dim, queries) = dataset::<f32>(path, &file, "test")?;
    if query_dim != dim {
        return Err(BenchError::malformed(
            path,
            "test: d",
            format!("{dim}, as in train"),
            query_dim,
        ));
    }
    let named = file
        .root()
        .datasets()
        .map_err(|error| BenchError::malformed(path, "root group", "a list of data sets", error))?;
    let neighbours = if named.iter().any(|name| name == "neighbors") {
        let (k, ids) = dataset::<i64>(path, &file, "neighbors")?;
        Some(of_rows(path, k, ids.into_iter())?)
    } else {
        None
    };
    Ok(Hdf5 {
        base: Matrix::new(dim, base),
        queries: Matrix::new(dim, queries),
        neighbours,
        metric,
        any_length,
    })
}

/// A data set of two dimensions: its columns and its values.
fn dataset<T: H5Element>(path: &Path, file: &File, name: &str) -> BenchResult<(usize, Vec<T>)> {
    let fail = |error: &dyn Display| BenchError::malformed(path, name, "a readable data set", error);
    let set = file.dataset(name).map_err(|error| fail(&error))?;
    let shape = set.shape().map_err(|error| fail(&error))?;
    let &[n, columns] = shape.as_slice() else {
        return Err(BenchError::malformed(
            path,
            format!("{name}: shape"),
            "two dimensions",
            format!("{shape:?}"),
        ));
    };
    if n == 0 || columns == 0 {
        return Err(BenchError::malformed(
            path,
            format!("{name}: shape"),
            "at least one row and column",
            format!("{shape:?}"),
        ));
    }
    let values = set.read::<T>().map_err(|error| fail(&error))?;
    if values.len() as u64 != n.saturating_mul(columns) {
        return Err(BenchError::malformed(
            path,
            name,
            format!("{n} x {columns} values"),
            values.len(),
        ));
    }
    Ok((columns as usize, values))
}
