//! Vectors for documents, in the corpus's order.
//!
//! | file | contents |
//! |---|---|
//! | `batch.rs` | documents: of a corpus, or keys alone |
//! | `array.rs` | from an array that was made elsewhere |
//! | `parquet.rs` | columns of a Parquet file: vectors, and keys |
//! | `raw.rs` | files of benchmarks: `.fbin`, `.fvecs` |
//! | `file.rs` | from an embeddings directory, row by row with the corpus |
//! | `remote.rs` | from an encoder service, several batches in flight |

mod array;
mod batch;
mod file;
mod parquet;
mod raw;
mod remote;

use dyad_command::Cancellation;
use dyad_corpus::{Document, Located};
use dyad_index::ModelRecord;

pub use array::{ArraySource, DeclaredModel};
pub use batch::{Batch, Corpus, Given};
pub use file::FileSource;
pub use remote::{RemoteConfig, RemoteSource};

use crate::error::Error;

/// A corpus's documents as they are read.
pub type Documents<'a> = dyn Iterator<Item = Result<Located<Document>, dyad_corpus::Error>> + 'a;

/// A document and its vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedded {
    /// The document.
    pub document: Document,
    /// As the source returns it; only its key has been checked.
    pub row: Vec<f32>,
}

/// Returns the documents of a corpus with their vectors.
pub trait VectorSource {
    /// The model of the vectors.
    fn model(&self) -> &ModelRecord;

    /// Whether the source has a vector for every document of the corpus, in its order, and [`Self::pull`] must see them all.
    fn is_in_step(&self) -> bool;

    /// Documents that will come, where the source knows.
    fn documents(&self) -> Option<u64>;

    /// Texts that were truncated at the model's longest input: so far, or of the whole set; where the source knows.
    fn truncated(&self) -> Option<u64> {
        None
    }

    /// The next document with its vector, in the corpus's order; reads ahead in `corpus` as it needs. Nothing at the
    /// end of both. Returns [`Error::Cancelled`] soon after it is cancelled.
    fn pull(&mut self, corpus: &mut Documents<'_>, cancel: &Cancellation) -> Result<Option<Embedded>, Error>;
}
