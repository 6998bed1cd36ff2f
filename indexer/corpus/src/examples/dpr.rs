//! DPR's records (Karpukhin et al. 2020; `https://github.com/facebookresearch/DPR`).
use serde_json::Value;

use super::example::TrainingExample;
use super::passages::passages;
use crate::problem::CorpusProblem;
use crate::read::{JsonRecord, missing, wrong_type};

/// Reads one record: hard negatives come before the others.
pub(super) fn example(value: Value) -> Result<TrainingExample, CorpusProblem> {
    let Value::Object(fields) = value else {
        return Err(wrong_type("the record", "an object", &value));
    };
    let mut record = JsonRecord(fields);
    if !record.0.contains_key("positive_ctxs") {
        return Err(missing(&["positive_ctxs"]));
    }
    let mut negatives = passages(&mut record, &["hard_negative_ctxs"], false)?;
    negatives.extend(passages(&mut record, &["negative_ctxs"], false)?);
    Ok(TrainingExample {
        key: record.optional_key(&["question_id", "id"])?,
        question: record.text(&["question"])?,
        positives: passages(&mut record, &["positive_ctxs"], false)?,
        negatives,
    })
}
