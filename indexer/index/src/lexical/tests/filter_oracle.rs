//! Documents to filter, and what a filter allows of them by its definition.

use std::ops::Bound;

use serde_json::{Value, json};

use crate::language::TextLanguage;
use crate::lexical::{DocumentFilter, ExactNumber, FieldValue, TextDocument, TextShard, TextWriter};

/// Keys, titles and metadata of small documents, with values close to each other.
pub(super) fn documents() -> Vec<(String, String, Value)> {
    let languages = [json!("en"), json!("de"), json!(["en", "fr"]), json!(7), Value::Null];
    let numbers = [
        json!(-3),
        json!(-0.5),
        json!(0),
        json!(2.0),
        json!(2),
        json!(1e300),
        json!("2"),
        json!(true),
    ];
    let ids = [
        u64::MAX,
        u64::MAX - 1,
        1 << 53,
        (1 << 53) + 1,
        (1 << 53) - 1,
        1_234_567_890_123_456_789,
        1_234_567_890_123_456_790,
    ];
    (0..160)
        .map(|i| {
            let mut metadata =
                json!({"lang": languages[i % 5], "deep": {"n": numbers[i % 8]}, "flag": i % 3 == 0, "id": ids[i % 7]});
            if i % 9 == 0 {
                metadata["id"] = json!([i64::MIN, i64::MIN + 1, -1e19, 1e20, i]);
            }
            if i % 7 < 5 {
                metadata["empty"] = [json!(null), json!([]), json!({}), json!({"a": [null]}), json!("")][i % 7].clone();
            }
            if i % 4 == 0 {
                metadata["only"] = json!(["a", {"x": 1}, [i]]);
            }
            (
                format!("k{i:03}"),
                format!("title {}", i % 6),
                if i % 10 == 9 { Value::Null } else { metadata },
            )
        })
        .collect()
}

pub(super) fn shard(documents: &[(String, String, Value)]) -> (tempfile::TempDir, TextShard) {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = TextWriter::create(dir.path(), TextLanguage::English).unwrap();
    for (key, title, metadata) in documents {
        let metadata = if metadata.is_null() {
            String::new()
        } else {
            metadata.to_string()
        };
        writer
            .add(TextDocument {
                key,
                title,
                text: "text",
                metadata_json: &metadata,
            })
            .unwrap();
    }
    writer.finish().unwrap();
    let shard = TextShard::open(dir.path()).unwrap();
    (dir, shard)
}

pub(super) fn exactly(number: &str) -> FieldValue {
    FieldValue::Number(ExactNumber::parse(number).unwrap())
}

/// The values of a field, read from the document.
pub(super) fn values(document: &(String, String, Value), field: &str) -> Vec<FieldValue> {
    fn leaves(value: &Value, into: &mut Vec<FieldValue>) {
        match value {
            Value::Bool(flag) => into.push(FieldValue::Flag(*flag)),
            Value::Number(number) => into.push(exactly(&number.to_string())),
            Value::String(text) => into.push(FieldValue::Text(text.clone())),
            Value::Array(all) => all.iter().for_each(|value| leaves(value, into)),
            Value::Null | Value::Object(_) => {}
        }
    }
    let mut found = Vec::new();
    match field {
        "key" => found.push(FieldValue::Text(document.0.clone())),
        "title" => found.push(FieldValue::Text(document.1.clone())),
        "only.x" if document.2.get("only").is_some() => found.push(exactly("1")),
        _ => leaves(
            document
                .2
                .pointer(&format!("/{}", field.replace('.', "/")))
                .unwrap_or(&Value::Null),
            &mut found,
        ),
    }
    found
}

/// Whether there is a value in a field, or inside of it, read from the document.
pub(super) fn exists(document: &(String, String, Value), field: &str) -> bool {
    fn any(value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Array(all) => all.iter().any(any),
            Value::Object(all) => all.values().any(any),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }
    let inside = document.2.pointer(&format!("/{}", field.replace('.', "/")));
    !values(document, field).is_empty() || inside.is_some_and(any)
}

/// The definition, document by document.
pub(super) fn passes(filter: &DocumentFilter, document: &(String, String, Value)) -> bool {
    let order = |a: &FieldValue, b: &FieldValue| match (a, b) {
        (FieldValue::Text(a), FieldValue::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (FieldValue::Number(a), FieldValue::Number(b)) => Some(a.cmp(b)),
        _ => None,
    };
    match filter {
        DocumentFilter::All(all) => all.iter().all(|filter| passes(filter, document)),
        DocumentFilter::Any(all) => all.iter().any(|filter| passes(filter, document)),
        DocumentFilter::Not(filter) => !passes(filter, document),
        DocumentFilter::Keys(keys) => keys.contains(&document.0),
        DocumentFilter::Exists { field } => exists(document, field),
        DocumentFilter::Prefix { field, prefix } => values(document, field)
            .iter()
            .any(|value| matches!(value, FieldValue::Text(text) if text.as_bytes().starts_with(prefix.as_bytes()))),
        DocumentFilter::OneOf { field, values: wanted } => {
            values(document, field).iter().any(|value| wanted.contains(value))
        }
        DocumentFilter::Range {
            min: Bound::Unbounded,
            max: Bound::Unbounded,
            ..
        } => false,
        DocumentFilter::Range { field, min, max } => values(document, field).iter().any(|value| {
            let above = match min {
                Bound::Included(min) => order(value, min).is_some_and(std::cmp::Ordering::is_ge),
                Bound::Excluded(min) => order(value, min).is_some_and(std::cmp::Ordering::is_gt),
                Bound::Unbounded => true,
            };
            let below = match max {
                Bound::Included(max) => order(value, max).is_some_and(std::cmp::Ordering::is_le),
                Bound::Excluded(max) => order(value, max).is_some_and(std::cmp::Ordering::is_lt),
                Bound::Unbounded => true,
            };
            above && below
        }),
    }
}
