//! The `.fvecs` and `.ivecs` files of the TEXMEX sets (SIFT1M): every row begins with its length as int32.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use super::error::{Result, malformed};
use super::matrix::{Matrix, Neighbours};
use super::raw::{Source, Value, write_values};

/// Reads an `.fvecs`.
pub fn read_vectors(path: &Path) -> Result<Matrix> {
    let (dim, values) = read(path, "float32")?;
    Ok(Matrix::new(dim, values))
}

/// Reads an `.ivecs`.
pub fn read_neighbours(path: &Path) -> Result<Neighbours> {
    let (k, ids) = read::<i32>(path, "int32")?;
    let ids = ids.into_iter().map(|id| u32::try_from(id).map_err(|_| malformed(path, "ids", "ids of rows", id)));
    Ok(Neighbours::new(k, ids.collect::<Result<_>>()?))
}

/// Writes an `.fvecs`.
pub fn write_vectors(path: &Path, matrix: &Matrix) -> Result<()> {
    write(path, matrix.dim(), matrix.values())
}

/// Writes an `.ivecs`.
pub fn write_neighbours(path: &Path, neighbours: &Neighbours) -> Result<()> {
    write(path, neighbours.k(), neighbours.ids())
}

fn write<T: Value>(path: &Path, dim: usize, values: &[T]) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, fs_err::File::create(path)?);
    for row in values.chunks(dim.max(1)) {
        write_values(&mut out, &[dim as i32])?;
        write_values(&mut out, row)?;
    }
    Ok(out.flush()?)
}

/// All rows; each must be as long as the first.
fn read<T: Value>(path: &Path, kind: &str) -> Result<(usize, Vec<T>)> {
    let mut source = Source::open(path)?;
    let first: i32 = source.values(1, "d of row 0")?[0];
    let dim = usize::try_from(first).ok().filter(|dim| *dim > 0);
    let dim = dim.ok_or_else(|| malformed(path, "d of row 0", "at least 1", first))?;
    let row_bytes = 4 + 4 * dim as u64;
    if source.len() % row_bytes != 0 {
        let expected = format!("a multiple of {row_bytes} bytes (rows of d and {dim} {kind})");
        return Err(malformed(path, "file size", expected, source.len()));
    }
    let n = (source.len() / row_bytes) as usize;
    let mut values = vec![T::default(); n * dim];
    for (number, row) in values.chunks_exact_mut(dim).enumerate() {
        if number > 0 {
            let mut got = [0i32];
            source.fill(&mut got, "d")?;
            if got != [first] {
                return Err(malformed(path, format!("d of row {number}"), format!("{dim}, as in row 0"), got[0]));
            }
        }
        source.fill(row, "values")?;
    }
    Ok((dim, values))
}
