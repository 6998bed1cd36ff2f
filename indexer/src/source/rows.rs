//! Vectors in memory, one row after another: row i belongs to document i.

use dyad_command::JobCancellation;
use dyad_index::{Metric, ModelRecord};

use super::{EmbeddedDocument, LocatedDocuments, VectorSource, normalise};
use crate::error::Error;

/// Rows of a matrix, with the model that is said to have made them. They are not copied before they are asked for.
#[derive(Debug)]
pub struct RowSource<'a> {
    model: ModelRecord,
    rows: std::slice::ChunksExact<'a, f32>,
}

impl<'a> RowSource<'a> {
    /// `values` holds the rows of `model.dim` values, which is not 0.
    pub fn new(model: ModelRecord, values: &'a [f32]) -> Self {
        let rows = values.chunks_exact(model.dim.max(1));
        Self { model, rows }
    }
}

impl VectorSource for RowSource<'_> {
    fn model(&self) -> &ModelRecord {
        &self.model
    }

    fn is_in_step(&self) -> bool {
        true
    }

    fn documents(&self) -> Option<u64> {
        Some(self.rows.len() as u64)
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
        let Some(row) = self.rows.next() else {
            return Err(Error::Vectors {
                path: "vectors".into(),
                part: format!("row {}", document.line),
                expected: format!("a row for document `{}`", document.value.key),
                got: "the end".to_owned(),
                hint: "Give one row for each document",
            });
        };
        let mut row = row.to_vec();
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
