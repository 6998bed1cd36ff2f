//! A batch through a cross encoder: each question with its positive and its own negatives, and a softmax over these
//! candidates.
//!
//! `L = -1/b sum_i log( exp(s_i0) / sum_c exp(s_ic) )`, candidate 0 the positive: localized contrastive estimation
//! (Gao, Dai and Callan 2021, "Rethink Training of BERT Rerankers in Multi-Stage Retrieval Pipeline", equation 3).
//! Questions know nothing of each other, so that some of them at a time give the same gradients.

use tch::{Kind, Reduction, TchError, Tensor};

use super::objective::ObjectiveLoss;
use crate::config::Tower;
use crate::data::TrainBatch;
use crate::error::{Error, torch};
use crate::model::{Model, VectorLength};
use crate::optim::Gradients;
use crate::tokenize::Tokens;

/// Marks no target in torch's cross entropy; every question has one.
const NO_TARGET: i64 = -100;

/// Answers of each question of a batch: its positive, then its negatives.
fn candidates(batch: &TrainBatch) -> Vec<Vec<usize>> {
    let questions = batch.questions.len();
    let mut candidates: Vec<Vec<usize>> = (0..questions).map(|positive| vec![positive]).collect();
    for (negative, &owner) in batch.owners.iter().enumerate() {
        if let Some(own) = candidates.get_mut(owner) {
            own.push(questions + negative);
        }
    }
    candidates
}

/// Questions that are scored together: as many as have at most `chunk` pairs, at least one; all where it is 0.
fn groups(candidates: &[Vec<usize>], chunk: usize) -> Vec<std::ops::Range<usize>> {
    let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
    let mut pairs = 0;
    for (question, own) in candidates.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if chunk == 0 || pairs + own.len() <= chunk => {
                group.end = question + 1;
                pairs += own.len();
            }
            _ => {
                groups.push(question..question + 1);
                pairs = own.len();
            }
        }
    }
    groups
}

/// The gradients of a batch and its loss; `chunk` pairs are scored at a time with what backpropagation needs, and all
/// where it is 0.
pub(super) fn gradients(
    model: &Model,
    tensors: &[Tensor],
    batch: &TrainBatch,
    chunk: usize,
) -> Result<(Gradients, ObjectiveLoss), Error> {
    let all = candidates(batch);
    let tokenizer = model.tokenizer();
    let (mut sum, mut losses, mut right): (Option<Gradients>, Vec<Tensor>, Vec<Tensor>) = Default::default();
    for group in groups(&all, chunk) {
        let (first, own) = (group.start, all.get(group).unwrap_or_default());
        let mut pairs: Vec<Tokens> = Vec::new();
        for (at, answers) in own.iter().enumerate() {
            let Some(question) = batch.questions.get(first + at) else {
                continue;
            };
            for answer in answers.iter().filter_map(|&answer| batch.answers.get(answer)) {
                pairs.push(tokenizer.pair_of(question, answer)?);
            }
        }
        let logits = model
            .forward(Tower::Answer, &pairs.iter().collect::<Vec<_>>(), VectorLength::Raw)?
            .into_vectors();
        let lengths: Vec<usize> = own.iter().map(Vec::len).collect();
        let scores = by_question(&logits, &lengths).map_err(torch("arranging scores"))?;
        let loss = loss(&scores, all.len()).map_err(torch("computing a loss"))?;
        let gradients = Gradients::backward(&loss, tensors).map_err(torch("running backward"))?;
        match &mut sum {
            None => sum = Some(gradients),
            Some(sum) => sum.add(gradients).map_err(torch("adding gradients"))?,
        }
        losses.push(loss.detach());
        right.push(best_first(&scores, all.len()).map_err(torch("measuring scores"))?);
    }
    let total = |parts: &[Tensor]| Tensor::f_stack(parts, 0)?.f_sum(None::<Kind>);
    let (whole, right) = total(&losses)
        .and_then(|whole| Ok((whole, total(&right)?)))
        .map_err(torch("computing a loss"))?;
    let nothing = || Error::Torch {
        action: "running backward",
        source: TchError::Shape("a batch without a text".into()),
    };
    let parts = vec![("candidates", whole.shallow_clone())];
    Ok((
        sum.ok_or_else(nothing)?,
        ObjectiveLoss {
            whole,
            parts,
            measures: vec![("p-at-1", right)],
        },
    ))
}

