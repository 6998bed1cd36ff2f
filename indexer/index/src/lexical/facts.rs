//! Titles and metadata as sortable terms, for filters.
//!
//! A value is one term, `PATH 00 TYPE VALUE`: `b` and one byte for booleans; `n` and eight bytes, big-endian, for numbers, whose
//! order as bytes is that of the doubles; `s` and the text's bytes. All values of one field and type are contiguous in the
//! term dictionary, in order, so that a range of values is a range of terms.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::StoredDocument;

/// Bytes of a text that are kept: one more than a filter may name, so that a truncated text equals none of them and
/// keeps its order.
const TEXT_BYTES: usize = MAX_TEXT_BYTES + 1;
/// Bytes of a text that a field can be compared with.
pub const MAX_TEXT_BYTES: usize = 1024;
/// Bytes of a path that can be looked up; fields with longer ones are not found by filters.
const PATH_BYTES: usize = 512;
/// Depth of nested objects that are indexed.
const DEPTH: usize = 32;

/// The path of a document's title.
pub(super) const TITLE: &str = "title";
/// The field that is the document's key: it has an index of its own.
pub(super) const KEY: &str = "key";
/// What the path of every metadata field starts with.
const METADATA: &str = "metadata.";

/// Types of values, as terms name them.
pub(super) const FLAG: u8 = b'b';
/// See [`FLAG`].
pub(super) const NUMBER: u8 = b'n';
/// See [`FLAG`].
pub(super) const TEXT: u8 = b's';

/// A value of a field. Those of different types are never equal.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// Compared byte by byte.
    Text(String),
    /// A finite number; all are compared as doubles.
    Number(f64),
    /// True or false.
    Flag(bool),
}

impl FieldValue {
    /// The type, as terms name it.
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Text(_) => TEXT,
            Self::Number(_) => NUMBER,
            Self::Flag(_) => FLAG,
        }
    }
}

/// The path of a field as users name it: `title`, or a metadata field with or without `metadata.` in front.
pub(super) fn path(field: &str) -> String {
    if field == TITLE || field.starts_with(METADATA) { field.to_owned() } else { format!("{METADATA}{field}") }
}

/// The field that a term is of, as users name it.
pub(super) fn name(term: &[u8]) -> Option<&str> {
    let path = std::str::from_utf8(term.split(|byte| *byte == 0).next()?).ok()?;
    Some(path.strip_prefix(METADATA).unwrap_or(path))
}

/// What all terms of a field's own values start with.
pub(super) fn own(path: &str) -> Vec<u8> {
    let mut term = Vec::with_capacity(path.len() + 16);
    term.extend_from_slice(path.as_bytes());
    term.push(0);
    term
}

/// What all terms of values inside a field start with, where it is an object.
pub(super) fn inside(path: &str) -> Vec<u8> {
    format!("{path}.").into_bytes()
}

/// What all terms of a field's values of one type start with.
pub(super) fn prefix(path: &str, kind: u8) -> Vec<u8> {
    let mut term = own(path);
    term.push(kind);
    term
}

/// The term of a value.
pub(super) fn term(path: &str, value: &FieldValue) -> Vec<u8> {
    match value {
        FieldValue::Text(value) => text(path, value),
        FieldValue::Number(value) => number(path, *value),
        FieldValue::Flag(value) => flag(path, *value),
    }
}

fn text(path: &str, value: &str) -> Vec<u8> {
    let mut term = prefix(path, TEXT);
    term.extend(value.bytes().take(TEXT_BYTES));
    term
}

