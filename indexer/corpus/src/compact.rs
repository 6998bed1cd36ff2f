//! JSON without white space between its parts, with each field of an object once and numbers as they are written: one
//! pass over the text.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde::de::Error as _;

/// Bytes of a JSON text outside the white space between its parts: no fewer than those of its compact form.
pub fn compact_bytes(json: &str) -> usize {
    let mut bytes = 0;
    let mut in_string = false;
    let mut is_escaped = false;
    for byte in json.bytes() {
        if in_string {
            bytes += 1;
            in_string = is_escaped || byte != b'"';
            is_escaped = byte == b'\\' && !is_escaped;
        } else if !byte.is_ascii_whitespace() {
            bytes += 1;
            in_string = byte == b'"';
        }
    }
    bytes
}

/// Appends a text that `serde_json` has read, and whose depth it has bounded. Of a field that is there twice the last
/// value counts, in the place of the first.
pub(crate) fn compact(json: &str, into: &mut Vec<u8>) -> serde_json::Result<()> {
    let mut reader = Compactor { json, at: 0 };
    reader.value(into)
}

struct Compactor<'a> {
    json: &'a str,
    at: usize,
}

/// A field of an object that is being written.
struct WrittenField {
    /// The place of name, colon and value in the text that is written.
    place: Range<usize>,
    /// The number of a later field of the same name.
    replaced_by: Option<usize>,
}

impl<'a> Compactor<'a> {
    /// The next byte that is no white space, which is read only by [`Self::take`].
    fn peek(&mut self) -> Option<u8> {
        let rest = self.json.as_bytes().get(self.at..)?;
        self.at += rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        self.json.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, expected: u8) -> serde_json::Result<()> {
        if self.peek() != Some(expected) {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(())
    }

    fn unexpected(&self) -> serde_json::Error {
        serde_json::Error::custom(format!("unexpected byte {} of {}", self.at, self.json.len()))
    }

    fn value(&mut self, into: &mut Vec<u8>) -> serde_json::Result<()> {
        match self.peek() {
            Some(b'{') => self.object(into),
            Some(b'[') => self.array(into),
            Some(b'"') => write_string(self.string()?, into),
            Some(_) => {
                into.extend_from_slice(self.scalar()?.as_bytes());
                Ok(())
            }
            None => Err(self.unexpected()),
        }
    }

    fn array(&mut self, into: &mut Vec<u8>) -> serde_json::Result<()> {
        self.take(b'[')?;
        into.push(b'[');
        let mut is_first = true;
        while self.peek() != Some(b']') {
            if !is_first {
                self.take(b',')?;
                into.push(b',');
            }
            is_first = false;
            self.value(into)?;
        }
        self.take(b']')?;
        into.push(b']');
        Ok(())
    }

    fn object(&mut self, into: &mut Vec<u8>) -> serde_json::Result<()> {
        self.take(b'{')?;
        let start = into.len();
        into.push(b'{');
        let mut fields: Vec<WrittenField> = Vec::new();
        let mut numbers: HashMap<String, usize> = HashMap::new();
        while self.peek() != Some(b'}') {
            if !fields.is_empty() {
                self.take(b',')?;
                into.push(b',');
            }
            let from = into.len();
            let name: String = serde_json::from_str(self.string()?)?;
            serde_json::to_writer(&mut *into, &name)?;
            self.take(b':')?;
            into.push(b':');
            self.value(into)?;
            let number = fields.len();
            let earlier = numbers.insert(name, number);
            if let Some(earlier) = earlier.and_then(|earlier| fields.get_mut(earlier)) {
                earlier.replaced_by = Some(number);
            }
            fields.push(WrittenField {
                place: from..into.len(),
                replaced_by: None,
            });
        }
        self.take(b'}')?;
        into.push(b'}');
        if numbers.len() < fields.len() {
            let once = once_each(into, &fields);
            into.truncate(start);
            into.extend_from_slice(&once);
        }
        Ok(())
    }

    /// A string with its quotes, as it is written.
    fn string(&mut self) -> serde_json::Result<&'a str> {
        self.take(b'"')?;
        let start = self.at - 1;
        let rest = self.json.as_bytes().get(self.at..).unwrap_or_default();
        let mut is_escaped = false;
        for (length, byte) in rest.iter().enumerate() {
            if *byte == b'"' && !is_escaped {
                self.at += length + 1;
                return self.json.get(start..self.at).ok_or_else(|| self.unexpected());
            }
            is_escaped = *byte == b'\\' && !is_escaped;
        }
        Err(self.unexpected())
    }

