//! Columns of a text index, made of the terms of `facts.rs` when a field is first asked for.

use std::io;
use std::sync::Arc;

use tantivy::TantivyError;

use super::filter_terms::FieldTerms;
use super::{FieldColumn, MAX_TEXT_BYTES, TextShard, exact_number, facts, text_error};
use crate::error::Result;
use dyad_files::Cancel;

impl TextShard {
    /// Whether any document has a value of a field, but for its key.
    pub(crate) fn has_field(&self, field: &str) -> Result<bool> {
        let prefix = facts::own(&facts::path(field));
        let Some(segment) = self.searcher.segment_readers().first() else {
            return Ok(false);
        };
        let reader = segment
            .inverted_index(self.fields.facts)
            .map_err(text_error(self.path()))?;
        let mut terms = reader.terms().range().ge(&prefix).into_stream()?;
        Ok(terms.advance() && terms.key().starts_with(&prefix))
    }

    /// The column of a field, where it is kept.
    pub fn kept_column(&self, field: &str) -> Option<Arc<FieldColumn>> {
        self.columns.get(field)
    }

    /// The column of a field. None where the work was cancelled.
    pub fn column(&self, field: &str, cancel: &dyn Cancel) -> Result<Option<Arc<FieldColumn>>> {
        if let Some(kept) = self.columns.get(field) {
            return Ok(Some(kept));
        }
        match of_terms(self, field, cancel) {
            Ok(column) => {
                let column = Arc::new(column);
                self.columns.keep(field, &column);
                Ok(Some(column))
            }
            Err(TantivyError::IoError(error)) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(text_error(self.path())(error)),
        }
    }
}

fn of_terms(shard: &TextShard, field: &str, cancel: &dyn Cancel) -> tantivy::Result<FieldColumn> {
    // Keys are no facts.
    let is_key = field == facts::KEY;
    let mut column = FieldColumn::empty(is_key);
    let Some(mut terms) = FieldTerms::open(shard, shard.fields.facts, cancel)?.filter(|_| !is_key) else {
        return Ok(column);
    };
    let prefix = facts::own(&facts::path(field));
    let reader = Arc::clone(&terms.reader);
    let mut of_field = reader.terms().range().ge(&prefix).into_stream()?;
    while of_field.advance() {
        let Some(value) = of_field.key().strip_prefix(&*prefix) else {
            break;
        };
        let number = column.add_value(is_exact(value), shard.len());
        terms.documents(of_field.value(), |document| column.add_document(document, number))?;
    }
    Ok(column)
}

/// Whether documents have the same value if they have this term, of which the type and the value are given.
pub(super) fn is_exact(term: &[u8]) -> bool {
    match term.split_first() {
        Some((&facts::FLAG, _)) => true,
        Some((&facts::TEXT, text)) => text.len() <= MAX_TEXT_BYTES,
        Some((&facts::NUMBER, number)) => number.try_into().is_ok_and(|bytes| !exact_number::is_ambiguous(bytes)),
        _ => false,
    }
}
