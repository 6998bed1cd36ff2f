//! Questions as they were asked, sampled and embedded: what `calibrate` measures by where it is given texts.

use std::collections::BinaryHeap;

use dyad_command::JobCancellation;
use dyad_corpus::queries::QuestionTexts;
use dyad_corpus::{Document, Located};
use dyad_index::ModelRecord;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::Error;
use crate::graph_build::{HELD_OUT, QuestionVectors};
use crate::source::{LeadingSource, LocatedDocuments, VectorSource};

/// A sample of at most [`HELD_OUT`] of these texts, by `seed`, as vectors of `source`, whose model must be `model`.
/// What is asked more often is in it more often. Takes memory for the sample.
pub fn embed_questions(
    texts: QuestionTexts,
    source: &mut dyn VectorSource,
    model: &ModelRecord,
    seed: u64,
    cancel: &JobCancellation,
) -> Result<QuestionVectors, Error> {
    let mut source = LeadingSource::like(source, model);
    let source: &mut dyn VectorSource = &mut source;
    if !source.model().same_space(model) {
        let (expected, got) = (model.fingerprint.clone(), source.model().fingerprint.clone());
        return Err(Error::ModelOfQuestions {
            model: model.name.clone(),
            expected,
            got,
        });
    }
    let path = texts.path().to_owned();
    let texts = sample(texts, seed)?;
    let numbers = (0..texts.len() as u32).collect();
    let document = |(number, text): (usize, String)| {
        let document = Document {
            key: number.to_string(),
            title: String::new(),
            text,
            metadata: None,
            place: None,
        };
        Ok(Located {
            value: document,
            line: number as u64 + 1,
        })
    };
    let mut documents = texts.into_iter().enumerate().map(document);
    let documents: &mut LocatedDocuments<'_> = &mut documents;
    let mut values = Vec::new();
    while let Some(embedded) = source.pull(documents, cancel)? {
        values.extend(embedded.row);
    }
    QuestionVectors::checked(&path, numbers, values, model)
}

/// The texts whose place has the smallest hash, in the order of these.
fn sample(mut texts: QuestionTexts, seed: u64) -> Result<Vec<String>, Error> {
    // The largest hash on top, to fall out first.
    let mut kept: BinaryHeap<(u64, String)> = BinaryHeap::new();
    let mut number = 0u64;
    while let Some(text) = texts.advance()? {
        kept.push((xxh3_64_with_seed(&number.to_le_bytes(), seed), text));
        number += 1;
        if kept.len() > HELD_OUT {
            kept.pop();
        }
    }
    Ok(kept.into_sorted_vec().into_iter().map(|(_, text)| text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_log_a_sample_is_kept_by_seed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("asked.log");
        let lines: Vec<String> = (0..5 * HELD_OUT).map(|number| format!("question {number}")).collect();
        fs_err::write(&path, lines.join("\n")).unwrap();
        let of = |seed| sample(QuestionTexts::open(&path).unwrap(), seed).unwrap();
        let first = of(1);
        assert_eq!((first.len(), &first), (HELD_OUT, &of(1)));
        assert_ne!(first, of(2));
        let early = first
            .iter()
            .filter(|text| lines[..lines.len() / 2].contains(text))
            .count();
        assert!(
            early.abs_diff(HELD_OUT / 2) < HELD_OUT / 10,
            "{early} of the first half"
        );
    }
}
