//! Vectors, queries and exact neighbours: read from the field's formats, synthesized, or computed.
//!
//! | file | contents |
//! |---|---|
//! | `matrix.rs` | rows and lists of neighbours in memory, and how vectors are compared |
//! | `formats.rs` | `.fbin`, `.ibin`, `.fvecs`, `.ivecs`; files by their endings |
//! | [`npy`] | NumPy arrays |
//! | [`hdf5`] | data files of ann-benchmarks |
//! | `unit.rs` | rows that a metric can use |
//! | `exact.rs` | exact neighbours by a full scan |
//! | [`synthetic`] | clustered sets of any size |
//! | `error.rs` | what can be wrong |
//!
//! Every reader checks the file's length against its header before it allocates; what does not fit is an error that names
//! file, field, expected and got.

mod error;
mod exact;
mod formats;
pub mod hdf5;
mod matrix;
pub mod npy;
pub mod synthetic;
mod unit;

pub use error::{Error, Result};
pub use exact::{exact, exact_unless};
pub use formats::{read_neighbours, read_vectors, write_neighbours};
pub use matrix::{Matrix, Metric, Neighbours, Rows};
pub use unit::{make_unit, require_finite};

#[cfg(test)]
mod tests;
