//! Vectors for documents, in the corpus's order.
//!
//! | file | what lives there |
//! |---|---|
//! | `file.rs` | from an embeddings directory, row by row beside the corpus |
//! | `remote.rs` | from an encoder service, several batches in flight |

mod file;
mod remote;

use dyad_command::Cancellation;
use dyad_corpus::{Document, Located};
use dyad_index::ModelRecord;

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
    /// As the source has it; nothing has been checked but that it belongs to the document.
    pub row: Vec<f32>,
}

/// Gives every document of a corpus its vector.
pub trait VectorSource {
    /// The model of the vectors.
    fn model(&self) -> &ModelRecord;

    /// Documents that will come, where the source knows.
    fn documents(&self) -> Option<u64>;

    /// The next document with its vector, in the corpus's order; reads ahead in `corpus` as it needs. Nothing at the
    /// end of both. Returns [`Error::Cancelled`] soon after it is cancelled.
    fn pull(&mut self, corpus: &mut Documents<'_>, cancel: &Cancellation) -> Result<Option<Embedded>, Error>;
}
