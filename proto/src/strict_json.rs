//! Checks that JSON means one thing: no field is in an object twice, and no whole number is one that a reader of
//! doubles rounds.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Digits that a number of 64 bits may have.
const DIGITS_OF_64_BITS: usize = 20;

/// An error where a field is in an object twice, by either of the names that a message's field has (`top_k`, `topK`),
/// or where a whole number of more than 64 bits is not equal to any double. Other faults are left to the reader of the
/// JSON.
pub fn check(json: &[u8]) -> Result<(), String> {
    if let Some(number) = rounded_number(json) {
        let fix = "write whole numbers of more than 64 bits as text, in a filter as `integer`";
        return Err(format!("{number:.40} is no double and would be rounded: {fix}"));
    }
    let mut reader = serde_json::Deserializer::from_slice(json);
    match Once.deserialize(&mut reader) {
        Err(error) if error.is_data() => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// The first whole number outside of strings that has more than 64 bits and is not equal to any double.
fn rounded_number(json: &[u8]) -> Option<&str> {
    let mut rest = json;
    loop {
        let at = rest.iter().position(|byte| *byte == b'"' || byte.is_ascii_digit())?;
        rest = rest.get(at..)?;
        if rest.first() == Some(&b'"') {
            rest = after_string(rest);
            continue;
        }
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-');
        let (number, after) = rest.split_at(rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len()));
        rest = after;
        let digits = whole_digits(std::str::from_utf8(number).ok()?);
        if digits.len() < DIGITS_OF_64_BITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let is_exact = digits
            .parse::<f64>()
            .is_ok_and(|double| format!("{double:.0}") == digits);
        if digits.parse::<u64>().is_err() && !is_exact {
            return Some(digits);
        }
    }
}

/// A number without zeros after its point.
fn whole_digits(number: &str) -> &str {
    match number.split_once('.') {
        Some((whole, rest)) if rest.bytes().all(|byte| byte == b'0') => whole,
        _ => number,
    }
}

/// What follows a string.
fn after_string(json: &[u8]) -> &[u8] {
    let mut is_escaped = false;
    let end = json.iter().skip(1).position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    end.and_then(|end| json.get(end + 2..)).unwrap_or_default()
}

/// A value in whose objects each field is once.
struct Once;

#[derive(Deserialize)]
struct StrictFieldName<'a>(#[serde(borrow)] Cow<'a, str>);

/// The name in lowerCamelCase.
fn camel_case(name: &str) -> Cow<'_, str> {
    if !name.contains('_') {
        return Cow::Borrowed(name);
    }
    let mut camel = String::with_capacity(name.len());
    let mut is_upper = false;
    for letter in name.chars() {
        match letter {
            '_' => is_upper = true,
            letter if std::mem::take(&mut is_upper) => camel.push(letter.to_ascii_uppercase()),
            letter => camel.push(letter),
        }
    }
    Cow::Owned(camel)
}

impl<'de> DeserializeSeed<'de> for Once {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        while all.next_element_seed(Self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut names: HashSet<String> = HashSet::new();
        while let Some(StrictFieldName(name)) = map.next_key()? {
            if !names.insert(camel_case(&name).into_owned()) {
                map.next_value::<IgnoredAny>()?;
                return Err(A::Error::custom(format!(
                    "`{name}` is there twice in one object: give it once"
                )));
            }
            map.next_value_seed(Self)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_in_an_object_once() {
        for fine in [
            "",
            "{",
            "[1, 2",
            r#"{"a": 1, "b": {"a": [{"a": 1}, {"a": 2}]}}"#,
            r#"{"a": "\"a\": 1, \"a\": 2"}"#,
            "[-1, 1e400]",
        ] {
            assert_eq!(check(fine.as_bytes()), Ok(()), "{fine}");
        }
        for (twice, name) in [
            (r#"{"a": 1, "a": 1}"#, "`a`"),
            (r#"{"b": [{"x": {"top_k": 1, "c": 2, "topK": 3}}]}"#, "`topK`"),
            (r#"{"a": 1, "\u0061": 2}"#, "`a`"),
        ] {
            let error = check(twice.as_bytes()).unwrap_err();
            assert!(
                error.contains(name) && error.contains("twice") && error.contains("line 1"),
                "{error}"
            );
        }
    }

    #[test]
    fn whole_numbers_that_no_double_is_are_refused_outside_of_strings() {
        for fine in [
            "18446744073709551615",
            "[-9223372036854775808]",
            "100000000000000000000",
            "1e400",
            "100000000000000000001.5",
            r#"{"a": "100000000000000000001"}"#,
            r#"{"a": "x\"100000000000000000001"}"#,
            "\"100000000000000000001",
        ] {
            assert_eq!(check(fine.as_bytes()), Ok(()), "{fine}");
        }
        for rounded in [
            "100000000000000000001",
            "100000000000000000001.0",
            r#"{"a\"": [1, -100000000000000000001]}"#,
            "18446744073709551617",
        ] {
            assert!(
                check(rounded.as_bytes()).unwrap_err().contains("would be rounded"),
                "{rounded}"
            );
        }
    }
}
