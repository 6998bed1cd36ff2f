//! Vectors that clients send with their documents.

use dyad_corpus::PassageContext;
use dyad_index::manifest::Manifest;
use tonic::Status;

use crate::source::RowSource;

/// What the vectors of a call are of: those of calls that are of the same can be indexed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GivenOrigin {
    /// Fingerprint of their model.
    pub(super) fingerprint: String,
    /// What of its document has reached each vector.
    pub(super) context: String,
}

/// The vectors of a batch of documents, in its order, for an index whose current generation this is. Refuses those of
/// another model, context or dimension.
pub(super) fn given_rows(
    origin: &GivenOrigin,
    mut vectors: Vec<Vec<f32>>,
    current: &Manifest,
) -> Result<RowSource<std::vec::IntoIter<Vec<f32>>>, Status> {
    let model = current.model.clone();
    if origin.fingerprint != model.fingerprint {
        let (expected, got) = (&model.fingerprint, &origin.fingerprint);
        return Err(Status::failed_precondition(format!(
            "`fingerprint`: expected that of the index's model, {expected}, got {got}. Embed the documents by the model of the index"
        )));
    }
    let context = Some(origin.context.as_str()).filter(|context| !context.is_empty());
    let context =
        PassageContext::of_stored(context).map_err(|error| Status::invalid_argument(format!("`context`: {error}")))?;
    for (number, vector) in vectors.iter_mut().enumerate() {
        if !model.takes(vector.len()) {
            let (expected, got) = (model.lengths(), vector.len());
            return Err(Status::invalid_argument(format!(
                "the vector of document {number}: expected {expected} values, as those of the index have, got {got}"
            )));
        }
        model
            .cut(vector)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
    }
    Ok(RowSource::new(model, context, vectors.into_iter()))
}
