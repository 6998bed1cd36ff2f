//! One JSON object per line.

use std::borrow::Cow;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::missing_field::{alternatives, missing_of, with_likely_key, with_likely_text};
use super::options::FieldNames;
use super::unstored::Unstored;
use crate::document::Document;
use crate::metadata::Metadata;
use crate::problem::CorpusProblem;
use crate::raw_fields::{RawFields, RawName};

/// Names of a document's key, in the order they are looked for.
const KEY_FIELDS: &[&str] = &["_id", "id", "docid", "key"];

/// Names of a document's text, in the order they are looked for.
const TEXT_FIELDS: &[&str] = &["text", "contents"];

/// The names that a key, a title and a text may have.
pub(super) struct Names<'a> {
    pub(super) key: Vec<&'a str>,
    pub(super) title: Vec<&'a str>,
    pub(super) text: Vec<&'a str>,
}

impl<'a> Names<'a> {
    pub(super) fn from_fields(fields: &'a FieldNames) -> Self {
        let of = |given: &'a Option<String>, usual: &[&'static str]| {
            given
                .as_ref()
                .map_or_else(|| usual.to_vec(), |given| vec![given.as_str()])
        };
        Self {
            key: of(&fields.key, KEY_FIELDS),
            title: of(&fields.title, &["title"]),
            text: of(&fields.text, TEXT_FIELDS),
        }
    }
}

/// The fields of one line.
#[derive(Debug)]
pub(crate) struct JsonRecord(pub(crate) Map<String, Value>);

impl JsonRecord {
    pub(crate) fn parse(line: &str) -> Result<Self, CorpusProblem> {
        if line.trim_start().starts_with('[') {
            return Err(CorpusProblem::JsonArray);
        }
        serde_json::from_str(line)
            .map(Self)
            .map_err(|error| CorpusProblem::Json {
                message: explained(line, &error),
            })
    }

    /// The first field of `names` that is there and not null.
    pub(crate) fn take<'a>(&mut self, names: &[&'a str]) -> Option<(&'a str, Value)> {
        names.iter().find_map(|name| match self.0.remove(*name) {
            None | Some(Value::Null) => None,
            Some(value) => Some((*name, value)),
        })
    }

    /// A string, or an integer written in decimal.
    pub(crate) fn key(&mut self, names: &[&str]) -> Result<String, CorpusProblem> {
        let null = self.null(names);
        self.optional_key(names)?
            .ok_or_else(|| null.unwrap_or_else(|| missing_of(names, &self.0)))
    }

    pub(crate) fn optional_key(&mut self, names: &[&str]) -> Result<Option<String>, CorpusProblem> {
        match self.take(names) {
            None => Ok(None),
            Some((_, Value::String(key))) => Ok(Some(key)),
            Some((_, Value::Number(number))) if !number.is_f64() => Ok(Some(number.to_string())),
            Some((field, value)) => Err(wrong_type(field, "a string or an integer", &value)),
        }
    }

    pub(crate) fn text(&mut self, names: &[&str]) -> Result<String, CorpusProblem> {
        let null = self.null(names);
        self.optional_text(names)?
            .ok_or_else(|| null.unwrap_or_else(|| missing_of(names, &self.0)))
    }

    /// The fault where one of `names` has no value.
    fn null(&self, names: &[&str]) -> Option<CorpusProblem> {
        let name = names
            .iter()
            .find(|name| self.0.get(**name).is_some_and(Value::is_null))?;
        Some(CorpusProblem::NullField {
            field: (*name).to_owned(),
        })
    }

    pub(crate) fn optional_text(&mut self, names: &[&str]) -> Result<Option<String>, CorpusProblem> {
        match self.take(names) {
            None => Ok(None),
            Some((_, Value::String(text))) => Ok(Some(text)),
            Some((field, value)) => Err(wrong_type(field, "a string", &value)),
        }
    }

    /// The object `metadata`, with the fields that are stored with it, as they are written.
    fn metadata(&mut self, fields: &FieldNames, written: Written<'_>) -> Result<Option<Metadata>, CorpusProblem> {
        let object = self.metadata_object(fields)?.unwrap_or_default();
        let metadata = Metadata::written(&object, |object| written.fields(fields, object));
        metadata.map_err(|error| CorpusProblem::Json {
            message: message(&error),
        })
    }

    fn metadata_object(&mut self, fields: &FieldNames) -> Result<Option<Map<String, Value>>, CorpusProblem> {
        let mut metadata = self.optional_object("metadata")?;
        let names = Names::from_fields(fields);
        for name in &fields.metadata {
            let is_used = [&names.key, &names.title, &names.text]
                .into_iter()
                .flatten()
                .any(|used| used == name);
            // What is also key, title or text stays to be read as such.
            let value = if is_used {
                self.0.get(name).cloned()
            } else {
                self.0.remove(name)
            };
            if let Some(value) = value.filter(|value| !value.is_null()) {
                metadata.get_or_insert_default().insert(name.clone(), value);
            }
        }
        Ok(metadata)
    }

    fn optional_object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, CorpusProblem> {
        match self.take(&[name]) {
            None => Ok(None),
            Some((_, Value::Object(object))) => Ok(Some(object).filter(|object| !object.is_empty())),
            Some((field, value)) => Err(wrong_type(field, "an object", &value)),
        }
    }
}

