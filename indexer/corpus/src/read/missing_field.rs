//! What is said of a record without a key or a text: the fields that it has, and which of them may be meant.

use serde_json::{Map, Value};

use crate::problem::CorpusProblem;

/// Most fields of a record that an error lists, and most characters of the name of one.
const TOLD_FIELDS: usize = 8;
const TOLD_CHARS: usize = 64;

/// The fault where none of `names` is among the fields of a record.
pub(super) fn missing_of(names: &[&str], fields: &Map<String, Value>) -> CorpusProblem {
    let there = fields_there(fields.keys().map(String::as_str));
    CorpusProblem::MissingField {
        expected: format!("{}, got {there}", alternatives(names)),
    }
}

/// Names, one of which is expected.
pub(super) fn alternatives(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(" or ")
}

/// The names of the first fields, between commas.
pub(super) fn fields_there<'a>(mut names: impl Iterator<Item = &'a str>) -> String {
    let told = names.by_ref().take(TOLD_FIELDS);
    let told: Vec<String> = told
        .map(|name| format!("`{}`", name.chars().take(TOLD_CHARS).collect::<String>()))
        .collect();
    match (told.is_empty(), names.next()) {
        (true, _) => "no other field".to_owned(),
        (false, None) => told.join(", "),
        (false, Some(_)) => format!("{} and others", told.join(", ")),
    }
}

/// Names the option that takes the field of the key where a field looks like one: the only one whose name ends in `id`.
pub(super) fn with_likely_key(problem: CorpusProblem, fields: &Map<String, Value>) -> CorpusProblem {
    let is_key = |name: &&String| name.to_ascii_lowercase().ends_with("id");
    let mut likely = fields.keys().filter(is_key);
    match (likely.next(), likely.next()) {
        (Some(name), None) => advised(problem, "--key-field", name),
        _ => problem,
    }
}

/// Names the option that takes the field of the text where a field looks like one: the longest of several words.
pub(super) fn with_likely_text(problem: CorpusProblem, fields: &Map<String, Value>) -> CorpusProblem {
    let length = |(name, value): (&String, &Value)| {
        let text = value
            .as_str()
            .filter(|text| text.trim().contains(char::is_whitespace))?;
        Some((text.len(), name.clone()))
    };
    let texts: Vec<(usize, String)> = fields.iter().filter_map(length).collect();
    let longest = texts.iter().map(|(length, _)| *length).max();
    let mut likely = texts.iter().filter(|(length, _)| Some(*length) == longest);
    match (likely.next(), likely.next()) {
        (Some((_, name)), None) => advised(problem, "--text-field", name),
        _ => problem,
    }
}

/// A field that is missing, and not one that is null or of another type.
fn advised(problem: CorpusProblem, option: &str, name: &str) -> CorpusProblem {
    if !matches!(problem, CorpusProblem::MissingField { .. }) || name.chars().count() > TOLD_CHARS {
        return problem;
    }
    let is_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let argument = if name.chars().all(is_word) {
        name.to_owned()
    } else {
        format!("'{}'", name.escape_debug())
    };
    CorpusProblem::Advised {
        problem: Box::new(problem),
        advice: format!("If `{}` is meant, use `{option} {argument}`", name.escape_debug()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The advice for a record without the field.
    fn advice(fields: &Value, with: fn(CorpusProblem, &Map<String, Value>) -> CorpusProblem) -> Option<String> {
        let fields = fields.as_object().unwrap();
        match with(missing_of(&["x"], fields), fields) {
            CorpusProblem::Advised { advice, .. } => Some(advice),
            _ => None,
        }
    }

    #[test]
    fn the_longest_text_alone_is_suggested() {
        let of = |fields: Value| advice(&fields, with_likely_text);
        assert_eq!(
            of(json!({"docid": "d1", "headline": "two words", "body": "three words here", "n": 3})).unwrap(),
            "If `body` is meant, use `--text-field body`"
        );
        assert_eq!(
            of(json!({"the body": "a b"})).unwrap(),
            "If `the body` is meant, use `--text-field 'the body'`"
        );
        for fields in [
            json!({}),
            json!({"a": "x y", "b": "z w"}),
            json!({"url": "http://example.org/long/path"}),
            json!({"n": 7, "list": ["a b c"]}),
        ] {
            assert_eq!(of(fields), None);
        }
        let null = CorpusProblem::NullField { field: "text".into() };
        let fields = json!({"body": "a b"});
        let told = with_likely_text(null, fields.as_object().unwrap());
        assert!(matches!(told, CorpusProblem::NullField { .. }));
    }

    #[test]
    fn the_only_id_is_suggested() {
        let of = |fields: Value| advice(&fields, with_likely_key);
        assert_eq!(
            of(json!({"DocId": 7, "body": "x"})).unwrap(),
            "If `DocId` is meant, use `--key-field DocId`"
        );
        assert_eq!(of(json!({"uid": 7, "pid": 8})), None);
        assert_eq!(of(json!({"body": "x"})), None);
    }

    #[test]
    fn however_many_fields_there_are_some_are_listed() {
        let names: Vec<String> = (0..100).map(|number| format!("{number}{}", "x".repeat(100))).collect();
        let listed = fields_there(names.iter().map(String::as_str));
        assert!(
            listed.ends_with(" and others") && listed.len() < 8 * 70 + 20,
            "{listed}"
        );
        assert_eq!(fields_there(["a", "b"].into_iter()), "`a`, `b`");
    }
}
