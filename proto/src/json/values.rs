//! JSON in which the values of fields `NAME_json`, which are JSON as text, are these values under `NAME`.
//!
//! The text is copied and not read into values, so that its numbers keep their digits.

use std::collections::BTreeSet;

use prost_reflect::{Kind, MessageDescriptor};
use serde_json::Value;
use serde_json::value::RawValue;

/// What the names of fields end in that are JSON as text.
pub(crate) const AS_TEXT: &str = "_json";

/// JSON of a request with `"NAME_json":"VALUE"` in place of each `"NAME":VALUE`, where a message of the request has
/// such a field and the value is an object; none where nothing is replaced.
pub(super) fn with_texts(json: &[u8], message: &MessageDescriptor) -> Option<Vec<u8>> {
    let mut names = BTreeSet::new();
    add_names(message, &mut BTreeSet::new(), &mut names);
    if names.is_empty() {
        return None;
    }
    let json = std::str::from_utf8(json).ok()?;
    let mut written = String::with_capacity(json.len());
    let (mut rest, mut has_changed) = (json, false);
    while let Some(at) = rest.find('"') {
        let (before, from) = rest.split_at(at);
        written.push_str(before);
        let (token, after) = split_string(from);
        let value = after.trim_start().strip_prefix(':').map(str::trim_start);
        let object = value.filter(|value| value.starts_with('{') && names.contains(token));
        let raw = object.and_then(|object| {
            let mut values = serde_json::Deserializer::from_str(object).into_iter::<&RawValue>();
            values.next()?.ok()
        });
        if let (Some(raw), Some(object), Some(name)) = (raw, object, token.strip_suffix('"')) {
            let text = Value::String(raw.get().to_owned()).to_string();
            for part in [name, AS_TEXT, "\":", text.as_str()] {
                written.push_str(part);
            }
            rest = object.get(raw.get().len()..).unwrap_or_default();
            has_changed = true;
        } else {
            written.push_str(token);
            rest = after;
        }
    }
    written.push_str(rest);
    has_changed.then(|| written.into_bytes())
}

/// Adds `"NAME"`, in quotes, for each field `NAME_json` of a message and of those inside.
fn add_names(message: &MessageDescriptor, seen: &mut BTreeSet<String>, names: &mut BTreeSet<String>) {
    if !seen.insert(message.full_name().to_owned()) {
        return;
    }
    for field in message.fields() {
        if let Some(name) = field.name().strip_suffix(AS_TEXT) {
            names.insert(format!("\"{name}\""));
        }
        if let Kind::Message(inner) = field.kind() {
            add_names(&inner, seen, names);
        }
    }
}

/// Valid JSON with `"NAME":VALUE` in place of each `"NAME_json":"VALUE"`; null in place of text that is no JSON.
pub(super) fn with_values(json: &str) -> String {
    let mut written = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('"') {
        let (before, from) = rest.split_at(at);
        written.push_str(before);
        let (token, after) = split_string(from);
        let colon = after.len() - after.trim_start().len();
        let (space, value) = after.split_at(
            after
                .find('"')
                .filter(|_| after.get(colon..colon + 1) == Some(":"))
                .unwrap_or(0),
        );
        // Between a name and a text there is nothing but a colon and white space.
        let is_text = !space.is_empty() && space.trim_matches([' ', '\n', '\t', '\r', ':']).is_empty();
        if let Some(name) = token.strip_suffix("_json\"").filter(|_| is_text) {
            let (text, after) = split_string(value);
            written.push_str(name);
            written.push('"');
            written.push_str(space);
            written.push_str(&value_of(text));
            rest = after;
        } else {
            written.push_str(token);
            rest = after;
        }
    }
    written.push_str(rest);
    written
}

/// The JSON that a string holds.
fn value_of(string: &str) -> String {
    let text: String = serde_json::from_str(string).unwrap_or_default();
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(value) => value.get().to_owned(),
        Err(_) => "null".to_owned(),
    }
}

/// A text that begins with a string, and what follows the string.
fn split_string(text: &str) -> (&str, &str) {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    text.split_at(end.map_or(text.len(), |end| end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_texts_with_all_digits_where_a_message_has_them() {
        let pool = prost_reflect::DescriptorPool::decode(crate::v1::FILE_DESCRIPTOR_SET).unwrap();
        let with_texts = |json: &str, message: &str| {
            let message = pool.get_message_by_name(message).unwrap();
            super::with_texts(json.as_bytes(), &message).map(|text| String::from_utf8(text).unwrap())
        };
        let request = "dyad.v1.UpsertRequest";
        for (given, expected) in [
            (
                r#"{"documents": [{"key": "metadata", "metadata" : {"n": 12345678901234567890123, "metadata": {}}, "text": "t"}]}"#,
                r#"{"documents": [{"key": "metadata", "metadata_json":"{\"n\": 12345678901234567890123, \"metadata\": {}}", "text": "t"}]}"#,
            ),
            (
                r#"{"a": "\"metadata\":{}", "metadata":{}}"#,
                r#"{"a": "\"metadata\":{}", "metadata_json":"{}"}"#,
            ),
        ] {
            assert_eq!(with_texts(given, request).as_deref(), Some(expected));
        }
        for given in [
            r#"{"metadata": 7}"#,
            r#"{"metadata": {"#,
            r#"{"metadata_json": "{}"}"#,
            "\"metadata\"",
            "",
        ] {
            assert_eq!(with_texts(given, request), None, "{given}");
        }
        assert_eq!(with_texts(r#"{"metadata": {}}"#, "dyad.v1.SearchRequest"), None);
    }

    #[test]
    fn texts_of_json_become_values_with_all_digits() {
        for (given, expected) in [
            (r#"{"a_json":"{\"n\": 1.50}","b":1}"#, r#"{"a":{"n": 1.50},"b":1}"#),
            (
                r#"[{"x_json":"12345678901234567890123"},{"x_json":""}]"#,
                r#"[{"x":12345678901234567890123},{"x":null}]"#,
            ),
            (
                "{\n  \"a_json\": \"[1]\",\n  \"b\": \"a_json\"\n}",
                "{\n  \"a\": [1],\n  \"b\": \"a_json\"\n}",
            ),
            (
                r#"{"t":"\"a_json\":\"1\"","a_json":null,"c_json":{"d":"e"}}"#,
                r#"{"t":"\"a_json\":\"1\"","a_json":null,"c_json":{"d":"e"}}"#,
            ),
            (
                r#"{"a_json":"{\"q\":\"\\\"x_json\\\":\"}"}"#,
                r#"{"a":{"q":"\"x_json\":"}}"#,
            ),
            (r#"{"a_json":"{oops"}"#, r#"{"a":null}"#),
            (r#"["a_json","1"]"#, r#"["a_json","1"]"#),
            ("7", "7"),
            ("", ""),
        ] {
            assert_eq!(with_values(given), expected);
        }
    }
}