/// Where the JSON of a record is, in which numbers have all of their digits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Written<'a> {
    /// In the line that is the record.
    Line(&'a str),
    /// In the column `metadata`, where that is JSON as text; other columns have types.
    Column(Option<&'a str>),
}

impl<'a> Written<'a> {
    /// The values of an object that was made of `metadata` and the fields that are stored with it.
    fn fields(self, names: &FieldNames, object: &Map<String, Value>) -> serde_json::Result<Option<RawFields<'a>>> {
        let line = match self {
            Self::Line(line) => line,
            Self::Column(None) => return Ok(None),
            Self::Column(Some(metadata)) => {
                let mut fields: RawFields<'a> = serde_json::from_str(metadata)?;
                // A column's value is in place of the one in the text, which is the same where the column has none.
                let is_of_column = |name: &str| names.metadata.iter().any(|column| column == name);
                let is_same = |name: &str, raw: &RawValue| {
                    serde_json::from_str::<Value>(raw.get()).is_ok_and(|value| object.get(name) == Some(&value))
                };
                fields
                    .0
                    .retain(|(name, raw)| !is_of_column(&name.0) || is_same(&name.0, raw));
                return Ok(Some(fields));
            }
        };
        let is_stored = |name: &str| name == "metadata" || names.metadata.iter().any(|stored| stored == name);
        let line = RawFields::parse_wanted(line, is_stored)?;
        let mut fields = match line.last("metadata").filter(|metadata| metadata.get() != "null") {
            Some(metadata) => serde_json::from_str(metadata.get())?,
            None => RawFields::default(),
        };
        // A field `metadata` is never stored in itself.
        let stored = names
            .metadata
            .iter()
            .filter(|name| *name != "metadata" && object.contains_key(*name));
        for name in stored {
            if let Some(value) = line.last(name).filter(|value| value.get() != "null") {
                fields.0.push((RawName(Cow::Owned(name.clone())), value));
            }
        }
        Ok(Some(fields))
    }
}

/// Key and metadata of a document; other fields are not looked at.
pub(super) fn metadata(
    mut record: JsonRecord,
    fields: &FieldNames,
    written: Written<'_>,
) -> Result<Document, CorpusProblem> {
    let key = record.key(&Names::from_fields(fields).key)?;
    let metadata = record.metadata(fields, written)?;
    Ok(Document {
        key,
        metadata,
        ..Document::default()
    })
}

/// The parser's message. It counts lines within what it was given, which is one line: only the column says something.
pub(crate) fn message(error: &serde_json::Error) -> String {
    error
        .to_string()
        .replace(&format!(" at line {} column", error.line()), " at column")
}

