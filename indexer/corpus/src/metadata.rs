//! Metadata of a document: one JSON object as compact text, in which every number has the digits that it was given
//! with.

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::compact::compact;
use crate::place::PassageSpan;
use crate::raw_fields::RawFields;

/// One JSON object with at least one field: without white space between its parts, each field once, and numbers as they
/// were written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metadata {
    json: String,
}

impl Metadata {
    /// Reads an object; nothing where it has no field. Of a field that is there twice the last one counts.
    pub fn parse(json: &str) -> serde_json::Result<Option<Self>> {
        let object: Map<String, Value> = serde_json::from_str(json)?;
        Self::written(&object, |_| serde_json::from_str(json).map(Some))
    }

    /// An object whose numbers are written as `Value` writes them: the shortest digits that are read as the same
    /// number.
    pub fn new(object: &Map<String, Value>) -> serde_json::Result<Option<Self>> {
        Self::written(object, |_| Ok(None))
    }

    /// What [`Self::as_json`] has returned, or nothing where that was empty.
    pub fn of_stored(json: String) -> Option<Self> {
        (!json.is_empty()).then_some(Self { json })
    }

    /// An object whose fields are read from a text in which `raw` finds them; none where its number has no other text
    /// than `Value`'s.
    pub(crate) fn written<'a>(
        object: &Map<String, Value>,
        raw: impl FnOnce(&Map<String, Value>) -> serde_json::Result<Option<RawFields<'a>>>,
    ) -> serde_json::Result<Option<Self>> {
        if object.is_empty() {
            return Ok(None);
        }
        let raw = if object.values().any(has_double) {
            raw(object)?
        } else {
            None
        };
        let Some(raw) = raw else {
            let json = serde_json::to_string(object)?;
            return Ok(Some(Self { json }));
        };
        let mut json = Vec::with_capacity(256);
        write_object(object, &raw, &mut json)?;
        Ok(Some(Self {
            json: String::from_utf8(json).map_err(serde_json::Error::custom)?,
        }))
    }

    /// The object.
    pub fn as_json(&self) -> &str {
        &self.json
    }

    /// Where a passage stands in its document: `document`, `start` and `end`. Nothing where it does not say so.
    pub fn span(&self) -> Option<PassageSpan> {
        let fields: Map<String, Value> = serde_json::from_str(&self.json).ok()?;
        PassageSpan::of_fields(PassageSpan::key_of(fields.get("document")?)?, &fields)
    }

    /// The object, to be written as a part of other JSON.
    pub fn as_raw(&self) -> serde_json::Result<&RawValue> {
        serde_json::from_str(&self.json)
    }

    /// A field whose value is a text.
    pub fn text(&self, field: &str) -> Option<String> {
        let fields: RawFields<'_> = serde_json::from_str(&self.json).ok()?;
        serde_json::from_str(fields.last(field)?.get()).ok()
    }

    /// Whether there is a field of that name.
    pub fn has(&self, field: &str) -> bool {
        serde_json::from_str::<RawFields<'_>>(&self.json).is_ok_and(|fields| fields.last(field).is_some())
    }

    /// The same with fields that it does not have; those of `object` where there are no others.
    pub(crate) fn with(this: Option<&Self>, object: &Map<String, Value>) -> serde_json::Result<Option<Self>> {
        let Some(this) = this else { return Self::new(object) };
        let Some(added) = Self::new(object)? else {
            return Ok(Some(this.clone()));
        };
        let fields = this.json.strip_suffix('}').unwrap_or(&this.json);
        let more = added.json.strip_prefix('{').unwrap_or(&added.json);
        Ok(Some(Self {
            json: format!("{fields},{more}"),
        }))
    }
}

/// Whether there is a number in it whose text may be another one than `Value`'s: it is no whole number of 64 bits.
fn has_double(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(all) => all.iter().any(has_double),
        Value::Object(fields) => fields.values().any(has_double),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// Writes the fields of an object, each with its text in `raw`.
fn write_object(object: &Map<String, Value>, raw: &RawFields<'_>, into: &mut Vec<u8>) -> serde_json::Result<()> {
    let by_name = raw.by_name();
    into.push(b'{');
    for (number, (name, value)) in object.iter().enumerate() {
        if number > 0 {
            into.push(b',');
        }
        serde_json::to_writer(&mut *into, name)?;
        into.push(b':');
        match by_name.get(name.as_str()) {
            Some(raw) if has_double(value) => compact(raw.get(), into)?,
            _ => serde_json::to_writer(&mut *into, value)?,
        }
    }
    into.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        Metadata::parse(text)
            .unwrap()
            .map(|metadata| metadata.json)
            .unwrap_or_default()
    }

    #[test]
    fn numbers_keep_their_digits_and_all_else_is_compact() {
        for (given, expected) in [
            ("{ }", ""),
            (
                r#" { "b" : 1 , "a" : [ null , true , "x y" ] } "#,
                r#"{"b":1,"a":[null,true,"x y"]}"#,
            ),
            (
                r#"{"p": 1.50, "q": [1E5, {"r": -0.0, "s": 7}], "t": "\u0031.50"}"#,
                r#"{"p":1.50,"q":[1E5,{"r":-0.0,"s":7}],"t":"1.50"}"#,
            ),
            (
                r#"{"n": 12345678901234567890123, "m": [0.10000000000000000001]}"#,
                r#"{"n":12345678901234567890123,"m":[0.10000000000000000001]}"#,
            ),
            (
                r#"{"a": 1.5, "b": {"a": 1.0}, "a": 2.50, "b": {"a": 3.0, "a": 4.0}}"#,
                r#"{"a":2.50,"b":{"a":4.0}}"#,
            ),
            (r#"{"\u0061\"": 1.0}"#, r#"{"a\"":1.0}"#),
            (
                r#"{"a": 18446744073709551615, "b": -9223372036854775808}"#,
                r#"{"a":18446744073709551615,"b":-9223372036854775808}"#,
            ),
        ] {
            assert_eq!(json(given), expected, "{given}");
            assert!(expected.is_empty() || json(expected) == expected, "the same again");
        }
        assert_eq!(Metadata::parse("{}").unwrap(), None);
        for wrong in [
            "",
            "[1]",
            "7",
            "{",
            r#"{"a": 1e400}"#,
            r#"{"a": 01}"#,
            &format!("{}1.5{}", r#"{"a":"#.repeat(200), "}".repeat(200)),
        ] {
            assert!(Metadata::parse(wrong).is_err(), "{wrong:.40}");
        }
    }

    #[test]
    fn fields_are_found_and_added() {
        let metadata = Metadata::parse(r#"{"a": 1.50, "b": "x"}"#).unwrap().unwrap();
        assert_eq!(
            (metadata.text("b").as_deref(), metadata.text("a"), metadata.text("c")),
            (Some("x"), None, None)
        );
        assert!(metadata.has("a") && !metadata.has("c"));
        let more = Map::from_iter([("c".to_owned(), Value::from(3))]);
        let of = |this| Metadata::with(this, &more).unwrap().unwrap().json;
        assert_eq!(of(Some(&metadata)), r#"{"a":1.50,"b":"x","c":3}"#);
        assert_eq!(of(None), r#"{"c":3}"#);
        assert_eq!(
            Metadata::with(Some(&metadata), &Map::new()).unwrap().as_ref(),
            Some(&metadata)
        );
        assert_eq!(
            Metadata::of_stored(metadata.as_json().to_owned()).as_ref(),
            Some(&metadata)
        );
        assert_eq!(Metadata::of_stored(String::new()), None);
    }
}
