//! Titles and metadata as sortable terms, for filters.
//!
//! A value is one term, `PATH 00 TYPE VALUE`: `b` and one byte for booleans; `n` and eight bytes, big-endian, for the
//! nearest double of a number, whose order as bytes is that of the doubles; `s` and the text's bytes. All values of one
//! field and type are contiguous in the term dictionary, in order, so that a range of values is a range of terms.
//!
//! Numbers from 2^53 on, where whole numbers may have the same nearest double, have a second term, `w`, these eight
//! bytes, and what the number has more or less than the double (see [`ExactNumber`]). Releases that did not write it
//! are read as well: where a shard has the term of a double without any of these, the stored metadata tell which of its
//! documents have the number.

use std::collections::BTreeSet;

use super::StoredDocument;
use super::exact_number::ExactNumber;
use super::fields_of::{FieldScalar, METADATA, each_value};

/// Bytes of a text that are kept: one more than a filter may name, so that a truncated text equals none of them and
/// keeps its order.
const TEXT_BYTES: usize = MAX_TEXT_BYTES + 1;
/// Bytes of a text that a field can be compared with.
pub const MAX_TEXT_BYTES: usize = 1024;

/// The path of a document's title.
pub(super) const TITLE: &str = "title";
/// The field that is the document's key: it has an index of its own.
pub(super) const KEY: &str = "key";

/// The document's text, by which no filter asks.
const BODY: &str = "text";

/// Types of values, as terms name them.
pub(super) const FLAG: u8 = b'b';
/// See [`FLAG`].
pub(super) const NUMBER: u8 = b'n';
/// See [`FLAG`].
pub(super) const TEXT: u8 = b's';
/// The exact values of numbers from 2^53 on, each of which has a term of type [`NUMBER`] too.
const EXACT: u8 = b'w';

/// A value of a field. Those of different types are never equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FieldValue {
    /// Compared byte by byte.
    Text(String),
    /// Whole numbers are compared exactly, others as doubles.
    Number(ExactNumber),
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

impl From<FieldScalar<'_>> for FieldValue {
    fn from(value: FieldScalar<'_>) -> Self {
        match value {
            FieldScalar::Flag(value) => Self::Flag(value),
            FieldScalar::Number(value) => Self::Number(value),
            FieldScalar::Text(value) => Self::Text(value.into_owned()),
        }
    }
}

/// The path of a field as users name it: `title`, or a metadata field with or without `metadata.` in front.
pub(super) fn path(field: &str) -> String {
    if field == TITLE || field.starts_with(METADATA) {
        field.to_owned()
    } else {
        format!("{METADATA}{field}")
    }
}

/// The field that a term is of, as users name it.
pub(super) fn name(term: &[u8]) -> Option<&str> {
    Some(name_of_path(
        std::str::from_utf8(term.split(|byte| *byte == 0).next()?).ok()?,
    ))
}

/// A path as users name it: the shortest name that [`path`] makes this one of, and that is no other field's of a
/// document.
pub(crate) fn name_of_path(path: &str) -> &str {
    let is_other = |name: &str| matches!(name, KEY | TITLE | BODY) || name.starts_with(METADATA);
    path.strip_prefix(METADATA)
        .filter(|name| !is_other(name))
        .unwrap_or(path)
}

/// Path and type of a term.
pub(super) fn path_and_kind(term: &[u8]) -> Option<(&str, u8)> {
    let end = term.iter().position(|byte| *byte == 0)?;
    let (path, rest) = term.split_at_checked(end)?;
    Some((std::str::from_utf8(path).ok()?, *rest.get(1)?))
}

