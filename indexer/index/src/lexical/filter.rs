//! Filters: conditions on documents' fields, and the set of nodes that match them.

use std::io;
use std::ops::Bound;

use fixedbitset::FixedBitSet;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocSet as _, InvertedIndexReader, TERMINATED, TantivyError};

use super::facts::{self, FieldValue};
use super::{TextShard, text_error};
use crate::cancel::Cancel;
use crate::error::Result;
use crate::search::NodeSet;

/// Which documents match. A field is `key`, `title`, or one of the metadata, nested ones joined by dots. A condition on a
/// field holds when one of the field's values meets it; without a value of the condition's type it does not hold.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// All conditions; all documents where there are none.
    All(Vec<Filter>),
    /// At least one condition; no document where there are none.
    Any(Vec<Filter>),
    /// The documents that do not match.
    Not(Box<Filter>),
    /// The field has one of these values.
    OneOf {
        /// Its name.
        field: String,
        /// Wanted.
        values: Vec<FieldValue>,
    },
    /// The field has a number or text between two bounds, each inclusive or exclusive. Between bounds of different types
    /// there is nothing.
    Range {
        /// Its name.
        field: String,
        /// Lower bound. Without any bound nothing matches.
        min: Bound<FieldValue>,
        /// Upper bound.
        max: Bound<FieldValue>,
    },
    /// The field has a value, or is an object that has one inside.
    Exists {
        /// Its name.
        field: String,
    },
    /// Documents with these keys.
    Keys(Vec<String>),
}

/// Documents read between two checks for cancellation.
const DOCUMENTS_BETWEEN_CHECKS: u32 = 4096;

/// The terms of one indexed field, and their documents.
struct Terms<'a> {
    reader: std::sync::Arc<InvertedIndexReader>,
    cancel: &'a dyn Cancel,
    read: u32,
}

impl Terms<'_> {
    /// Adds the documents of one term.
    fn equal(&mut self, term: &[u8], into: &mut FixedBitSet) -> io::Result<()> {
        match self.reader.terms().get(term)? {
            Some(info) => self.documents(&info, into),
            None => Ok(()),
        }
    }

    /// Adds the documents of all terms between two that start with `prefix`.
    fn between(
        &mut self,
        (from, to): (Bound<Vec<u8>>, Bound<Vec<u8>>),
        prefix: &[u8],
        into: &mut FixedBitSet,
    ) -> io::Result<()> {
        let reader = std::sync::Arc::clone(&self.reader);
        let range = reader.terms().range();
        let range = match from {
            Bound::Included(from) => range.ge(from),
            Bound::Excluded(from) => range.gt(from),
            Bound::Unbounded => range.ge(prefix),
        };
        let range = match to {
            Bound::Included(to) => range.le(to),
            Bound::Excluded(to) => range.lt(to),
            Bound::Unbounded => range,
        };
        let mut terms = range.into_stream()?;
        while terms.advance() {
            if !terms.key().starts_with(prefix) {
                break;
            }
            self.documents(terms.value(), into)?;
        }
        Ok(())
    }

    /// An error of kind `Interrupted` where the work was cancelled.
    fn documents(&mut self, info: &tantivy::postings::TermInfo, into: &mut FixedBitSet) -> io::Result<()> {
        let mut documents = self.reader.read_postings_from_terminfo(info, IndexRecordOption::Basic)?;
        let mut document = documents.doc();
        while document != TERMINATED {
            if self.read.is_multiple_of(DOCUMENTS_BETWEEN_CHECKS) && self.cancel.is_cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.read = self.read.wrapping_add(1);
            // A damaged posting list may name a document that does not exist.
            if (document as usize) < into.len() {
                into.insert(document as usize);
            }
            document = documents.advance();
        }
        Ok(())
    }
}

impl Filter {
    /// The nodes of a shard that match; none where the work was cancelled.
    pub fn nodes(&self, shard: &TextShard, cancel: &dyn Cancel) -> Result<Option<NodeSet>> {
        match self.bits(shard, cancel) {
            Ok(bits) => Ok(Some(bits.into())),
            Err(TantivyError::IoError(error)) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(text_error(shard.path())(error)),
        }
    }

