//! Vectors for documents, in the corpus's order.
//!
//! | file | contents |
//! |---|---|
//! | `batch.rs` | documents: of a corpus, or keys alone |
//! | `array.rs` | from an array that was made elsewhere |
//! | `rows.rs` | rows in memory |
//! | `parquet.rs` | columns of a Parquet file: vectors, and keys |
//! | `raw.rs` | files of benchmarks: `.fbin`, `.fvecs` |
//! | `file.rs` | from an embeddings directory, row by row with the corpus |
//! | `remote.rs` | from encoder services, several batches in flight |
//! | `remote_config.rs` | how these are called |
//! | `call.rs` | one batch to one of several services |
//! | `leading.rs` | the first values of vectors in place of all |
//! | `late.rs` | passages in their documents, as services get them |
//! | `logit_scale.rs` | how much a difference of the model's cosines says, measured through services |
//! | `absence.rs` | a service that is away |
//! | `long.rs` | texts that are longer than the model reads |
//! | `kept.rs` | the same kept on the disk until they are published |
//! | `kept_folders.rs` | where they are kept |

mod absence;
mod array;
mod batch;
mod call;
mod file;
mod kept;
mod kept_folders;
mod late;
mod leading;
mod logit_scale;
mod long;
mod parquet;
mod raw;
mod remote;
mod remote_config;
mod rows;

use dyad_command::JobCancellation;
use dyad_corpus::{Document, Located, PassageContext};
use dyad_index::ModelRecord;

pub(crate) use array::normalise;
pub use array::{ArraySource, DeclaredModel};
pub use batch::{Corpus, DocumentBatch, UncheckedBatch};
pub use file::FileSource;
pub use kept::KeptSource;
pub(crate) use kept::header_of;
pub(crate) use kept_folders::left_in;
pub use leading::LeadingSource;
pub(crate) use long::ever_shorter;
pub use long::{LongTexts, OnLong};
pub use remote::RemoteSource;
pub use remote_config::RemoteConfig;
pub use rows::RowSource;

use crate::error::Error;

/// A corpus's documents as they are read.
pub type LocatedDocuments<'a> = dyn Iterator<Item = Result<Located<Document>, dyad_corpus::Error>> + 'a;

/// A document and its vector.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedDocument {
    /// The document.
    pub document: Document,
    /// As the source returns it; only its key has been checked.
    pub row: Vec<f32>,
    /// Whether the model read only the beginning of the text, where the source knows.
    pub truncated: Option<bool>,
}

/// Returns the documents of a corpus with their vectors.
pub trait VectorSource {
    /// The model of the vectors.
    fn model(&self) -> &ModelRecord;

    /// Whether the source has a vector for every document of the corpus, in its order, and [`Self::pull`] must see them
    /// all.
    fn is_in_step(&self) -> bool;

    /// Documents that will come, where the source knows.
    fn documents(&self) -> Option<u64>;

    /// Texts that were truncated at the model's longest input: so far, or of the whole set; where the source knows.
    fn truncated(&self) -> Option<u64> {
        None
    }

    /// Tokens of all texts so far, after truncation, where the source knows.
    fn tokens(&self) -> Option<u64> {
        None
    }

    /// Whether its model embeds questions otherwise than documents, where the source knows.
    fn has_two_towers(&self) -> Option<bool> {
        None
    }

    /// The model's [`logit_scale`](dyad_corpus::logit_scale), where the source has it at hand.
    fn known_logit_scale(&self) -> Option<f64> {
        None
    }

    /// The same of vectors of which the first `dimensions` values are kept, measured where the source embeds.
    fn logit_scale(&mut self, dimensions: usize, _cancel: &JobCancellation) -> Result<Option<f64>, Error> {
        Ok(self.known_logit_scale().filter(|_| dimensions == self.model().dim))
    }

    /// What of its document has reached a passage's vector.
    fn context(&self) -> PassageContext {
        PassageContext::default()
    }

    /// The next document with its vector, in the corpus's order; reads ahead in `corpus` as it needs. Nothing at the
    /// end of both. Returns [`Error::Cancelled`] soon after it is cancelled.
    fn pull(
        &mut self,
        corpus: &mut LocatedDocuments<'_>,
        cancel: &JobCancellation,
    ) -> Result<Option<EmbeddedDocument>, Error>;

    /// The documents are published: what was kept for a repetition of the job is not needed any more.
    fn published(&mut self) {}
}

impl VectorSource for Box<dyn VectorSource> {
    fn model(&self) -> &ModelRecord {
        (**self).model()
    }

    fn is_in_step(&self) -> bool {
        (**self).is_in_step()
    }

    fn documents(&self) -> Option<u64> {
        (**self).documents()
    }

    fn truncated(&self) -> Option<u64> {
        (**self).truncated()
    }

    fn tokens(&self) -> Option<u64> {
        (**self).tokens()
    }

    fn has_two_towers(&self) -> Option<bool> {
        (**self).has_two_towers()
    }

    fn known_logit_scale(&self) -> Option<f64> {
        (**self).known_logit_scale()
    }

    fn logit_scale(&mut self, dimensions: usize, cancel: &JobCancellation) -> Result<Option<f64>, Error> {
        (**self).logit_scale(dimensions, cancel)
    }

    fn context(&self) -> PassageContext {
        (**self).context()
    }

    fn pull(
        &mut self,
        corpus: &mut LocatedDocuments<'_>,
        cancel: &JobCancellation,
    ) -> Result<Option<EmbeddedDocument>, Error> {
        (**self).pull(corpus, cancel)
    }

    fn published(&mut self) {
        (**self).published();
    }
}
