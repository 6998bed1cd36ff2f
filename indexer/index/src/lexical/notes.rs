//! Notes on a filter that names a field, or a type of value, which no document has. Such a filter is valid and matches
//! nothing, which is rarely intended.

use std::collections::BTreeSet;

use super::facts::{self, FieldValue};
use super::filter::value;
use super::{DocumentFilter, TextShard, text_error};
use crate::error::Result;

/// Notes on one filter.
const MOST: usize = 16;
/// Types of values, and their names in notes.
const KINDS: [(u8, &str, &str); 3] = [
    (facts::TEXT, "a text", "texts"),
    (facts::NUMBER, "a number", "numbers"),
    (facts::FLAG, "a flag", "flags"),
];
/// Stands for a value of any type, or an object that holds one.
const ANY: u8 = 0;

impl DocumentFilter {
    /// One sentence for each field that the filter names and no document of `shards` has, and for each type that it is
    /// compared with and no document's value of the field has; at most 16. A look-up or two for each field and shard.
    pub fn notes(&self, shards: &[&TextShard]) -> Result<Vec<String>> {
        let mut asked = BTreeSet::new();
        self.ask(&mut asked);
        let mut notes = BTreeSet::new();
        if shards.iter().all(|shard| shard.is_empty()) {
            return Ok(Vec::new());
        }
        for (field, kind) in asked {
            if notes.len() >= MOST {
                break;
            }
            if !has(shards, field, kind)? {
                notes.insert(note(shards, field, kind)?);
            }
        }
        Ok(notes.into_iter().collect())
    }

    /// Adds the fields of all conditions, with the types that they are compared with.
    fn ask<'a>(&'a self, asked: &mut BTreeSet<(&'a str, u8)>) {
        let mut add = |field: &'a String, value: &FieldValue| _ = asked.insert((field.as_str(), value.kind()));
        match self {
            Self::All(all) | Self::Any(all) => all.iter().for_each(|filter| filter.ask(asked)),
            Self::Not(filter) => filter.ask(asked),
            Self::OneOf { field, values } => values.iter().for_each(|value| add(field, value)),
            Self::Range { field, min, max } => {
                [min, max]
                    .into_iter()
                    .filter_map(|end| value(end.as_ref()))
                    .for_each(|value| add(field, value));
            }
            Self::Exists { field } => _ = asked.insert((field, ANY)),
            Self::Prefix { field, .. } => _ = asked.insert((field, facts::TEXT)),
            Self::Keys(_) => {}
        }
    }
}

/// Whether a document has a value of a type, or of any, in a field.
fn has(shards: &[&TextShard], field: &str, kind: u8) -> Result<bool> {
    if field == facts::KEY {
        return Ok(matches!(kind, facts::TEXT | ANY));
    }
    let path = facts::path(field);
    if kind == ANY {
        return Ok(first(shards, &facts::own(&path))?
            .or(first(shards, &facts::inside(&path))?)
            .is_some());
    }
    Ok(first(shards, &facts::prefix(&path, kind))?.is_some())
}

/// The first term of all shards that starts with a prefix.
fn first(shards: &[&TextShard], prefix: &[u8]) -> Result<Option<Vec<u8>>> {
    for shard in shards {
        let found = first_of_shard(shard, prefix).map_err(text_error(shard.path()))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn first_of_shard(shard: &TextShard, prefix: &[u8]) -> tantivy::Result<Option<Vec<u8>>> {
    let Some(segment) = shard.searcher.segment_readers().first() else {
        return Ok(None);
    };
    let index = segment.inverted_index(shard.fields.facts)?;
    let mut terms = index.terms().range().ge(prefix).into_stream()?;
    let first = terms.advance().then(|| terms.key().to_vec());
    Ok(first.filter(|term| term.starts_with(prefix)))
}

fn note(shards: &[&TextShard], field: &str, kind: u8) -> Result<String> {
    let mut held = Vec::new();
    for (other, _, many) in KINDS {
        if has(shards, field, other)? {
            held.push(many);
        }
    }
    if !held.is_empty() {
        let name = KINDS
            .iter()
            .find(|(other, ..)| *other == kind)
            .map_or("such a value", |(_, one, _)| one);
        return Ok(format!(
            "no document has {name} in field `{field}`, which holds {}",
            held.join(" and ")
        ));
    }
    let inner = first(shards, facts::inside(&facts::path(field)).as_slice())?;
    let inner = inner.and_then(|term| facts::name(&term).map(str::to_owned));
    let inner = inner.map_or_else(String::new, |inner| format!("; there is `{inner}`"));
    Ok(format!("no document has a field `{field}`{inner}"))
}
