//! Vectors, queries and exact neighbours: read from the field's formats, made up, or computed.
//!
//! | file | what lives there |
//! |---|---|
//! | `matrix.rs` | rows and lists of neighbours in memory |
//! | `metric.rs` | inner product of unit vectors, or Euclidean distance |
//! | `raw.rs` | values in and out of files, lengths checked |
//! | `npy.rs` | NumPy arrays |
//! | `bin.rs` | `.fbin`, `.ibin` (big-ann-benchmarks) |
//! | `vecs.rs` | `.fvecs`, `.ivecs` (TEXMEX) |
//! | [`hdf5`] | data files of ann-benchmarks |
//! | `read.rs` | files by their endings |
//! | `unit.rs` | rows that a metric can use |
//! | `exact.rs` | exact neighbours by a full scan |
//! | [`synthetic`] | clustered sets of any size |
//! | `error.rs` | what can be wrong |
//!
//! Every reader checks the file's length against its header before it allocates; what does not fit is an error that names
//! file, field, expected and got.

pub mod bin;
mod error;
mod exact;
pub mod hdf5;
mod matrix;
mod metric;
pub mod npy;
mod raw;
mod read;
pub mod synthetic;
mod unit;
pub mod vecs;

pub use error::{Error, Result};
pub use exact::{exact, exact_unless};
pub use matrix::{Matrix, Neighbours};
pub use metric::Metric;
pub use read::{read_neighbours, read_vectors};
pub use unit::{make_unit, require_finite};

#[cfg(test)]
mod tests;
