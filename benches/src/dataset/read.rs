//! Files by their endings.

use std::path::Path;

use super::error::{Result, malformed};
use super::matrix::{Matrix, Neighbours};
use super::{bin, npy, vecs};

fn ending(path: &Path) -> &str {
    path.extension().and_then(|ending| ending.to_str()).unwrap_or("")
}

/// Reads vectors: `.npy` (f16, f32, f64), `.fbin` or `.fvecs`.
pub fn read_vectors(path: &Path) -> Result<Matrix> {
    match ending(path) {
        "npy" => npy::read_vectors(path),
        "fbin" => bin::read_vectors(path),
        "fvecs" => vecs::read_vectors(path),
        other => Err(malformed(path, "ending", ".npy, .fbin or .fvecs", format!("`{other}`"))),
    }
}

/// Reads exact neighbours: `.ibin`, `.ivecs` or `.npy`.
pub fn read_neighbours(path: &Path) -> Result<Neighbours> {
    match ending(path) {
        "ibin" => bin::read_neighbours(path),
        "ivecs" => vecs::read_neighbours(path),
        "npy" => npy::read_neighbours(path),
        other => Err(malformed(path, "ending", ".ibin, .ivecs or .npy", format!("`{other}`"))),
    }
}
