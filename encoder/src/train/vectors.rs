//! A batch through both towers, and the cross-encoder branch where there is one.

use tch::{TchError, Tensor};

use super::objective::Embedded;
use crate::config::Tower;
use crate::cross::Cross;
use crate::error::{Error, torch};
use crate::model::{Model, Output, VectorLength};
use crate::tokenize::Tokens;

/// The encoders of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Towers<'a> {
    pub(super) learned: &'a Model,
    pub(super) cross: Option<&'a Cross>,
    pub(super) length: VectorLength,
}

impl Towers<'_> {
    /// Questions with their answers, in the same order.
    pub(super) fn pairs(&self, questions: &[&Tokens], answers: &[&Tokens]) -> Result<Embedded, Error> {
        let asked = self.states(Tower::Question, questions)?;
        let answering = self.states(Tower::Answer, answers)?;
        let cross = match self.cross {
            None => None,
            Some(cross) => {
                let vectors = match cross.encoder() {
                    None => cross.forward(&asked, &answering)?,
                    Some(encoder) => cross.forward(
                        &encoder.forward(Tower::Question, questions, VectorLength::Raw)?,
                        &encoder.forward(Tower::Answer, answers, VectorLength::Raw)?,
                    )?,
                };
                Some([vectors.questions, vectors.answers])
            }
        };
        Ok(Embedded { questions: asked.vectors().shallow_clone(), answers: answering.vectors().shallow_clone(), cross })
    }

    /// Answers alone, `[n, d]`.
    pub(super) fn answers(&self, answers: &[&Tokens]) -> Result<Tensor, Error> {
        Ok(self.states(Tower::Answer, answers)?.vectors().shallow_clone())
    }

    /// A whole batch: `answers` begin with those of the questions.
    pub(super) fn batch(&self, questions: &[&Tokens], answers: &[&Tokens]) -> Result<Embedded, Error> {
        let (own, negatives) = answers.split_at_checked(questions.len()).unwrap_or((answers, &[]));
        if self.cross.is_none() || negatives.is_empty() {
            return self.pairs(questions, answers);
        }
        // The cross-encoder branch reads matched pairs only.
        let mut vectors = self.pairs(questions, own)?;
        vectors.answers = joined(&[vectors.answers, self.answers(negatives)?]).map_err(torch("joining vectors"))?;
        Ok(vectors)
    }

    fn states(&self, tower: Tower, texts: &[&Tokens]) -> Result<Output, Error> {
        self.learned.forward(tower, texts, self.length)
    }
}

/// Concatenated rows.
pub(super) fn joined(parts: &[Tensor]) -> Result<Tensor, TchError> {
    if let [only] = parts { Ok(only.shallow_clone()) } else { Tensor::f_cat(parts, 0) }
}
