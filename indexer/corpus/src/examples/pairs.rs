//! sentence-transformers' and FlagEmbedding's records, and plain pairs.
use serde_json::Value;

use super::example::{Passage, TrainingExample};
use super::passages::{give, passages, scores, span};
use crate::problem::CorpusProblem;
use crate::read::{JsonRecord, missing, wrong_type};

/// Names of a question, in the order they are looked for.
pub(super) const QUESTION_FIELDS: &[&str] = &["question", "query", "anchor"];
/// Names of the positives.
pub(super) const POSITIVE_FIELDS: &[&str] = &["positive", "positives", "pos", "answer", "answers", "response"];
/// Names of the negatives, which may also be numbered: `negative_1`.
pub(super) const NEGATIVE_FIELDS: &[&str] = &["negative", "negatives", "neg"];

/// Reads one record.
pub(super) fn example(value: Value) -> Result<TrainingExample, CorpusProblem> {
    match value {
        Value::Array(texts) => row(texts),
        Value::Object(fields) => object(JsonRecord(fields)),
        other => Err(wrong_type("the record", "an object or an array of texts", &other)),
    }
}

/// Question, positive, negatives.
fn row(texts: Vec<Value>) -> Result<TrainingExample, CorpusProblem> {
    let count = texts.len();
    let mut texts = texts.into_iter().map(|value| match value {
        Value::String(text) => Ok(text),
        other => Err(wrong_type("the array", "texts only", &other)),
    });
    let (Some(question), Some(positive)) = (texts.next(), texts.next()) else {
        return Err(CorpusProblem::Columns {
            expected: "question, positive and any number of negatives".into(),
            got: count,
        });
    };
    let negatives = texts
        .map(|text| text.map(Passage::from_text))
        .collect::<Result<_, _>>()?;
    Ok(TrainingExample {
        key: None,
        question: question?,
        positives: vec![Passage::from_text(positive?)],
        negatives,
    })
}

fn object(mut record: JsonRecord) -> Result<TrainingExample, CorpusProblem> {
    let question = record.text(QUESTION_FIELDS)?;
    if !POSITIVE_FIELDS.iter().any(|name| record.0.contains_key(*name)) {
        return Err(missing(POSITIVE_FIELDS));
    }
    let mut positives = passages(&mut record, POSITIVE_FIELDS, true)?;
    let mut negatives = passages(&mut record, NEGATIVE_FIELDS, true)?;
    for number in 1usize.. {
        let name = format!("negative_{number}");
        if !record.0.contains_key(&name) {
            break;
        }
        negatives.extend(passages(&mut record, &[&name], true)?);
    }
    if let (Some(title), [positive]) = (record.optional_text(&["title"])?, positives.as_mut_slice())
        && positive.title.is_empty()
    {
        positive.title = title;
    }
    if let (Some(span), [positive]) = (span(&record), positives.as_mut_slice())
        && positive.span.is_none()
    {
        positive.span = Some(span);
    }
    let key = record.optional_key(&["query_id", "qid", "_id", "id"])?;
    teach(&mut record, &mut positives, &mut negatives)?;
    Ok(TrainingExample {
        key,
        question,
        positives,
        negatives,
    })
}

/// The teacher's scores, in the three ways they are written.
fn teach(
    record: &mut JsonRecord,
    positives: &mut Vec<Passage>,
    negatives: &mut [Passage],
) -> Result<(), CorpusProblem> {
    if let Some((field, scores)) = scores(record, &["pos_scores"])? {
        give(field, &scores, positives.iter_mut())?;
    }
    if let Some((field, scores)) = scores(record, &["neg_scores"])? {
        give(field, &scores, negatives.iter_mut())?;
    }
    if let Some((field, scores)) = scores(record, &["scores"])? {
        let all: Vec<&mut Passage> = positives.iter_mut().chain(negatives.iter_mut()).collect();
        give(field, &scores, all.into_iter())?;
    }
    match record.take(&["label"]) {
        None => {}
        Some((field, label)) if negatives.is_empty() => match (label.as_bool(), label.as_f64()) {
            (Some(true), _) => {}
            (_, Some(value)) if (value - 1.0).abs() < 1e-9 => {}
            (Some(false), _) => positives.clear(),
            (_, Some(value)) if value.abs() < 1e-9 => positives.clear(),
            _ => return Err(wrong_type(field, "1 or 0 for a pair", &label)),
        },
        Some((field, label)) => {
            // MarginMSE: the positive's score less the negative's.
            record.0.insert(field.to_owned(), label);
            if let Some((field, mut margins)) = scores(record, &["label"])? {
                for margin in &mut margins {
                    *margin = -*margin;
                }
                give(field, &margins, negatives.iter_mut())?;
                for positive in positives {
                    positive.score = Some(0.0);
                }
            }
        }
    }
    Ok(())
}
