//! Score distillation: a question's candidates scored as a teacher, such as a cross-encoder, scores them.
//!
//! Scores are `[b, c]`: `c` candidates of each question, the positive first. `missing`, boolean and `[b, c]`, marks
//! places without a candidate, where questions have unequally many. The teacher gets no gradient.

use tch::{Kind, Reduction, TchError, Tensor};

use super::{shaped, wide};

/// `KL(teacher || own)` of the softmax over each question's candidates, the mean over questions. Both scores are
/// divided by `temperature` first. Every question needs a candidate.
pub fn kl_divergence(
    own: &Tensor,
    teacher: &Tensor,
    temperature: f64,
    missing: Option<&Tensor>,
) -> Result<Tensor, TchError> {
    shaped("the teacher's scores", teacher, &own.size())?;
    if let Some(missing) = missing {
        shaped("the mask of missing candidates", missing, &own.size())?;
    }
    let own = log_probabilities(own, temperature, missing)?;
    let teacher = log_probabilities(&teacher.f_detach()?, temperature, missing)?;
    let mut apart = teacher.f_sub(&own)?;
    if let Some(missing) = missing {
        // Of two infinities.
        apart = apart.f_masked_fill(missing, 0.0)?;
    }
    divergence(&teacher.f_exp()?, &apart)
}

/// The logarithms of a softmax over each row, without the candidates that are missing.
fn log_probabilities(scores: &Tensor, temperature: f64, missing: Option<&Tensor>) -> Result<Tensor, TchError> {
    let mut scores = wide(scores)?.f_div_scalar(temperature)?;
    if let Some(missing) = missing {
        scores = scores.f_masked_fill(missing, f64::NEG_INFINITY)?;
    }
    scores.f_log_softmax(1, None::<Kind>)
}

/// The sum of `probability * apart`, the mean over the rows of `[b, c]`.
pub(super) fn divergence(probability: &Tensor, apart: &Tensor) -> Result<Tensor, TchError> {
    let rows = apart.size().first().copied().unwrap_or(1).max(1);
    probability.f_mul(apart)?.f_sum(None::<Kind>)?.f_div_scalar(rows as f64)
}

/// MarginMSE (Hofstätter et al. 2020, "Improving Efficient Neural Ranking Models with Cross-Architecture Knowledge
/// Distillation", equation 3): the squared difference between the own and the teacher's margin of the positive over a
/// negative, the mean over all negatives of the batch.
pub fn margin_mse(own: &Tensor, teacher: &Tensor, missing: Option<&Tensor>) -> Result<Tensor, TchError> {
    shaped("the teacher's scores", teacher, &own.size())?;
    let (2, Some(candidates @ 2..)) = (own.dim(), own.size().last().copied()) else {
        return Err(TchError::Shape(format!(
            "scores must be of a positive and of negatives, got: {:?}",
            own.size()
        )));
    };
    let margins = |scores: &Tensor| {
        let scores = wide(scores)?;
        scores.f_narrow(1, 0, 1)?.f_sub(&scores.f_narrow(1, 1, candidates - 1)?)
    };
    let (own_margins, teacher_margins) = (margins(own)?, margins(&teacher.f_detach()?)?);
    let Some(missing) = missing else {
        return own_margins.f_mse_loss(&teacher_margins, Reduction::Mean);
    };
    shaped("the mask of missing candidates", missing, &own.size())?;
    let present = missing.f_narrow(1, 1, candidates - 1)?.f_logical_not()?;
    let squares = own_margins.f_sub(&teacher_margins)?.f_square()?;
    // Filled and not multiplied: what stands at a missing place may be infinite.
    let sum = squares
        .f_masked_fill(&present.f_logical_not()?, 0.0)?
        .f_sum(None::<Kind>)?;
    sum.f_div(&present.f_sum(squares.f_kind()?)?.f_clamp_min(1.0)?)
}
