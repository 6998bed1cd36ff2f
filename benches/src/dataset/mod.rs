//! Vectors, queries and exact neighbours: read from the field's formats, synthesized, or computed.
//!
//! | file | contents |
//! |---|---|
//! | `matrix.rs` | rows and lists of neighbours, how vectors are compared, and what a metric asks of them |
//! | `mapped.rs` | values of a file that is mapped in place of being read |
//! | `formats.rs` | `.fbin`, `.ibin`, `.fvecs`, `.ivecs`; directories of `dyad-encoder embed`; files by their endings |
//! | [`npy`] | NumPy arrays |
//! | [`hdf5`] | data files of ann-benchmarks |
//! | `exact.rs` | exact neighbours by a full scan |
//! | `sentences.rs` | a corpus as one of sentences |
//! | [`synthetic`] | clustered sets of any size |
//!
//! Every reader checks the file's length against its header before it allocates; what does not fit is an error that
//! names file, field, expected and got.

mod exact;
mod formats;
pub mod hdf5;
mod mapped;
mod matrix;
pub mod npy;
mod sentences;
pub mod synthetic;

pub use exact::{exact, exact_among};
pub use formats::{read_neighbours, read_vectors, write_neighbours};
pub use matrix::{Matrix, Neighbours, RowMatrix, VectorMetric, make_unit, require_finite};
pub use sentences::write_sentences;

#[cfg(test)]
mod tests;
