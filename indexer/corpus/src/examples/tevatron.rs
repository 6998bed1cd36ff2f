//! Tevatron's records, read and written.
use serde_json::{Map, Value, json};

use super::example::{Passage, TrainingExample};
use super::judged::PassagesByKey;
use super::passages::passages;
use crate::place::PassageSpan;
use crate::problem::CorpusProblem;
use crate::read::{JsonRecord, missing, wrong_type};

/// Reads one record; `corpus` holds the documents of records that name theirs by key.
pub(super) fn example(value: Value, corpus: Option<&PassagesByKey>) -> Result<TrainingExample, CorpusProblem> {
    let mut record = object(value)?;
    let key = record.optional_key(&["query_id"])?;
    let question = record.text(&["query", "query_text"])?;
    if let Some(corpus) = corpus {
        let mut of = |name| {
            let keys = keys(&mut record, name)?;
            keys.iter()
                .map(|key| corpus.passage(key))
                .collect::<Result<Vec<Passage>, CorpusProblem>>()
        };
        return Ok(TrainingExample {
            key,
            question,
            positives: of("positive_document_ids")?,
            negatives: of("negative_document_ids")?,
        });
    }
    if !record.0.contains_key("positive_passages") {
        return Err(missing(&["positive_passages"]));
    }
    let positives = passages(&mut record, &["positive_passages"], true)?;
    let negatives = passages(&mut record, &["negative_passages"], true)?;
    Ok(TrainingExample {
        key,
        question,
        positives,
        negatives,
    })
}

/// Keys of the documents that a record names.
pub(super) fn named(value: Value) -> Result<Vec<String>, CorpusProblem> {
    let mut record = object(value)?;
    let mut names = keys(&mut record, "positive_document_ids")?;
    names.extend(keys(&mut record, "negative_document_ids")?);
    Ok(names)
}

fn object(value: Value) -> Result<JsonRecord, CorpusProblem> {
    match value {
        Value::Object(fields) => Ok(JsonRecord(fields)),
        other => Err(wrong_type("the record", "an object", &other)),
    }
}

fn keys(record: &mut JsonRecord, name: &str) -> Result<Vec<String>, CorpusProblem> {
    let values = match record.take(&[name]) {
        None => return Ok(Vec::new()),
        Some((_, Value::Array(values))) => values,
        Some((field, other)) => return Err(wrong_type(field, "an array of keys", &other)),
    };
    let keys = values.into_iter().map(|value| match value {
        Value::String(key) => Ok(key),
        Value::Number(number) if !number.is_f64() => Ok(number.to_string()),
        other => Err(wrong_type(name, "an array of keys", &other)),
    });
    keys.collect()
}

/// A passage as an object of Tevatron's older form.
fn passage_object(passage: &Passage) -> Value {
    let mut fields = Map::new();
    fields.insert("docid".into(), json!(passage.key.as_deref().unwrap_or_default()));
    fields.insert("title".into(), json!(passage.title));
    fields.insert("text".into(), json!(passage.text));
    if let Some(score) = passage.score {
        // The fewest digits that tell it from its neighbours in f32.
        fields.insert(
            "score".into(),
            json!(score.to_string().parse::<f64>().unwrap_or_default()),
        );
    }
    if let Some(PassageSpan { document, start, end }) = &passage.span {
        fields.insert("document".into(), json!(document));
        fields.insert("start".into(), json!(start));
        fields.insert("end".into(), json!(end));
    }
    Value::Object(fields)
}

/// One example as a line of Tevatron's older form, without its line end, with a `score` per passage that has one, and
/// `document`, `start` and `end` where it is known where it stands. Passages without a key get an empty `docid`.
pub fn to_tevatron(example: &TrainingExample) -> String {
    let passages = |passages: &[Passage]| passages.iter().map(passage_object).collect::<Value>();
    json!({
        "query_id": example.key.as_deref().unwrap_or_default(),
        "query": example.question,
        "positive_passages": passages(&example.positives),
        "negative_passages": passages(&example.negatives),
    })
    .to_string()
}
