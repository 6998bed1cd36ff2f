//! The passages of a record, in any of the shapes they come in.
use serde_json::Value;

use super::example::Passage;
use crate::place::PassageSpan;
use crate::problem::CorpusProblem;
use crate::read::{JsonRecord, wrong_type};

/// Names of a passage's key, in the order they are looked for.
const KEY_FIELDS: &[&str] = &["docid", "passage_id", "psg_id", "_id", "id"];
/// Names of the key of a passage's document.
const DOCUMENT_FIELDS: &[&str] = &["document", "paragraph"];
/// Names of a passage's text.
const TEXT_FIELDS: &[&str] = &["text", "contents"];

/// The passages under the first of `names` that is there: a text, an object, or a list of them; none where no name is.
pub(super) fn passages(record: &mut JsonRecord, names: &[&str], scored: bool) -> Result<Vec<Passage>, CorpusProblem> {
    match record.take(names) {
        None => Ok(Vec::new()),
        Some((field, Value::Array(values))) => values.into_iter().map(|value| passage(field, value, scored)).collect(),
        Some((field, value)) => Ok(vec![passage(field, value, scored)?]),
    }
}

/// A text, or an object with text, title, key, and score where `scored`.
pub(super) fn passage(field: &str, value: Value, scored: bool) -> Result<Passage, CorpusProblem> {
    match value {
        Value::String(text) => Ok(Passage::from_text(text)),
        Value::Object(fields) => {
            let mut record = JsonRecord(fields);
            let score = if scored { score(record.take(&["score"]))? } else { None };
            let span = span(&record);
            Ok(Passage {
                key: record.optional_key(KEY_FIELDS)?,
                title: record.optional_text(&["title"])?.unwrap_or_default(),
                text: record.text(TEXT_FIELDS)?,
                score,
                span,
            })
        }
        other => Err(wrong_type(field, "a text or an object with `text`", &other)),
    }
}

/// Where the passage of a record stands in its document; nothing where the record does not say so.
pub(super) fn span(record: &JsonRecord) -> Option<PassageSpan> {
    let document = DOCUMENT_FIELDS
        .iter()
        .find_map(|name| PassageSpan::key_of(record.0.get(*name)?))?;
    PassageSpan::of_fields(document, &record.0)
}

fn score(field: Option<(&str, Value)>) -> Result<Option<f32>, CorpusProblem> {
    field.map(|(name, value)| number(name, &value)).transpose()
}

/// A finite number.
pub(super) fn number(field: &str, value: &Value) -> Result<f32, CorpusProblem> {
    let number = value
        .as_f64()
        .map(|number| number as f32)
        .filter(|number| number.is_finite());
    number.ok_or_else(|| wrong_type(field, "a finite number", value))
}

/// The scores under `name`: a list of numbers, or one.
pub(super) fn scores(
    record: &mut JsonRecord,
    names: &[&'static str],
) -> Result<Option<(&'static str, Vec<f32>)>, CorpusProblem> {
    match record.take(names) {
        None => Ok(None),
        Some((field, Value::Array(values))) => Ok(Some((
            field,
            values
                .iter()
                .map(|value| number(field, value))
                .collect::<Result<_, _>>()?,
        ))),
        Some((field, value)) => Ok(Some((field, vec![number(field, &value)?]))),
    }
}

/// Gives each passage its score.
pub(super) fn give<'a>(
    field: &'static str,
    scores: &[f32],
    passages: impl ExactSizeIterator<Item = &'a mut Passage>,
) -> Result<(), CorpusProblem> {
    if scores.len() != passages.len() {
        return Err(CorpusProblem::ScoreCount {
            field,
            expected: passages.len(),
            got: scores.len(),
        });
    }
    for (passage, &score) in passages.zip(scores) {
        passage.score = Some(score);
    }
    Ok(())
}
