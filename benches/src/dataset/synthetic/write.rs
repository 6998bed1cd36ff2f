//! All rows as a stream into files: memory does not grow with their number.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use dyad_command::Cancellation;
use dyad_files::npy::{self, Dtype};
use rayon::prelude::*;

use super::Synthetic;
use super::shape::Shape;
use crate::dataset::error::{Error, Result, malformed};
use crate::dataset::formats::{create_bin, write_values};

/// Bytes of rows that are made at once.
const PIECE_BYTES: usize = 16 << 20;

/// Writes `parameters.n` rows to `base` and the queries to `queries`, each `.npy` (float32) or `.fbin`. The files are the same for
/// every number of threads. `advance` hears of rows written; [`Error::Cancelled`] soon after it is cancelled.
pub fn write(
    parameters: &Synthetic,
    base: &Path,
    queries: &Path,
    advance: &dyn Fn(usize),
    cancel: &Cancellation,
) -> Result<()> {
    parameters.check()?;
    let shape = Shape::new(parameters);
    let rows = parameters.n as u64;
    for (path, rows) in [(base, 0..rows), (queries, rows..rows + parameters.queries as u64)] {
        write_rows(&shape, rows, parameters.dim, path, &mut |written| {
            advance(written);
            if cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
        })?;
    }
    Ok(())
}

fn write_rows(
    shape: &Shape,
    rows: std::ops::Range<u64>,
    dim: usize,
    path: &Path,
    step: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<()> {
    let n = (rows.end - rows.start) as usize;
    let mut out = create(path, n, dim)?;
    let piece = (PIECE_BYTES / (4 * dim)).max(1);
    let mut values = vec![0.0f32; piece.min(n) * dim];
    for start in (0..n).step_by(piece) {
        let count = piece.min(n - start);
        let values = &mut values[..count * dim];
        values.par_chunks_mut(dim).enumerate().for_each(|(at, out)| shape.fill(rows.start + (start + at) as u64, out));
        write_values(&mut out, values)?;
        step(count)?;
    }
    Ok(out.flush()?)
}

fn create(path: &Path, n: usize, dim: usize) -> Result<BufWriter<fs_err::File>> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("npy") => Ok(npy::create(path, Dtype::F32, &[n, dim])?),
        Some("fbin") => create_bin(path, n, dim),
        other => Err(malformed(path, "ending", ".npy or .fbin", format!("{other:?}"))),
    }
}
