//! In-batch sampled softmax: a question's own answer against all other answers of the batch.
//!
//! `L = -1/b sum_i log( exp(s_ii / tau) / sum_j exp(s_ij / tau) )` (Dong et al. 2022, section 2; Ni et al. 2022,
//! equation 1). Hard negatives are further columns, so they stand in the denominator of every question (Ni et al. 2022,
//! equation 2).

use tch::{Kind, Reduction, TchError, Tensor};

use super::{Similarity, Temperature, shaped, wide};

/// Marks no target in torch's cross entropy; every question has one.
const NO_TARGET: i64 = -100;

/// The loss and its choices.
#[derive(Debug)]
pub struct InBatch {
    /// How like a question and a document are.
    pub similarity: Similarity,
    /// Divisor of the scores.
    pub temperature: Temperature,
    /// Adds the loss from documents to questions, over the batch's positives only: a hard negative has no question of
    /// its own (Ni et al. 2022, section 3.1, after Yang et al. 2019, "Improving Multilingual Sentence Embedding using
    /// Bi-directional Dual Encoder with Additive Margin Softmax", equation 4, a sum). Each direction has its own
    /// softmax.
    pub symmetric: bool,
}

impl InBatch {
    /// The loss of questions `[b, d]` against documents `[n, d]`: the positive of each question first and in the
    /// questions' order, then any number of hard negatives. `left_out` as in [`Self::of_scores`].
    pub fn loss(&self, questions: &Tensor, documents: &Tensor, left_out: Option<&Tensor>) -> Result<Tensor, TchError> {
        self.of_scores(&self.similarity.scores(questions, documents)?, left_out)
    }

    /// The loss of scores `[b, n]`, before they are divided by the temperature.
    ///
    /// `left_out`, boolean and `[b, n]`, says which documents a question's denominator goes without: duplicates of its
    /// positive, and other known positives. Its own positive always stays. From documents to questions the same pairs
    /// are left out.
    pub fn of_scores(&self, scores: &Tensor, left_out: Option<&Tensor>) -> Result<Tensor, TchError> {
        let [questions, documents] = scores.size()[..] else {
            return Err(TchError::Shape(format!(
                "scores must be a matrix, got: {:?}",
                scores.size()
            )));
        };
        if questions == 0 || documents < questions {
            return Err(TchError::Shape(format!(
                "scores must have a column for the positive of each question, got: {questions} questions and {documents} documents"
            )));
        }
        let mut scores = self.temperature.divide(&wide(scores)?)?;
        if let Some(left_out) = left_out {
            shaped("the mask of documents to leave out", left_out, &[questions, documents])?;
            let own = Tensor::f_eye_m(questions, documents, (Kind::Bool, scores.device()))?;
            scores = scores.f_masked_fill(&left_out.f_logical_and(&own.f_logical_not()?)?, f64::NEG_INFINITY)?;
        }
        let targets = Tensor::f_arange(questions, (Kind::Int64, scores.device()))?;
        let loss = cross_entropy(&scores, &targets)?;
        if !self.symmetric {
            return Ok(loss);
        }
        let back = scores.f_narrow(1, 0, questions)?.f_transpose(0, 1)?;
        loss.f_add(&cross_entropy(&back, &targets)?)
    }
}

fn cross_entropy(scores: &Tensor, targets: &Tensor) -> Result<Tensor, TchError> {
    scores.f_cross_entropy_loss(targets, None::<Tensor>, Reduction::Mean, NO_TARGET, 0.0)
}
