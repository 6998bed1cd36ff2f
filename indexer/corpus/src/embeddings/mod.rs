//! A directory of vectors and their keys: what an embedding job writes and an index build reads.
//!
//! | file | what lives there |
//! |---|---|
//! | `record.rs` | `embeddings.json`: model, parts, checksums |
//! | `npy.rs` | NumPy's `.npy` 1.0, the form of the parts |
//! | `writer.rs` | [`EmbeddingsWriter`]: part by part, resumable |
//! | `reader.rs` | [`EmbeddingsReader`]: verified, streaming |
//!
//! ```text
//! DIR/embeddings.json    model, tower, type, rows, complete, parts; replaced atomically after every part
//! DIR/part-000000.npy    [rows, dim] of '<f4' or '<f2', C order: numpy.load reads it
//! DIR/part-000000.keys   one JSON string per line, in row order
//! ```

mod npy;
mod reader;
mod record;
mod writer;

pub use reader::EmbeddingsReader;
pub use record::{EmbeddingsProblem, Header, ModelRecord, Part, PartFile, SourceDigest, VectorType};
pub use writer::{EmbeddingsWriter, Summary};

#[cfg(test)]
mod tests;
