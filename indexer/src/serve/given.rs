//! Vectors that clients send with their documents.

use dyad_command::JobCancellation;
use dyad_corpus::PassageContext;
use dyad_index::manifest::Manifest;
use dyad_index::{Metric, ModelRecord};
use tonic::Status;

use crate::error::Error;
use crate::source::{EmbeddedDocument, LocatedDocuments, VectorSource, normalise};

/// What the vectors of a call are of: those of calls that are of the same can be indexed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GivenOrigin {
    /// Fingerprint of their model.
    pub(super) fingerprint: String,
    /// What of its document has reached each vector.
    pub(super) context: String,
}

/// The vectors of a batch of documents, in its order.
#[derive(Debug)]
pub(super) struct GivenVectors {
    model: ModelRecord,
    context: PassageContext,
    vectors: std::vec::IntoIter<Vec<f32>>,
}

impl GivenVectors {
    /// Vectors for an index whose current generation this is. Refuses those of another model, context or dimension.
    pub(super) fn new(origin: &GivenOrigin, vectors: Vec<Vec<f32>>, current: &Manifest) -> Result<Self, Status> {
        let model = current.model.clone();
        if origin.fingerprint != model.fingerprint {
            let (expected, got) = (&model.fingerprint, &origin.fingerprint);
            return Err(Status::failed_precondition(format!(
                "`fingerprint`: expected that of the index's model, {expected}, got {got}. Embed the documents by the model of the index"
            )));
        }
        let context = Some(origin.context.as_str()).filter(|context| !context.is_empty());
        let context = PassageContext::of_stored(context)
            .map_err(|error| Status::invalid_argument(format!("`context`: {error}")))?;
        if let Some(number) = vectors.iter().position(|vector| vector.len() != model.dim) {
            let (expected, got) = (model.dim, vectors.get(number).map_or(0, Vec::len));
            return Err(Status::invalid_argument(format!(
                "the vector of document {number}: expected {expected} values, as those of the index have, got {got}"
            )));
        }
        Ok(Self {
            model,
            context,
            vectors: vectors.into_iter(),
        })
    }
}

impl VectorSource for GivenVectors {
    fn model(&self) -> &ModelRecord {
        &self.model
    }

    fn is_in_step(&self) -> bool {
        true
    }

    fn documents(&self) -> Option<u64> {
        Some(self.vectors.len() as u64)
    }

    fn context(&self) -> PassageContext {
        self.context
    }

    fn pull(
        &mut self,
        corpus: &mut LocatedDocuments<'_>,
        cancel: &JobCancellation,
    ) -> Result<Option<EmbeddedDocument>, Error> {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let (Some(document), Some(mut row)) = (corpus.next().transpose()?, self.vectors.next()) else {
            return Ok(None);
        };
        if self.model.metric == Metric::Cosine {
            normalise(&mut row);
        }
        Ok(Some(EmbeddedDocument {
            document: document.value,
            row,
            truncated: None,
        }))
    }
}
