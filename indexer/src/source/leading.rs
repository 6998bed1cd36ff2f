//! The first values of a source's vectors in place of all of them: [`dyad_index::matryoshka`] says how they are cut.

use dyad_command::JobCancellation;
use dyad_corpus::PassageContext;
use dyad_index::ModelRecord;

use super::{EmbeddedDocument, LocatedDocuments, VectorSource};
use crate::error::Error;
use crate::row_error::RowError;

/// A source, and how many of the values of its vectors are kept.
pub struct LeadingSource<'a> {
    inner: &'a mut dyn VectorSource,
    /// With the values that are kept.
    model: ModelRecord,
    /// That were pulled.
    rows: u64,
}

impl std::fmt::Debug for LeadingSource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeadingSource")
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl<'a> LeadingSource<'a> {
    /// Keeps the first `dimensions` values; refuses 0, and more than the vectors have.
    pub fn new(inner: &'a mut dyn VectorSource, dimensions: usize) -> Result<Self, Error> {
        let model = inner.model().leading(dimensions)?;
        Ok(Self { inner, model, rows: 0 })
    }

    /// Keeps what an index keeps, see [`ModelRecord::like`].
    pub fn like(inner: &'a mut dyn VectorSource, index: &ModelRecord) -> Self {
        let model = inner.model().like(index);
        Self { inner, model, rows: 0 }
    }

    /// Keeps `dimensions` values, or else what an index keeps that is there.
    pub fn of_build(
        inner: &'a mut dyn VectorSource,
        dimensions: Option<usize>,
        index: Option<&ModelRecord>,
    ) -> Result<Self, Error> {
        match (dimensions, index) {
            (Some(dimensions), _) => Self::new(inner, dimensions),
            (None, Some(index)) => Ok(Self::like(inner, index)),
            (None, None) => {
                let model = inner.model().clone();
                Ok(Self { inner, model, rows: 0 })
            }
        }
    }

    /// Of another model than an index had: keeps `dimensions` values, or else as many as the index keeps, where it does
    /// not keep all.
    pub fn of_new_model(
        inner: &'a mut dyn VectorSource,
        dimensions: Option<usize>,
        index: &ModelRecord,
    ) -> Result<Self, Error> {
        let as_before = index.full_dim.map(|_| index.dim);
        // A model of fewer values has nothing that could be left out.
        let as_before = as_before.filter(|kept| *kept < inner.model().dim);
        Self::of_build(inner, dimensions.or(as_before), None)
    }
}

impl VectorSource for LeadingSource<'_> {
    fn model(&self) -> &ModelRecord {
        &self.model
    }

    fn is_in_step(&self) -> bool {
        self.inner.is_in_step()
    }

    fn documents(&self) -> Option<u64> {
        self.inner.documents()
    }

    fn truncated(&self) -> Option<u64> {
        self.inner.truncated()
    }

    fn tokens(&self) -> Option<u64> {
        self.inner.tokens()
    }

    fn has_two_towers(&self) -> Option<bool> {
        self.inner.has_two_towers()
    }

    /// Cosines of the first values lie otherwise: what is known is of all values.
    fn known_logit_scale(&self) -> Option<f64> {
        self.inner
            .known_logit_scale()
            .filter(|_| self.model.dim == self.inner.model().dim)
    }

    fn logit_scale(&mut self, dimensions: usize, cancel: &JobCancellation) -> Result<Option<f64>, Error> {
        self.inner.logit_scale(dimensions, cancel)
    }

    fn context(&self) -> PassageContext {
        self.inner.context()
    }

    fn pull(
        &mut self,
        corpus: &mut LocatedDocuments<'_>,
        cancel: &JobCancellation,
    ) -> Result<Option<EmbeddedDocument>, Error> {
        let mut embedded = self.inner.pull(corpus, cancel)?;
        if let Some(embedded) = &mut embedded {
            self.rows += 1;
            // Also of values that are not kept: a row with such a one is damaged.
            if let Some(position) = embedded.row.iter().position(|value| !value.is_finite()) {
                return Err(Error::Row(RowError::NonFinite {
                    key: embedded.document.key.clone(),
                    row: self.rows,
                    position: position + 1,
                }));
            }
            // Rows of other lengths are refused with their keys, by the check that all vectors pass.
            if self.model.takes(embedded.row.len()) {
                self.model.cut(&mut embedded.row)?;
            }
        }
        Ok(embedded)
    }

    fn published(&mut self) {
        self.inner.published();
    }
}
