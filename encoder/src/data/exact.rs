//! The best answers of each question by exact inner product, a block at a time.

use std::cmp::Ordering;

use rayon::prelude::*;
use tch::{Device, Tensor};

use super::error::DataError;
use crate::error::torch;

/// Questions and answers of one product: 32 MiB of scores.
const QUESTIONS: usize = 256;
const ANSWERS: usize = 32_768;

/// An answer and its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankedAnswer {
    /// The row of the answer.
    pub answer: u32,
    /// Inner product with the question.
    pub score: f32,
}

/// Score descending, equal scores by row.
fn order(one: RankedAnswer, other: RankedAnswer) -> Ordering {
    (other.score + 0.0)
        .total_cmp(&(one.score + 0.0))
        .then(one.answer.cmp(&other.answer))
}

/// The `k` best answers of each question, best first, equal scores by row. Both are row-major with `dim` values per
/// row; the products run on `device`, and in addition to the rows only one block of scores is held.
pub fn best_answers(
    questions: &[f32],
    answers: &[f32],
    dim: usize,
    k: usize,
    device: Device,
) -> Result<Vec<Vec<RankedAnswer>>, DataError> {
    let width = dim.max(1);
    for (what, values) in [("questions", questions), ("answers", answers)] {
        if !values.len().is_multiple_of(width) {
            let expected = values.len() / width * width + width;
            return Err(DataError::Vectors {
                what,
                expected,
                got: values.len(),
            });
        }
    }
    let mut best: Vec<Vec<RankedAnswer>> = Vec::with_capacity(questions.len() / width);
    for block in questions.chunks(QUESTIONS * width) {
        let asked = rows(block, width, device)?;
        let mut found: Vec<Vec<RankedAnswer>> = vec![Vec::new(); block.len() / width];
        for (number, block) in answers.chunks(ANSWERS * width).enumerate() {
            let columns = block.len() / width;
            let scores = product(&asked, &rows(block, width, device)?).map_err(torch("comparing vectors"))?;
            let first = (number * ANSWERS) as u32;
            found
                .par_iter_mut()
                .zip(scores.par_chunks_exact(columns))
                .for_each(|(best, scores)| {
                    for (answer, &score) in (first..).zip(scores) {
                        admit(best, RankedAnswer { answer, score }, k);
                    }
                });
        }
        found.par_iter_mut().for_each(|best| {
            best.sort_unstable_by(|one, other| order(*one, *other));
            best.truncate(k);
        });
        best.append(&mut found);
    }
    Ok(best)
}

fn rows(values: &[f32], dim: usize, device: Device) -> Result<Tensor, DataError> {
    let shape = [(values.len() / dim) as i64, dim as i64];
    let tensor = Tensor::f_from_slice(values).and_then(|tensor| tensor.f_view(shape)?.f_to_device(device));
    Ok(tensor.map_err(torch("moving vectors"))?)
}

fn product(questions: &Tensor, answers: &Tensor) -> Result<Vec<f32>, tch::TchError> {
    let scores = questions.f_mm(&answers.f_tr()?)?.f_to_device(Device::Cpu)?;
    let mut values = vec![0.0; scores.numel()];
    scores.f_copy_data(&mut values, scores.numel())?;
    Ok(values)
}

/// Keeps `k` to `2 k` candidates: what is cut off is worse than the `k`-th.
fn admit(best: &mut Vec<RankedAnswer>, candidate: RankedAnswer, k: usize) {
    // Behind a cut the last one is the worst of the k best.
    if best.len() >= k
        && best
            .get(k.wrapping_sub(1))
            .is_none_or(|&worst| order(candidate, worst) == Ordering::Greater)
    {
        return;
    }
    best.push(candidate);
    if best.len() == k {
        best.sort_unstable_by(|one, other| order(*one, *other));
    } else if best.len() >= k.saturating_mul(2) {
        best.select_nth_unstable_by(k - 1, |one, other| order(*one, *other));
        best.truncate(k);
    }
}
