//! An index has vectors of one kind: passages by themselves, or read in their documents.

use dyad_corpus::PassageContext;
use dyad_index::manifest::Manifest;

use crate::context_error::ContextError;
use crate::error::Error;
use crate::source::VectorSource;

/// Refuses vectors of passages that were read in another way than those of the index.
pub(super) fn check_context(current: &Manifest, source: &dyn VectorSource) -> Result<(), Error> {
    let got = source.context();
    if current.context == got.stored() {
        return Ok(());
    }
    let expected = current
        .context
        .clone()
        .unwrap_or_else(|| PassageContext::default().to_string());
    Err(ContextError::Other {
        generation: current.generation,
        expected,
        got: got.to_string(),
    }
    .into())
}