/// Whether values have this type, as terms name it.
pub(super) fn is_type(kind: u8) -> bool {
    matches!(kind, FLAG | NUMBER | TEXT)
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

/// The term of a value; of a number that of its nearest double.
pub(super) fn term(path: &str, value: &FieldValue) -> Vec<u8> {
    match value {
        FieldValue::Text(value) => text(path, value),
        FieldValue::Number(value) => number(path, value),
        FieldValue::Flag(value) => flag(path, *value),
    }
}

fn text(path: &str, value: &str) -> Vec<u8> {
    let mut term = prefix(path, TEXT);
    term.extend(value.bytes().take(TEXT_BYTES));
    term
}

/// The term of a number's nearest double.
pub(super) fn number(path: &str, value: &ExactNumber) -> Vec<u8> {
    let mut term = prefix(path, NUMBER);
    term.extend_from_slice(&value.ordered_bytes());
    term
}

/// What the exact terms of all numbers with the same nearest double start with.
pub(super) fn exact_prefix(path: &str, value: &ExactNumber) -> Vec<u8> {
    let mut term = prefix(path, EXACT);
    term.extend_from_slice(&value.ordered_bytes());
    term
}

/// The exact term of a number that shares its nearest double with others.
pub(super) fn exact(path: &str, value: &ExactNumber) -> Vec<u8> {
    let mut term = exact_prefix(path, value);
    term.extend_from_slice(value.difference());
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
        FieldScalar::Flag(value) => _ = terms.insert(flag(path, value)),
        FieldScalar::Number(value) => {
            terms.insert(number(path, &value));
            if value.is_ambiguous() {
                terms.insert(exact(path, &value));
            }
        }
        FieldScalar::Text(value) => _ = terms.insert(text(path, &value)),
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
                first = Some(value.into());
            }
        });
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double(value: f64) -> FieldValue {
        FieldValue::Number(value.into())
    }

    #[test]
    fn numbers_sort_as_numbers_do() {
        let numbers = [
            f64::MIN,
            -1e9,
            -2.5,
            -1.0,
            -f64::MIN_POSITIVE,
            0.0,
            1e-300,
            1.0,
            1.5,
            3.0,
            2e9,
            f64::MAX,
        ];
        let terms: Vec<_> = numbers.iter().map(|value| number("x", &(*value).into())).collect();
        assert!(terms.is_sorted() && terms.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(number("x", &(-0.0).into()), number("x", &0.0.into()));
    }

    #[test]
    fn numbers_that_share_a_double_have_a_term_of_their_own() {
        let terms = |json: &str| terms("", json).into_iter().collect::<Vec<_>>();
        assert_eq!(terms(r#"{"n": 9007199254740991}"#).len(), 1);
        let [one, other] = ["1234567890123456789", "1234567890123456790"].map(|id| terms(&format!("{{\"n\": {id}}}")));
        assert_eq!((one.len(), other.len()), (2, 2));
        assert_eq!(one[0], other[0]);
        assert!(one[1] < other[1] && one[1].starts_with(b"metadata.n\0w"));
    }

    #[test]
    fn a_name_leads_back_to_its_path() {
        for (of_path, expected) in [
            ("title", "title"),
            ("metadata.year", "year"),
            ("metadata.author.name", "author.name"),
            ("metadata.title", "metadata.title"),
            ("metadata.key", "metadata.key"),
            ("metadata.text", "metadata.text"),
            ("metadata.title.main", "title.main"),
            ("metadata.metadata.x", "metadata.metadata.x"),
            ("metadata.metadata", "metadata"),
        ] {
            let name = name_of_path(of_path);
            assert_eq!((name, path(name).as_str()), (expected, of_path));
        }
        let term = term("metadata.n", &double(2.0));
        assert_eq!(path_and_kind(&term), Some(("metadata.n", NUMBER)));
        assert_eq!(path_and_kind(b"no end"), None);
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
            of("metadata.author.born", double(1.0)),
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
        let document = StoredDocument {
            key,
            title,
            metadata_json: metadata.into(),
            ..StoredDocument::default()
        };
        let text = |text: &str| Some(FieldValue::Text(text.into()));
        assert_eq!(document.value("key"), text("k"));
        assert_eq!(document.value("title"), text("T"));
        assert_eq!(document.value("lang"), text("en"));
        assert_eq!(document.value("metadata.author.born"), Some(double(0.0)));
        assert_eq!(document.value("many.id"), Some(double(7.0)));
        assert_eq!(document.value("ok"), Some(FieldValue::Flag(true)));
        for field in ["no", "author", "none", "metadata.title", ""] {
            assert_eq!(document.value(field), None, "{field}");
        }
        assert_eq!(StoredDocument::default().value("title"), None);
    }
}
