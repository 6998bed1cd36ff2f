//! Vectors that are a hash of their text.

use dyad_command::JobCancellation;
use dyad_indexer::Error;
use dyad_indexer::source::{EmbeddedDocument, LocatedDocuments, VectorSource};

use crate::fixture::{DIM, row_of};

/// Changes the vector of the document with that number, from 0.
type RowChange = Box<dyn Fn(usize, &mut Vec<f32>)>;

/// Embeds documents by [`row_of`], and counts them.
pub(crate) struct HashSource {
    model: dyad_index::ModelRecord,
    pub(crate) embedded: usize,
    pub(crate) change: RowChange,
}

impl Default for HashSource {
    fn default() -> Self {
        let (name, fingerprint, metric) = ("hash".into(), "f00d".into(), dyad_index::Metric::Cosine);
        let model = dyad_index::ModelRecord {
            name,
            fingerprint,
            dim: DIM,
            full_dim: None,
            metric,
            max_tokens: 64,
        };
        Self {
            model,
            embedded: 0,
            change: Box::new(|_, _| {}),
        }
    }
}

impl HashSource {
    /// Of another model, whose vectors are the same.
    pub(crate) fn with_fingerprint(fingerprint: &str) -> Self {
        let mut source = Self::default();
        fingerprint.clone_into(&mut source.model.fingerprint);
        source
    }
}

impl VectorSource for HashSource {
    fn model(&self) -> &dyad_index::ModelRecord {
        &self.model
    }

    fn is_in_step(&self) -> bool {
        false
    }

    fn documents(&self) -> Option<u64> {
        None
    }

    fn pull(
        &mut self,
        corpus: &mut LocatedDocuments<'_>,
        _: &JobCancellation,
    ) -> Result<Option<EmbeddedDocument>, Error> {
        let Some(document) = corpus.next().transpose()? else {
            return Ok(None);
        };
        let mut row = row_of(&document.value.passage());
        (self.change)(self.embedded, &mut row);
        self.embedded += 1;
        Ok(Some(EmbeddedDocument {
            document: document.value,
            row,
            truncated: None,
        }))
    }
}
