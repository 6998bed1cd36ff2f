//! Filters: conditions on documents' fields, and the set of nodes that match them.

use std::io;
use std::ops::Bound;

use fixedbitset::FixedBitSet;
use tantivy::TantivyError;
use tantivy::schema::Field;

use super::facts::{self, FieldValue};
use super::filter_terms::{Ends, FieldTerms};
use super::{ExactNumber, TextShard, text_error};
use crate::error::Result;
use crate::search::NodeSet;
use dyad_files::Cancel;

/// Which documents match. A field is `key`, `title`, or one of the metadata, nested ones joined by dots. A condition on
/// a field holds when one of the field's values meets it; without a value of the condition's type it does not hold.
#[derive(Debug, Clone, PartialEq)]
pub enum DocumentFilter {
    /// All conditions; all documents where there are none.
    All(Vec<DocumentFilter>),
    /// At least one condition; no document where there are none.
    Any(Vec<DocumentFilter>),
    /// The documents that do not match.
    Not(Box<DocumentFilter>),
    /// The field has one of these values.
    OneOf {
        /// Its name.
        field: String,
        /// Wanted.
        values: Vec<FieldValue>,
    },
    /// The field has a number or text between two bounds, each inclusive or exclusive. Between bounds of different
    /// types there is nothing.
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
    /// The field has a text that begins with this one, byte by byte.
    Prefix {
        /// Its name.
        field: String,
        /// At most [`MAX_TEXT_BYTES`](super::MAX_TEXT_BYTES).
        prefix: String,
    },
    /// Documents with these keys.
    Keys(Vec<String>),
}

impl DocumentFilter {
    /// The nodes of a shard that match; none where the work was cancelled.
    pub fn nodes(&self, shard: &TextShard, cancel: &dyn Cancel) -> Result<Option<NodeSet>> {
        match self.bits(shard, cancel) {
            Ok(bits) => Ok(Some(bits.into())),
            Err(TantivyError::IoError(error)) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(text_error(shard.path())(error)),
        }
    }

    fn bits(&self, shard: &TextShard, cancel: &dyn Cancel) -> tantivy::Result<FixedBitSet> {
        let terms = |field: Field| FieldTerms::open(shard, field, cancel);
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
            Self::Prefix { field, prefix } => {
                let (indexed, beginning) = if field == facts::KEY {
                    (shard.fields.key, prefix.clone().into_bytes())
                } else {
                    let text = FieldValue::Text(prefix.clone());
                    (shard.fields.facts, facts::term(&facts::path(field), &text))
                };
                if let Some(mut terms) = terms(indexed)? {
                    terms.between((Bound::Unbounded, Bound::Unbounded), &beginning, &mut bits)?;
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
                    terms.one_of(&facts::path(field), values, &mut bits)?;
                }
            }
            Self::Range { field, min, max } => range(shard, field, (min.as_ref(), max.as_ref()), cancel, &mut bits)?,
        }
        Ok(bits)
    }
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
    (min, max): Ends<&FieldValue>,
    cancel: &dyn Cancel,
    into: &mut FixedBitSet,
) -> tantivy::Result<()> {
    let (Some(one), Some(other)) = (value(min).or(value(max)), value(max).or(value(min))) else {
        return Ok(());
    };
    let kind = one.kind();
    if kind != other.kind() || kind == facts::FLAG {
        return Ok(());
    }
    if field == facts::KEY {
        // Keys are texts: no number is among them.
        return match FieldTerms::open(shard, shard.fields.key, cancel)?.filter(|_| kind == facts::TEXT) {
            Some(mut terms) => Ok(terms.between((min.map(key_bytes), max.map(key_bytes)), b"", into)?),
            None => Ok(()),
        };
    }
    let path = facts::path(field);
    let Some(mut terms) = FieldTerms::open(shard, shard.fields.facts, cancel)? else {
        return Ok(());
    };
    if let (Some(min), Some(max)) = (number(min), number(max)) {
        return Ok(terms.numbers(&path, (min, max), into)?);
    }
    let term = |end: &FieldValue| facts::term(&path, end);
    Ok(terms.between((min.map(term), max.map(term)), &facts::prefix(&path, kind), into)?)
}

/// A bound that is a number, or absent; none where it is a value of another type.
fn number(end: Bound<&FieldValue>) -> Option<Bound<&ExactNumber>> {
    match end {
        Bound::Included(FieldValue::Number(number)) => Some(Bound::Included(number)),
        Bound::Excluded(FieldValue::Number(number)) => Some(Bound::Excluded(number)),
        Bound::Unbounded => Some(Bound::Unbounded),
        Bound::Included(_) | Bound::Excluded(_) => None,
    }
}

/// The bytes of a key that ends a range; none of a number, before which no key is.
fn key_bytes(end: &FieldValue) -> Vec<u8> {
    if let FieldValue::Text(key) = end {
        key.clone().into_bytes()
    } else {
        Vec::new()
    }
}