/// Scores `[pairs, 1]` as `[questions, most]`; minus infinity where a question has fewer candidates.
fn by_question(logits: &Tensor, lengths: &[usize]) -> Result<Tensor, TchError> {
    let most = lengths.iter().copied().max().unwrap_or(0);
    let (mut places, mut missing, mut first) = (Vec::new(), Vec::new(), 0);
    for &length in lengths {
        places.extend((0..most).map(|at| if at < length { (first + at) as i64 } else { 0 }));
        missing.extend((0..most).map(|at| at >= length));
        first += length;
    }
    let shape = [lengths.len() as i64, most as i64];
    let device = logits.device();
    let places = Tensor::f_from_slice(&places)?.f_to_device(device)?;
    let missing = Tensor::f_from_slice(&missing)?.f_view(shape)?.f_to_device(device)?;
    let scores = logits.f_view([-1])?.f_index_select(0, &places)?.f_view(shape)?;
    scores.f_masked_fill(&missing, f64::NEG_INFINITY)
}

/// The share of the mean over all `questions` that these have.
fn loss(scores: &Tensor, questions: usize) -> Result<Tensor, TchError> {
    let targets = Tensor::f_zeros(
        [scores.size().first().copied().unwrap_or(0)],
        (Kind::Int64, scores.device()),
    )?;
    let sum = scores.f_cross_entropy_loss(&targets, None::<Tensor>, Reduction::Sum, NO_TARGET, 0.0)?;
    sum.f_div_scalar(questions.max(1) as f64)
}

/// The share of all `questions` whose positive has the highest score here.
fn best_first(scores: &Tensor, questions: usize) -> Result<Tensor, TchError> {
    let right = scores.f_detach()?.f_argmax(1, false)?.f_eq(0)?;
    right.f_sum(Kind::Double)?.f_div_scalar(questions.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    #[test]
    fn questions_are_scored_together_up_to_so_many_pairs() {
        let candidates = |lengths: &[usize]| lengths.iter().map(|&length| vec![0; length]).collect::<Vec<_>>();
        assert_eq!(groups(&candidates(&[2, 2, 3, 9, 1]), 4), [0..2, 2..3, 3..4, 4..5]);
        assert_eq!(groups(&candidates(&[2, 2, 3]), 0).first(), Some(&(0..3)));
        assert!(groups(&[], 3).is_empty());
    }

    #[test]
    fn the_loss_is_that_of_its_equation_and_a_missing_candidate_counts_nothing() {
        let logits = Tensor::from_slice(&[1.0_f32, 0.5, -1.0, 0.2, 0.9]).view([5, 1]);
        let scores = by_question(&logits, &[3, 2]).unwrap();
        let slow = |scores: &[f64]| -(scores[0].exp() / scores.iter().map(|score| score.exp()).sum::<f64>()).ln();
        let expected = f64::midpoint(slow(&[1.0, 0.5, -1.0]), slow(&[0.2, 0.9]));
        assert!((loss(&scores, 2).unwrap().double_value(&[]) - expected).abs() < 1e-6);
        assert!((best_first(&scores, 2).unwrap().double_value(&[]) - 0.5).abs() < 1e-9);
        // Question by question the same.
        let apart = [
            by_question(&logits.narrow(0, 0, 3), &[3]),
            by_question(&logits.narrow(0, 3, 2), &[2]),
        ];
        let apart: f64 = apart
            .into_iter()
            .map(|scores| loss(&scores.unwrap(), 2).unwrap().double_value(&[]))
            .sum();
        assert!((apart - expected).abs() < 1e-6);
        assert_eq!(scores.device(), Device::Cpu);
    }
}
