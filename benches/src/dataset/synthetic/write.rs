//! All rows as a stream into files: memory does not grow with their number.

use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::Synthetic;
use super::shape::Shape;
use crate::dataset::error::{Error, Result, malformed};
use crate::dataset::raw::write_values;
use crate::dataset::{bin, npy};

/// Bytes of rows that are made at once.
const PIECE_BYTES: usize = 16 << 20;

/// Who follows the work, and who ends it.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Hears of rows written.
    pub advance: &'a dyn Fn(usize),
    /// True ends the work with [`Error::Cancelled`].
    pub cancel: &'a AtomicBool,
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("cancel", self.cancel).finish_non_exhaustive()
    }
}

/// Writes `parameters.n` rows to `base` and the queries to `queries`, each `.npy` (float32) or `.fbin`. The files are the same for every number of threads.
pub fn write(parameters: &Synthetic, base: &Path, queries: &Path, watch: Watch<'_>) -> Result<()> {
    parameters.check()?;
    let shape = Shape::new(parameters);
    let first_query = parameters.n as u64;
    write_rows(&shape, 0..first_query, parameters.dim, base, watch)?;
    let behind = first_query..first_query + parameters.queries as u64;
    write_rows(&shape, behind, parameters.dim, queries, watch)
}

fn write_rows(shape: &Shape, rows: std::ops::Range<u64>, dim: usize, path: &Path, watch: Watch<'_>) -> Result<()> {
    let n = (rows.end - rows.start) as usize;
    let mut out = create(path, n, dim)?;
    let piece = (PIECE_BYTES / (4 * dim)).max(1);
    let mut values = vec![0.0f32; piece.min(n) * dim];
    for start in (0..n).step_by(piece) {
        if watch.cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let count = piece.min(n - start);
        let values = &mut values[..count * dim];
        values.par_chunks_mut(dim).enumerate().for_each(|(at, out)| shape.fill(rows.start + (start + at) as u64, out));
        write_values(&mut out, values)?;
        (watch.advance)(count);
    }
    Ok(out.flush()?)
}

fn create(path: &Path, n: usize, dim: usize) -> Result<BufWriter<fs_err::File>> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("npy") => npy::create(path, "<f4", &[n, dim]),
        Some("fbin") => bin::create(path, n, dim),
        other => Err(malformed(path, "ending", ".npy or .fbin", format!("{other:?}"))),
    }
}