/// The parser's message, with what writers that do not write JSON mean by it.
pub(crate) fn explained(line: &str, error: &serde_json::Error) -> String {
    let told = message(error);
    // An element of an array may have several lines.
    let at_fault = line.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let at = at_fault.get(error.column().saturating_sub(1)..).unwrap_or_default();
    let is_word = |word: &str| {
        let rest = at.strip_prefix(word);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    };
    let begins = |words: &[&str]| words.iter().find(|word| is_word(word)).map(|word| (*word).to_owned());
    let why = if told.contains("surrogate") || told.contains("hex escape") {
        "half of a surrogate pair stands for no character (Python: `text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')`)"
            .to_owned()
    } else if let Some(word) = begins(&["NaN", "Infinity", "-Infinity", "nan", "inf", "-inf"]) {
        format!("`{word}` is no JSON: write null (Python: `json.dumps(..., allow_nan=False)` finds such values)")
    } else if let Some(word) = begins(&["None", "True", "False", "undefined"]) {
        format!("`{word}` is no JSON: write the record with `json.dumps`")
    } else if at.starts_with('\'') {
        "JSON has double quotes: write the record with `json.dumps`, not with `str` or `repr`".to_owned()
    } else if line.trim_start().starts_with('<') {
        "it begins with `<`, as HTML and XML do: fetch the file again, or name its `--format`".to_owned()
    } else if error.is_eof() {
        "the record does not end on its line. Either the file is cut short, or `jq -c . FILE` writes one record per line"
            .to_owned()
    } else if told.starts_with("trailing characters") {
        "something follows the record on its line: `jq -c . FILE` writes one record per line".to_owned()
    } else if told.starts_with("control character") {
        "line breaks and tabs in a text are written as \\n and \\t".to_owned()
    } else {
        return told;
    };
    format!("{told}: {why}")
}

/// A record as a document; other fields go to `unstored`.
pub(super) fn document(
    mut record: JsonRecord,
    fields: &FieldNames,
    written: Written<'_>,
    unstored: &mut Unstored,
) -> Result<Document, CorpusProblem> {
    let names = Names::from_fields(fields);
    // Before the others, so that a field may be both.
    let metadata = record.metadata(fields, written)?;
    let key = record.key(&names.key);
    let key = key.map_err(|problem| with_likely_key(problem, &record.0))?;
    let title = record.optional_text(&names.title)?.unwrap_or_default();
    let text = record.text(&names.text);
    let text = text.map_err(|problem| with_likely_text(problem, &record.0))?;
    let document = Document {
        key,
        title,
        text,
        metadata,
        place: None,
    };
    unstored.add(&record.0);
    Ok(document)
}

pub(crate) fn missing(names: &[&str]) -> CorpusProblem {
    CorpusProblem::MissingField {
        expected: alternatives(names),
    }
}

pub(crate) fn wrong_type(field: &str, expected: &'static str, value: &Value) -> CorpusProblem {
    let got = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a fractional or too large number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    CorpusProblem::FieldType {
        field: field.to_owned(),
        expected,
        got,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A column of the name has its value in the object, unless it is null: then the text's value is there.
    #[test]
    fn numbers_of_a_text_keep_their_digits_where_no_column_has_another() {
        let text = r#"{"a": 1.50, "b": 2.50}"#;
        let names = FieldNames {
            metadata: vec!["a".to_owned()],
            ..FieldNames::default()
        };
        for (value, expected) in [(1.5, r#"{"a":1.50,"b":2.50}"#), (7.5, r#"{"a":7.5,"b":2.50}"#)] {
            let object = Map::from_iter([("a".to_owned(), Value::from(value)), ("b".to_owned(), Value::from(2.5))]);
            let fields = |object: &Map<String, Value>| Written::Column(Some(text)).fields(&names, object);
            let metadata = Metadata::written(&object, fields).unwrap().unwrap();
            assert_eq!(metadata.as_json(), expected);
        }
    }
}