    fn bits(&self, shard: &TextShard, cancel: &dyn Cancel) -> tantivy::Result<FixedBitSet> {
        let terms = |field: Field| terms(shard, field, cancel);
        let mut bits = FixedBitSet::with_capacity(shard.len());
        match self {
            Self::All(all) => {
                bits.insert_range(..);
                for filter in all {
                    bits.intersect_with(&filter.bits(shard, cancel)?);
                }
            }
            Self::Any(all) => {
                for filter in all {
                    bits.union_with(&filter.bits(shard, cancel)?);
                }
            }
            Self::Not(filter) => {
                bits = filter.bits(shard, cancel)?;
                bits.toggle_range(..);
            }
            Self::Keys(keys) => {
                if let Some(mut terms) = terms(shard.fields.key)? {
                    keys.iter().try_for_each(|key| terms.equal(key.as_bytes(), &mut bits))?;
                }
            }
            Self::Exists { field } if field == facts::KEY => bits.insert_range(..),
            Self::Exists { field } => {
                if let Some(mut terms) = terms(shard.fields.facts)? {
                    let path = facts::path(field);
                    for prefix in [facts::own(&path), facts::inside(&path)] {
                        terms.between((Bound::Unbounded, Bound::Unbounded), &prefix, &mut bits)?;
                    }
                }
            }
            Self::OneOf { field, values } if field == facts::KEY => {
                if let Some(mut terms) = terms(shard.fields.key)? {
                    for value in values {
                        if let FieldValue::Text(key) = value {
                            terms.equal(key.as_bytes(), &mut bits)?;
                        }
                    }
                }
            }
            Self::OneOf { field, values } => {
                if let Some(mut terms) = terms(shard.fields.facts)? {
                    let path = facts::path(field);
                    values.iter().try_for_each(|value| terms.equal(&facts::term(&path, value), &mut bits))?;
                }
            }
            Self::Range { field, min, max } => range(shard, field, (min.as_ref(), max.as_ref()), cancel, &mut bits)?,
        }
        Ok(bits)
    }
}

/// The terms of a field; none in a shard without documents.
fn terms<'a>(shard: &TextShard, field: Field, cancel: &'a dyn Cancel) -> tantivy::Result<Option<Terms<'a>>> {
    let segment = shard.searcher.segment_readers().first();
    segment.map(|segment| segment.inverted_index(field).map(|reader| Terms { reader, cancel, read: 0 })).transpose()
}

/// The value of a bound.
pub(super) fn value(end: Bound<&FieldValue>) -> Option<&FieldValue> {
    match end {
        Bound::Included(value) | Bound::Excluded(value) => Some(value),
        Bound::Unbounded => None,
    }
}

fn range(
    shard: &TextShard,
    field: &str,
    (min, max): (Bound<&FieldValue>, Bound<&FieldValue>),
    cancel: &dyn Cancel,
    into: &mut FixedBitSet,
) -> tantivy::Result<()> {
    let (Some(one), Some(other)) = (value(min).or(value(max)), value(max).or(value(min))) else { return Ok(()) };
    let kind = one.kind();
    if kind != other.kind() || kind == facts::FLAG {
        return Ok(());
    }
    if field == facts::KEY {
        // Keys are texts: no number is among them.
        let key =
            |end: &FieldValue| if let FieldValue::Text(key) = end { key.clone().into_bytes() } else { Vec::new() };
        return match terms(shard, shard.fields.key, cancel)?.filter(|_| kind == facts::TEXT) {
            Some(mut terms) => Ok(terms.between((min.map(key), max.map(key)), b"", into)?),
            None => Ok(()),
        };
    }
    let path = facts::path(field);
    let term = |end: &FieldValue| facts::term(&path, end);
    if let Some(mut terms) = terms(shard, shard.fields.facts, cancel)? {
        terms.between((min.map(term), max.map(term)), &facts::prefix(&path, kind), into)?;
    }
    Ok(())
}
