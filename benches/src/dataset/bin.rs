//! The `.fbin` and `.ibin` files of big-ann-benchmarks.
//!
//! `uint32 n, uint32 d`, then rows of f32 or int32. Exact neighbours: `uint32 n, uint32 k`, then all ids, then all f32 scores.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use super::error::{Result, malformed};
use super::matrix::{Matrix, Neighbours};
use super::raw::{Source, write_values};

/// Reads an `.fbin`.
pub fn read_vectors(path: &Path) -> Result<Matrix> {
    let mut source = Source::open(path)?;
    let (n, dim) = sizes(&mut source, "d")?;
    source.expect_len(8 + 4 * n as u128 * dim as u128, &format!("{n} rows of {dim} float32"))?;
    Ok(Matrix::new(dim, source.values(n * dim, "rows")?))
}

/// Reads an `.ibin` with scores (as k-NN truth has them) or without.
pub fn read_neighbours(path: &Path) -> Result<Neighbours> {
    let mut source = Source::open(path)?;
    let (n, k) = sizes(&mut source, "k")?;
    let cells = n as u128 * k as u128;
    if u128::from(source.len()) != 8 + 4 * cells {
        source.expect_len(8 + 8 * cells, &format!("{n} lists of {k} int32 ids and as many float32 scores"))?;
    }
    let ids: Vec<u32> = source.values(n * k, "ids")?;
    if let Some(id) = ids.iter().find(|id| **id > i32::MAX as u32) {
        return Err(malformed(path, "ids", "int32 ids that are not negative", *id as i32));
    }
    Ok(Neighbours::new(k, ids))
}

/// Writes an `.fbin`.
pub fn write_vectors(path: &Path, matrix: &Matrix) -> Result<()> {
    let mut out = create(path, matrix.len(), matrix.dim())?;
    write_values(&mut out, matrix.values())?;
    Ok(out.flush()?)
}

/// Writes k-NN truth; `scores` has one value per id.
pub fn write_neighbours(path: &Path, neighbours: &Neighbours, scores: &[f32]) -> Result<()> {
    let mut out = create(path, neighbours.len(), neighbours.k())?;
    write_values(&mut out, neighbours.ids())?;
    write_values(&mut out, scores)?;
    Ok(out.flush()?)
}

/// A new file with its sizes; the rows follow. For matrices larger than memory.
pub fn create(path: &Path, n: usize, dim: usize) -> Result<BufWriter<fs_err::File>> {
    let size = |field: &str, size: usize| {
        u32::try_from(size).map_err(|_| malformed(path, field, "fewer than 2^32 (the format's limit)", size))
    };
    let sizes = [size("n", n)?, size("d", dim)?];
    let mut out = BufWriter::with_capacity(1 << 20, fs_err::File::create(path)?);
    write_values(&mut out, &sizes)?;
    Ok(out)
}

fn sizes(source: &mut Source<'_>, second: &str) -> Result<(usize, usize)> {
    let sizes: Vec<u32> = source.values(2, "sizes")?;
    for (name, size) in ["n", second].into_iter().zip(&sizes) {
        if *size == 0 {
            return Err(malformed(source.path(), name, "at least 1", 0));
        }
    }
    Ok((sizes[0] as usize, sizes[1] as usize))
}
