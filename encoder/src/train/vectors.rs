//! A batch through both towers, and the cross-encoder branch where there is one.

use std::collections::HashMap;

use tch::{TchError, Tensor};

use super::objective::EmbeddedBatch;
use crate::config::Tower;
use crate::cross::Cross;
use crate::data::TrainBatch;
use crate::error::{Error, torch};
use crate::model::{Model, Output, VectorLength};
use crate::tokenize::Tokens;

/// What a vector is divided by at least.
const LEAST_LENGTH: f64 = 1e-12;

/// The encoders of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepTowers<'a> {
    pub(super) model: &'a Model,
    pub(super) cross: Option<&'a Cross>,
    pub(super) length: VectorLength,
    /// The weight of the vector of an answer's tokens in its document, where answers are read in these.
    pub(super) late_weight: Option<f32>,
}

/// Some answers of a batch.
#[derive(Debug, Clone, Default)]
pub(super) struct BatchAnswers<'a> {
    pub(super) tokens: Vec<&'a Tokens>,
    /// The window of its document that each stands in; none where answers are read by themselves.
    pub(super) contexts: Vec<&'a Tokens>,
}

impl<'a> BatchAnswers<'a> {
    /// The answers at these places of a batch.
    pub(super) fn select(batch: &'a TrainBatch, places: impl Iterator<Item = usize> + Clone) -> Self {
        Self {
            tokens: places.clone().filter_map(|place| batch.answers.get(place)).collect(),
            contexts: places.filter_map(|place| batch.contexts.get(place)).collect(),
        }
    }

    /// The windows, each once with a span for each answer in it; and the number of each answer among the spans of all.
    fn windows(&self) -> (Vec<Tokens>, Vec<i64>) {
        let mut numbers: HashMap<&[u32], usize> = HashMap::new();
        let mut windows: Vec<Tokens> = Vec::new();
        let mut places: Vec<(usize, usize)> = Vec::new();
        for context in &self.contexts {
            let number = *numbers.entry(&context.ids).or_insert(windows.len());
            if number == windows.len() {
                windows.push(Tokens {
                    spans: Vec::new(),
                    ..(*context).clone()
                });
            }
            if let Some(window) = windows.get_mut(number) {
                places.push((number, window.spans.len()));
                window.spans.extend(context.spans.iter().cloned());
            }
        }
        let mut firsts = Vec::with_capacity(windows.len());
        let mut next = 0;
        for window in &windows {
            firsts.push(next);
            next += window.spans.len();
        }
        let row = |(window, span): (usize, usize)| (firsts.get(window).copied().unwrap_or_default() + span) as i64;
        let rows = places.into_iter().map(row).collect();
        (windows, rows)
    }

    /// Tokens that are read for these answers.
    pub(super) fn count_tokens(&self) -> usize {
        let (windows, _) = self.windows();
        self.tokens
            .iter()
            .copied()
            .chain(&windows)
            .map(|tokens| tokens.ids.len())
            .sum()
    }
}

impl StepTowers<'_> {
    /// Questions with their answers, in the same order.
    pub(super) fn embed_pairs(
        &self,
        questions: &[&Tokens],
        answers: &BatchAnswers<'_>,
    ) -> Result<EmbeddedBatch, Error> {
        let asked = self.forward(Tower::Question, questions)?;
        let Some(cross) = self.cross else {
            let questions = asked.vectors().shallow_clone();
            return Ok(EmbeddedBatch {
                questions,
                answers: self.embed_answers(answers)?,
                cross: None,
            });
        };
        // No answer is read in its document next to a cross-encoder branch.
        let answers = &answers.tokens;
        let answering = self.forward(Tower::Answer, answers)?;
        let vectors = match cross.encoder() {
            None => cross.forward(&asked, &answering)?,
            Some(encoder) => cross.forward(
                &encoder.forward(Tower::Question, questions, VectorLength::Raw)?,
                &encoder.forward(Tower::Answer, answers, VectorLength::Raw)?,
            )?,
        };
        Ok(EmbeddedBatch {
            questions: asked.vectors().shallow_clone(),
            answers: answering.vectors().shallow_clone(),
            cross: Some([vectors.questions, vectors.answers]),
        })
    }

    /// Answers alone, `[n, d]`.
    pub(super) fn embed_answers(&self, answers: &BatchAnswers<'_>) -> Result<Tensor, Error> {
        let own = self.forward(Tower::Answer, &answers.tokens)?.vectors().shallow_clone();
        let Some(weight) = self.late_weight else { return Ok(own) };
        let (windows, rows) = answers.windows();
        let late = self.forward(Tower::Answer, &windows.iter().collect::<Vec<_>>())?;
        add_contexts(&own, late.vectors(), &rows, weight)
            .map_err(torch("adding vectors of passages in their documents"))
    }

    /// A whole batch.
    pub(super) fn embed_batch(&self, batch: &TrainBatch) -> Result<EmbeddedBatch, Error> {
        let questions: Vec<&Tokens> = batch.questions.iter().collect();
        let (positives, all) = (questions.len(), batch.answers.len());
        if self.cross.is_none() || all <= positives {
            return self.embed_pairs(&questions, &BatchAnswers::select(batch, 0..all));
        }
        // The cross-encoder branch reads matched pairs only.
        let mut vectors = self.embed_pairs(&questions, &BatchAnswers::select(batch, 0..positives))?;
        let negatives = self.embed_answers(&BatchAnswers::select(batch, positives..all))?;
        vectors.answers = concat_rows(&[vectors.answers, negatives]).map_err(torch("joining vectors"))?;
        Ok(vectors)
    }

    fn forward(&self, tower: Tower, texts: &[&Tokens]) -> Result<Output, Error> {
        self.model.forward(tower, texts, self.length)
    }
}

/// `own + weight * late`, of unit length, with the row of `late` that `rows` names for each of `own`.
fn add_contexts(own: &Tensor, late: &Tensor, rows: &[i64], weight: f32) -> Result<Tensor, TchError> {
    let rows = Tensor::f_from_slice(rows)?.f_to_device(late.device())?;
    let late = late.f_index_select(0, &rows)?.f_mul_scalar(f64::from(weight))?;
    let sum = own.f_add(&late)?;
    let length = sum.f_norm_scalaropt_dim(2, [-1], true)?.f_clamp_min(LEAST_LENGTH)?;
    sum.f_div(&length)
}

/// Concatenated rows.
pub(super) fn concat_rows(parts: &[Tensor]) -> Result<Tensor, TchError> {
    if let [only] = parts {
        Ok(only.shallow_clone())
    } else {
        Tensor::f_cat(parts, 0)
    }
}