    /// A number, a truth value or null.
    fn scalar(&mut self) -> serde_json::Result<&'a str> {
        let rest = self.json.get(self.at..).unwrap_or_default();
        let ends = |byte: char| byte.is_ascii_whitespace() || matches!(byte, ',' | ']' | '}');
        let length = rest.find(ends).unwrap_or(rest.len());
        let text = rest.get(..length).filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| self.unexpected())?;
        self.at += text.len();
        Ok(text)
    }
}

fn write_string(text: &str, into: &mut Vec<u8>) -> serde_json::Result<()> {
    if text.contains('\\') {
        let text: String = serde_json::from_str(text)?;
        return serde_json::to_writer(into, &text);
    }
    into.extend_from_slice(text.as_bytes());
    Ok(())
}

/// An object of the fields that were written, each where its name comes first, with its last value.
fn once_each(written: &[u8], fields: &[WrittenField]) -> Vec<u8> {
    let later: HashSet<usize> = fields.iter().filter_map(|field| field.replaced_by).collect();
    let mut once = vec![b'{'];
    for number in (0..fields.len()).filter(|number| !later.contains(number)) {
        let mut last = number;
        while let Some(next) = fields.get(last).and_then(|field| field.replaced_by) {
            last = next;
        }
        if once.len() > 1 {
            once.push(b',');
        }
        let place = fields.get(last).map(|field| field.place.clone());
        once.extend_from_slice(place.and_then(|place| written.get(place)).unwrap_or_default());
    }
    once.push(b'}');
    once
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn compacted(json: &str) -> String {
        let mut into = Vec::new();
        compact(json, &mut into).unwrap();
        String::from_utf8(into).unwrap()
    }

    #[test]
    fn a_field_is_there_once_and_white_space_only_in_strings() {
        for (given, expected) in [
            (" [ ] ", "[]"),
            (" { } ", "{}"),
            ("\t-1.50E+2\r\n", "-1.50E+2"),
            (
                r#" { "a b" : [ 1.0 , { } , null ] , "c" : " \"x\" \\" } "#,
                r#"{"a b":[1.0,{},null],"c":" \"x\" \\"}"#,
            ),
            (
                r#"{"a": 1, "b": 2, "\u0061": [3.0], "c": 4, "a": {"b": 5, "b": 6.50}}"#,
                r#"{"a":{"b":6.50},"b":2,"c":4}"#,
            ),
            (
                r#"{"a": 1, "a": 2.0, "b": 3, "b": 4.0, "a": 5.0}"#,
                r#"{"a":5.0,"b":4.0}"#,
            ),
            (r#""\u00e9\/\ud83d\ude00""#, "\"é/😀\""),
        ] {
            assert_eq!(compacted(given), expected);
            assert!(expected.len() <= compact_bytes(given), "{given}");
        }
        assert_eq!(compact_bytes(r#" { "a \" b" : [ 1 ] } "#), r#"{"a \" b":[1]}"#.len());
    }

    /// Like `serde_json`, which writes whole numbers as they are.
    #[test]
    fn agrees_with_a_parser() {
        let mut nested = "7".to_owned();
        for level in 0..40 {
            nested = format!(r#"{{ "a" : {level} , "b" : [ {nested} , true ], "a": "{level} \\", "c": {{}} }}"#);
        }
        let value: Value = serde_json::from_str(&nested).unwrap();
        assert_eq!(compacted(&nested), value.to_string());
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        for wrong in ["", "{", "[1", "[1 2]", r#"{"a"}"#, r#"{"a":}"#, r#""a"#, "{1:2}", ","] {
            assert!(compact(wrong, &mut Vec::new()).is_err(), "{wrong}");
        }
    }
}
