//! Real pairs: read from examples of any form, chosen evenly over the file, no question and no answer twice.

use std::collections::HashSet;

use dyad_corpus::examples::{ExampleOptions, ExampleReader};

use super::workload::Shape;
use crate::harness::{Error, Result, evenly};

/// A question and an answer.
pub(super) type Pair = (String, String);

/// The pairs of a shape, as many as its batches take.
pub(super) fn read(shape: &Shape) -> Result<Vec<Pair>> {
    let fail = |problem: String| Error::file(&shape.pairs, problem);
    let options = ExampleOptions { split: "train".to_owned(), ..ExampleOptions::default() };
    let reader = ExampleReader::open(&shape.pairs, &options).map_err(|error| fail(error.to_string()))?;
    let mut pairs = Vec::new();
    let (mut questions, mut answers) = (HashSet::new(), HashSet::new());
    for example in reader {
        let example = example.map_err(|error| fail(error.to_string()))?;
        let Some(answer) = example.positives.first().map(|passage| passage.passage().into_owned()) else { continue };
        // An answer that stands twice in a batch would need a mask, which peers do not have.
        if questions.insert(example.question.clone()) && answers.insert(answer.clone()) {
            pairs.push((example.question, answer));
        }
    }
    let wanted = shape.batch * shape.batches;
    if pairs.len() < wanted {
        let (name, got) = (&shape.name, pairs.len());
        return Err(fail(format!(
            "`shape.{name}.batches`: expected at most what the {got} different pairs of the file give, got {wanted} pairs"
        )));
    }
    Ok(evenly(pairs, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_spread_and_no_text_stands_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pairs.jsonl");
        // Every third answer is that of its neighbour.
        let line =
            |at: usize| format!("{{\"question\": \"q{at}\", \"answer\": \"a{}\"}}\n", at - usize::from(at % 3 == 2));
        fs_err::write(&path, (0..30).map(line).collect::<String>()).unwrap();
        let mut shape = Shape { name: "s".to_owned(), pairs: path.clone(), batch: 5, batches: 2, learning_rate: 1.0 };
        let read_pairs = read(&shape).unwrap();
        assert_eq!(read_pairs.len(), 10);
        assert_eq!(read_pairs[0], ("q0".to_owned(), "a0".to_owned()));
        assert_eq!(read_pairs[9], ("q27".to_owned(), "a27".to_owned()));
        assert!(read_pairs.iter().all(|(question, answer)| question[1..] == answer[1..]));
        shape.batches = 5;
        let error = read(&shape).unwrap_err().to_string();
        assert!(error.contains("the 20 different pairs of the file give, got 25 pairs"), "{error}");
    }
}
