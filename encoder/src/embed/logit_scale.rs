//! The model's logit scale, measured once for a set of embeddings.

use dyad_corpus::logit_scale::{documents, estimate, questions};
use dyad_files::Cancel;

use crate::config::Tower;
use crate::error::Error;
use crate::model::{Model, VectorLength};
use crate::tokenize::{Budget, Tokens};

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum LogitScale {
    /// None where the model's cosines say too little or too much.
    Measured(Option<f64>),
    /// It was cancelled.
    Interrupted,
}

/// Embeds the pairs that come with the program.
pub(super) fn measure(encoder: &Model, budget: Budget, cancel: &dyn Cancel) -> Result<LogitScale, Error> {
    let embed = |tower: Tower, texts: &[String]| {
        let tokens = tokenize(encoder, tower, texts)?;
        encoder.embed_until(tower, &tokens, VectorLength::Unit, budget, cancel)
    };
    let questions = embed(Tower::Question, &questions())?;
    let documents = embed(Tower::Answer, &documents())?;
    let (Some(questions), Some(documents)) = (questions, documents) else {
        return Ok(LogitScale::Interrupted);
    };
    Ok(LogitScale::Measured(estimate(
        &questions,
        &documents,
        encoder.info().dim,
    )))
}

fn tokenize(encoder: &Model, tower: Tower, texts: &[String]) -> Result<Vec<Tokens>, Error> {
    texts
        .iter()
        .map(|text| encoder.tokenizer().encode(tower, text))
        .collect()
}
