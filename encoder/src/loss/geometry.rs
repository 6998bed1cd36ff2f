//! Geometry alignment of ENDX (Wang et al. 2021, section 3.4): who is near whom among the vectors of a batch should be
//! the same in the dual encoder's space as in the cross encoder's.
//!
//! With a kernel `K`, `p(x_j | y_i) = exp K(y_i, x_j) / sum_k exp K(y_i, x_k)` (equations 6 to 8) for the four pairings
//! of questions and answers, `i` itself included, as the equations' sums have it. The inner-product kernel gives a
//! vector's nearness to itself the whole weight when vectors are long, which is why the paper weighs question-question
//! and answer-answer terms with 1e4.
//!
//! Inner products are divided by a temperature, that of the other losses, so that all are over the same distributions;
//! the paper has none, which is a temperature of 1. Vectors of cosine are of unit length in both spaces.
//!
//! The paper does not say whether the cross encoder gets a gradient from these terms. Equation 13 read literally gives
//! it one; its words have the dual encoder "mimic" the cross encoder and "learn a dual-embeddings representation that
//! can minimize the divergence". So by default the cross-encoder branch is a fixed target;
//! [`GeometryLoss::cross_learns`] is the literal reading.

use serde::{Deserialize, Serialize};
use tch::{Kind, TchError, Tensor};

use super::distill::divergence;
use super::{GeometryWeights, Similarity, shaped};

/// The nearness of two vectors.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Kernel {
    /// Equation 10; the paper's choice, for it has no width to tune.
    #[default]
    InnerProduct,
    /// Equation 9: `exp(-|x - y|^2 / width)`, where equations 7 and 8 name the width `2 sigma^2`. Positive.
    Gaussian {
        /// A squared distance.
        width: f64,
    },
}

impl Kernel {
    /// `[b, d]` and `[b, d]` to `[b, b]`, row `i` given `given_i`.
    fn nearness(self, given: &Tensor, of: &Tensor, temperature: f64) -> Result<Tensor, TchError> {
        let products = given.f_matmul(&of.f_transpose(0, 1)?)?;
        match self {
            Self::InnerProduct => products.f_div_scalar(temperature),
            Self::Gaussian { width } => {
                let squares = |vectors: &Tensor| vectors.f_square()?.f_sum_dim_intlist(&[1i64][..], true, None::<Kind>);
                let sums = squares(given)?.f_add(&squares(of)?.f_transpose(0, 1)?)?;
                let distances = sums.f_sub(&products.f_mul_scalar(2.0)?)?.f_clamp_min(0.0)?;
                distances.f_div_scalar(-width)?.f_exp()
            }
        }
    }

    /// Equations 6 to 8: the logarithms of `p(of | given)`, a row for each given vector.
    fn log_probabilities(self, [given, of]: [&Tensor; 2], temperature: f64) -> Result<Tensor, TchError> {
        self.nearness(given, of, temperature)?.f_log_softmax(1, None::<Kind>)
    }
}

/// The matched questions and answers of a batch in one space, `[b, d]` each.
#[derive(Debug, Clone, Copy)]
pub struct MatchedPairs<'a> {
    /// Vectors of the questions.
    pub questions: &'a Tensor,
    /// Vectors of their answers, in the same order.
    pub answers: &'a Tensor,
}

/// The choices of geometry alignment.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct GeometryLoss {
    /// Nearness in the dual encoder's space.
    pub dual: Kernel,
    /// Nearness in the cross encoder's space.
    pub cross: Kernel,
    /// Gives the cross encoder a gradient too.
    pub cross_learns: bool,
}

/// The four divergences of equation 12, one number each.
#[derive(Debug)]
pub struct GeometryTerms {
    /// Answers given a question, `L_a|q`.
    pub a_q: Tensor,
    /// Questions given a question, `L_q|q`.
    pub q_q: Tensor,
    /// Questions given an answer, `L_q|a`.
    pub q_a: Tensor,
    /// Answers given an answer, `L_a|a`.
    pub a_a: Tensor,
}

impl GeometryLoss {
    /// The vectors of the cross encoder as a target, with a gradient where it learns.
    fn target(&self, vectors: &Tensor) -> Result<Tensor, TchError> {
        if self.cross_learns {
            Ok(vectors.shallow_clone())
        } else {
            vectors.f_detach()
        }
    }

    /// Equation 11 for each of the four pairings. The spaces may differ in dimension, not in the number of pairs. The
    /// temperature divides inner products; a Gaussian has its width.
    pub fn terms(
        &self,
        dual: MatchedPairs<'_>,
        cross: MatchedPairs<'_>,
        similarity: Similarity,
        temperature: f64,
    ) -> Result<GeometryTerms, TchError> {
        let pairs = dual.questions.size().first().copied().unwrap_or(0);
        for (what, vectors) in [
            ("dual answers", dual.answers),
            ("cross questions", cross.questions),
            ("cross answers", cross.answers),
        ] {
            let dim = vectors.size().last().copied().unwrap_or(0);
            shaped(what, vectors, &[pairs, dim])?;
        }
        let target = |vectors: &Tensor| similarity.prepared(&self.target(vectors)?);
        let (dual_q, dual_a) = (similarity.prepared(dual.questions)?, similarity.prepared(dual.answers)?);
        let (cross_q, cross_a) = (target(cross.questions)?, target(cross.answers)?);
        // What is given, and what is near it, in both spaces.
        let term = |dual: [&Tensor; 2], cross: [&Tensor; 2]| {
            let own = self.dual.log_probabilities(dual, temperature)?;
            let target = self.cross.log_probabilities(cross, temperature)?;
            divergence(&target.f_exp()?, &target.f_sub(&own)?)
        };
        Ok(GeometryTerms {
            a_q: term([&dual_q, &dual_a], [&cross_q, &cross_a])?,
            q_q: term([&dual_q, &dual_q], [&cross_q, &cross_q])?,
            q_a: term([&dual_a, &dual_q], [&cross_a, &cross_q])?,
            a_a: term([&dual_a, &dual_a], [&cross_a, &cross_a])?,
        })
    }
}

impl GeometryTerms {
    /// Equation 12: the weighted sum.
    pub fn weighted(&self, weights: GeometryWeights) -> Result<Tensor, TchError> {
        let GeometryWeights { a_q, q_q, q_a, a_a } = weights;
        let questions = self.a_q.f_mul_scalar(a_q)?.f_add(&self.q_q.f_mul_scalar(q_q)?)?;
        questions
            .f_add(&self.q_a.f_mul_scalar(q_a)?)?
            .f_add(&self.a_a.f_mul_scalar(a_a)?)
    }
}
