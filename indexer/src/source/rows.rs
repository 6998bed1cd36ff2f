//! Vectors in memory, one row after another: row i belongs to document i.

use dyad_command::JobCancellation;
use dyad_corpus::PassageContext;
use dyad_index::{Metric, ModelRecord};

use super::{EmbeddedDocument, LocatedDocuments, VectorSource, normalise};
use crate::error::Error;

/// Rows as they are asked for, with the model that is said to have made them.
#[derive(Debug)]
pub struct RowSource<I> {
    model: ModelRecord,
    context: PassageContext,
    rows: I,
}

impl<I: ExactSizeIterator<Item = Vec<f32>>> RowSource<I> {
    /// Rows of `model.dim` values; `context` is what of its document has reached each of them.
    pub fn new(model: ModelRecord, context: PassageContext, rows: I) -> Self {
        Self { model, context, rows }
    }
}

impl<I: ExactSizeIterator<Item = Vec<f32>>> VectorSource for RowSource<I> {
    fn model(&self) -> &ModelRecord {
        &self.model
    }

    fn is_in_step(&self) -> bool {
        true
    }

    fn documents(&self) -> Option<u64> {
        Some(self.rows.len() as u64)
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
        let Some(document) = corpus.next().transpose()? else {
            return Ok(None);
        };
        let Some(mut row) = self.rows.next() else {
            return Err(Error::Vectors {
                path: "vectors".into(),
                part: format!("row {}", document.line),
                expected: format!("a row for document `{}`", document.value.key),
                got: "the end".to_owned(),
                hint: "Give one row for each document",
            });
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
