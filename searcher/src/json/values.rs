//! JSON in which the values of fields `NAME_json`, which are JSON as text, are these values under `NAME`.
//!
//! The text is copied and not read into values, so that its numbers keep their digits.

use serde_json::value::RawValue;

/// What the names of fields end in that are JSON as text.
pub(crate) const AS_TEXT: &str = "_json";

/// Valid JSON with `"NAME":VALUE` in place of each `"NAME_json":"VALUE"`; null in place of text that is no JSON.
pub(crate) fn with_values(json: &str) -> String {
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
