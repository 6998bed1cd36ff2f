//! Filters of single documents by their stored fields: of documents that no shard has yet, and of a few that one has.

use std::cmp::Ordering;
use std::ops::Bound;

use super::facts::{self, FieldValue};
use super::fields_of::each_value;
use super::filter::value;
use super::{DocumentFilter, StoredDocument};

/// The values of a document by their paths.
struct DocumentValues<'a> {
    key: &'a str,
    values: Vec<(String, FieldValue)>,
}

impl DocumentFilter {
    /// Whether a document matches: the same as [`Self::nodes`] says where a shard has it.
    pub fn matches(&self, document: &StoredDocument) -> bool {
        self.holds(&DocumentValues::of(document))
    }

    fn holds(&self, document: &DocumentValues<'_>) -> bool {
        match self {
            Self::All(all) => all.iter().all(|filter| filter.holds(document)),
            Self::Any(all) => all.iter().any(|filter| filter.holds(document)),
            Self::Not(filter) => !filter.holds(document),
            Self::Keys(keys) => keys.iter().any(|key| key == document.key),
            Self::Exists { field } => document.has(field),
            Self::Prefix { field, prefix } => document.any(field, |value| begins_with(value, prefix)),
            Self::OneOf { field, values } => document.any(field, |value| values.contains(value)),
            Self::Range { field, min, max } => {
                let has_end = value(min.as_ref()).or(value(max.as_ref())).is_some();
                has_end && document.any(field, |value| is_above(value, min) && is_below(value, max))
            }
        }
    }
}

fn begins_with(value: &FieldValue, prefix: &str) -> bool {
    match value {
        FieldValue::Text(text) => text.as_bytes().starts_with(prefix.as_bytes()),
        _ => false,
    }
}

/// The order of two numbers, or of two texts by their bytes; none of others.
fn order(one: &FieldValue, other: &FieldValue) -> Option<Ordering> {
    match (one, other) {
        (FieldValue::Text(one), FieldValue::Text(other)) => Some(one.as_bytes().cmp(other.as_bytes())),
        (FieldValue::Number(one), FieldValue::Number(other)) => Some(one.cmp(other)),
        _ => None,
    }
}

fn is_above(value: &FieldValue, min: &Bound<FieldValue>) -> bool {
    match min {
        Bound::Included(min) => order(value, min).is_some_and(Ordering::is_ge),
        Bound::Excluded(min) => order(value, min).is_some_and(Ordering::is_gt),
        Bound::Unbounded => true,
    }
}

fn is_below(value: &FieldValue, max: &Bound<FieldValue>) -> bool {
    match max {
        Bound::Included(max) => order(value, max).is_some_and(Ordering::is_le),
        Bound::Excluded(max) => order(value, max).is_some_and(Ordering::is_lt),
        Bound::Unbounded => true,
    }
}

impl<'a> DocumentValues<'a> {
    fn of(document: &'a StoredDocument) -> Self {
        let StoredDocument {
            key,
            title,
            metadata_json,
            ..
        } = document;
        let mut values = Vec::new();
        if !title.is_empty() {
            values.push((facts::TITLE.to_owned(), FieldValue::Text(title.clone())));
        }
        each_value(metadata_json, &mut |path, value| {
            values.push((path.to_owned(), value.into()));
        });
        Self { key, values }
    }

    /// Whether one of a field's values is accepted.
    fn any(&self, field: &str, accepts: impl Fn(&FieldValue) -> bool) -> bool {
        if field == facts::KEY {
            return accepts(&FieldValue::Text(self.key.to_owned()));
        }
        let wanted = facts::path(field);
        self.values
            .iter()
            .any(|(path, value)| *path == wanted && accepts(value))
    }

    /// Whether a field has a value, or one inside.
    fn has(&self, field: &str) -> bool {
        let wanted = facts::path(field);
        let is_at_or_inside = |path: &str| {
            let rest = path.strip_prefix(&wanted);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        field == facts::KEY || self.values.iter().any(|(path, _)| is_at_or_inside(path))
    }
}
