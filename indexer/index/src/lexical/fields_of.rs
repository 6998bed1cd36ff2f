//! The values of a metadata object by their paths, with numbers as they are written.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::exact_number::ExactNumber;

/// What the path of every metadata field starts with.
pub(super) const METADATA: &str = "metadata.";
/// Bytes of a path that can be looked up; fields with longer ones are not found by filters.
const PATH_BYTES: usize = 512;
/// Depth of nested objects and arrays that is looked at.
const DEPTH: usize = 32;

/// A value that is neither null nor array nor object.
pub(super) enum FieldScalar<'a> {
    Flag(bool),
    Number(ExactNumber),
    Text(Cow<'a, str>),
}

/// Calls `visit` with the path and value of each value of metadata that is neither null nor array nor object. Metadata
/// that is no JSON object has none.
pub(super) fn each_value(metadata_json: &str, visit: &mut dyn FnMut(&str, FieldScalar<'_>)) {
    if let Ok(metadata) = serde_json::from_str::<MetadataFields<'_>>(metadata_json) {
        fields(METADATA, &metadata, 0, visit);
    }
}

/// The fields of a JSON object in its order, with their values as they are written.
#[derive(Debug)]
pub struct MetadataFields<'a>(pub Vec<(MetadataFieldName<'a>, &'a RawValue)>);

/// The name of a field; borrowed where it has no escapes.
#[derive(Debug, Deserialize)]
pub struct MetadataFieldName<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl<'de> Deserialize<'de> for MetadataFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = MetadataFields<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(MetadataFields(fields))
            }
        }
        deserializer.deserialize_map(FieldsVisitor)
    }
}

fn fields(at: &str, object: &MetadataFields<'_>, depth: usize, visit: &mut dyn FnMut(&str, FieldScalar<'_>)) {
    for (MetadataFieldName(name), value) in &object.0 {
        // A zero byte ends a path.
        if at.len() + name.len() <= PATH_BYTES && !name.contains('\0') {
            values(&format!("{at}{name}"), value, depth, visit);
        }
    }
}

fn values(path: &str, value: &RawValue, depth: usize, visit: &mut dyn FnMut(&str, FieldScalar<'_>)) {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'[') if depth < DEPTH => {
            let all: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            for value in all {
                values(path, value, depth + 1, visit);
            }
        }
        Some(b'{') if depth < DEPTH => {
            if let Ok(inner) = serde_json::from_str(text) {
                fields(&format!("{path}."), &inner, depth + 1, visit);
            }
        }
        Some(b'"') => {
            if let Ok(MetadataFieldName(text)) = serde_json::from_str(text) {
                visit(path, FieldScalar::Text(text));
            }
        }
        Some(b't' | b'f') => visit(path, FieldScalar::Flag(text == "true")),
        Some(b'-' | b'0'..=b'9') => {
            if let Some(number) = ExactNumber::parse(text) {
                visit(path, FieldScalar::Number(number));
            }
        }
        _ => {}
    }
}
