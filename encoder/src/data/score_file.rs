//! Scoring from file to file: a cross encoder's logits for all passages of examples, which a dual encoder then learns
//! from (distillation: Hofstätter et al. 2020, "Improving Efficient Neural Ranking Models with Cross-Architecture
//! Knowledge Distillation").

use std::io::Write;
use std::path::Path;

use dyad_corpus::examples::{ExampleReader, Passage, Skipped, TrainingExample, to_tevatron};
use dyad_files::{AtomicFile, Cancel};
use rayon::prelude::*;

use super::error::DataError;
use super::mine_file::give_keys;
use crate::error::Error;
use crate::model::CrossEncoder;
use crate::tokenize::{Budget, Tokens};

/// Examples that are scored together, in batches of like length.
const WINDOW: usize = 256;

/// Counts of a scoring run, and of its input.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScoredFile {
    /// Examples.
    pub examples: u64,
    /// Pairs of a question and a passage.
    pub pairs: u64,
    /// Pairs that were cut at the model's longest input.
    pub truncated: u64,
    /// Records that were left out.
    pub skipped: Skipped,
}

/// Gives every passage of the examples the model's logit for its question, and writes them to `out` in Tevatron's form,
/// with keys for what has none. The file appears whole or not at all. `cancel` is polled between batches.
pub fn score_file(
    model: &CrossEncoder,
    mut examples: ExampleReader,
    budget: Budget,
    out: &Path,
    cancel: &dyn Cancel,
) -> Result<ScoredFile, DataError> {
    let io = |error: std::io::Error| DataError::Source(error.into());
    let mut file = AtomicFile::create(out).map_err(io)?;
    let mut scored = ScoredFile::default();
    loop {
        let mut window = examples
            .by_ref()
            .take(WINDOW)
            .collect::<Result<Vec<TrainingExample>, _>>()?;
        if window.is_empty() {
            break;
        }
        score(model, &mut window, budget, cancel, &mut scored)?;
        for mut example in window {
            scored.examples += 1;
            give_keys(&mut example, scored.examples);
            writeln!(file, "{}", to_tevatron(&example)).map_err(io)?;
        }
    }
    file.commit().map_err(io)?;
    scored.skipped.clone_from(examples.skipped());
    Ok(scored)
}

fn score(
    model: &CrossEncoder,
    window: &mut [TrainingExample],
    budget: Budget,
    cancel: &dyn Cancel,
    counts: &mut ScoredFile,
) -> Result<(), DataError> {
    let tokenizer = model.tokenizer();
    let pairs: Vec<(&str, &Passage)> = window
        .iter()
        .flat_map(|example| passages(example).map(|passage| (example.question.trim(), passage)))
        .collect();
    let tokens = pairs
        .par_iter()
        .map(|(question, passage)| tokenizer.encode_pair(question, &passage.passage()));
    let tokens = tokens.collect::<Result<Vec<Tokens>, Error>>()?;
    counts.pairs += tokens.len() as u64;
    counts.truncated += tokens.iter().filter(|pair| pair.truncated).count() as u64;
    let logits = model
        .logits_until(&tokens, budget, cancel)?
        .ok_or(DataError::Interrupted)?;
    let scored = window
        .iter_mut()
        .flat_map(|example| example.positives.iter_mut().chain(&mut example.negatives));
    for (passage, logit) in scored.zip(logits) {
        passage.score = Some(logit);
    }
    Ok(())
}

fn passages(example: &TrainingExample) -> impl Iterator<Item = &Passage> {
    example.positives.iter().chain(&example.negatives)
}
