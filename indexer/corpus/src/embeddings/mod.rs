//! Embeddings directories: vectors and their keys, written by an embedding job and read by an index build.
//!
//! | file | contents |
//! |---|---|
//! | `record.rs` | `embeddings.json`: model, parts, checksums |
//! | `values.rs` | [`VectorType`]: how values are stored |
//! | `writer.rs` | [`EmbeddingsWriter`]: part by part, resumable |
//! | `earlier.rs` | [`EarlierRows`]: rows of parts whose corpus has changed, for reuse |
//! | `reader.rs` | [`EmbeddingsReader`]: verified, streaming |
//!
//! ```text
//! DIR/embeddings.json    model, tower, dtype, type, rows, complete, parts (files, rows, truncated texts); replaced
//!                        atomically after every part
//! DIR/part-000000.npy    [rows, dim] of '<f4', '<f2', '|i1' or '|u1', or [rows, dim / 8] of bits; C order: numpy.load reads it
//! DIR/part-000000.keys   one JSON string per line, in row order
//! DIR/part-000000.texts  16 bytes per row: digest of key and passage
//! DIR/earlier-1-part-... parts of the corpus before it changed; removed once the set is complete
//! ```

mod earlier;
mod reader;
mod record;
mod values;
mod writer;

pub use earlier::{EarlierRow, EarlierRows};
pub use reader::EmbeddingsReader;
pub use record::{EmbeddingsHeader, EmbeddingsModel, EmbeddingsPart, PartFile, SourceDigest, text_digest};
pub use values::{VectorType, packed_bits};
pub use writer::{EmbeddingsSummary, EmbeddingsWriter};

#[cfg(test)]
mod tests;