fn number(path: &str, value: f64) -> Vec<u8> {
    let mut term = prefix(path, NUMBER);
    // Adding zero makes -0 a 0. Negative numbers: all bits turned; others: the sign bit set.
    let bits = (value + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    term.extend_from_slice(&ordered.to_be_bytes());
    term
}

fn flag(path: &str, value: bool) -> Vec<u8> {
    let mut term = prefix(path, FLAG);
    term.push(u8::from(value));
    term
}

/// The terms of a document. Metadata that is no JSON object has none.
pub(super) fn terms(title: &str, metadata_json: &str) -> BTreeSet<Vec<u8>> {
    let mut terms = BTreeSet::new();
    if !title.is_empty() {
        terms.insert(text(TITLE, title));
    }
    each_value(metadata_json, &mut |path, value| match value {
        Value::Bool(value) => _ = terms.insert(flag(path, *value)),
        Value::Number(value) => terms.extend(value.as_f64().map(|value| number(path, value))),
        Value::String(value) => _ = terms.insert(text(path, value)),
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    });
    terms
}

impl StoredDocument {
    /// The value of a field, as filters name it; the first where there are several; none where there is none.
    pub fn value(&self, field: &str) -> Option<FieldValue> {
        let text = |text: &String| FieldValue::Text(text.clone());
        match field {
            KEY => return Some(text(&self.key)),
            TITLE => return Some(&self.title).filter(|title| !title.is_empty()).map(text),
            _ => {}
        }
        let (wanted, mut first) = (path(field), None);
        each_value(&self.metadata_json, &mut |path, value| {
            if first.is_none() && path == wanted {
                first = match value {
                    Value::Bool(value) => Some(FieldValue::Flag(*value)),
                    // Adding zero makes -0 a 0.
                    Value::Number(value) => value.as_f64().map(|value| FieldValue::Number(value + 0.0)),
                    Value::String(value) => Some(text(value)),
                    Value::Null | Value::Array(_) | Value::Object(_) => None,
                };
            }
        });
        first
    }
}

/// Calls `visit` with the path and value of each value of metadata that is neither array nor object. Metadata that is no JSON
/// object has none.
fn each_value(metadata_json: &str, visit: &mut dyn FnMut(&str, &Value)) {
    if let Ok(metadata) = serde_json::from_str::<Map<String, Value>>(metadata_json) {
        fields(METADATA, &metadata, 0, visit);
    }
}

fn fields(at: &str, object: &Map<String, Value>, depth: usize, visit: &mut dyn FnMut(&str, &Value)) {
    for (name, value) in object {
        // A zero byte ends a path.
        if at.len() + name.len() <= PATH_BYTES && !name.contains('\0') {
            values(&format!("{at}{name}"), value, depth, visit);
        }
    }
}

fn values(path: &str, value: &Value, depth: usize, visit: &mut dyn FnMut(&str, &Value)) {
    match value {
        Value::Array(all) if depth < DEPTH => all.iter().for_each(|value| values(path, value, depth + 1, visit)),
        Value::Object(inner) if depth < DEPTH => fields(&format!("{path}."), inner, depth + 1, visit),
        Value::Array(_) | Value::Object(_) => {}
        value => visit(path, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_as_numbers_do() {
        let numbers = [f64::MIN, -1e9, -2.5, -1.0, -f64::MIN_POSITIVE, 0.0, 1e-300, 1.0, 1.5, 3.0, 2e9, f64::MAX];
        let terms: Vec<_> = numbers.iter().map(|value| number("x", *value)).collect();
        assert!(terms.is_sorted() && terms.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(number("x", -0.0), number("x", 0.0));
    }

    #[test]
    fn nested_fields_arrays_and_long_texts() {
        let metadata =
            r#"{"lang": ["en", "de", "en"], "author": {"name": "A", "born": 1.0}, "none": null, "title": true}"#;
        let of = |field: &str, value| term(&path(field), &value);
        let expected: BTreeSet<_> = [
            of("title", FieldValue::Text("T".into())),
            of("lang", FieldValue::Text("en".into())),
            of("lang", FieldValue::Text("de".into())),
            of("author.name", FieldValue::Text("A".into())),
            of("metadata.author.born", FieldValue::Number(1.0)),
            of("metadata.title", FieldValue::Flag(true)),
        ]
        .into();
        assert_eq!(terms("T", metadata), expected);
        assert!(terms("", "not json").is_empty() && terms("", "[1]").is_empty() && terms("", "").is_empty());
        let long = format!("{{\"t\": \"{}\"}}", "é".repeat(2000));
        let term = terms("", &long).pop_first().unwrap();
        assert_eq!(term.len(), "metadata.t".len() + 2 + TEXT_BYTES);
        let deep = format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100));
        assert!(terms("", &deep).is_empty());
    }

    #[test]
    fn a_document_has_the_first_value_of_a_field() {
        let metadata = r#"{"lang": ["en", "de"], "author": {"born": -0.0}, "many": [{"id": 7}, {"id": 8}], "no": null, "ok": true}"#;
        let [key, title] = ["k", "T"].map(String::from);
        let document = StoredDocument { key, title, metadata_json: metadata.into(), ..StoredDocument::default() };
        let text = |text: &str| Some(FieldValue::Text(text.into()));
        assert_eq!(document.value("key"), text("k"));
        assert_eq!(document.value("title"), text("T"));
        assert_eq!(document.value("lang"), text("en"));
        assert_eq!(document.value("metadata.author.born"), Some(FieldValue::Number(0.0)));
        assert_eq!(document.value("many.id"), Some(FieldValue::Number(7.0)));
        assert_eq!(document.value("ok"), Some(FieldValue::Flag(true)));
        for field in ["no", "author", "none", "metadata.title", ""] {
            assert_eq!(document.value(field), None, "{field}");
        }
        assert_eq!(StoredDocument::default().value("title"), None);
    }
}
