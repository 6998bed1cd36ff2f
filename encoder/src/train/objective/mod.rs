//! The loss of a batch from its vectors: in-batch softmax, distillation, ENDX; of vectors of one size, or of several.

mod teacher;
#[cfg(test)]
mod tests;

use tch::{Kind, TchError, Tensor};

use teacher::TeacherCandidates;

use super::config::{DistillationConfig, DistillationKind, EndxConfig, LossConfig, MatryoshkaConfig};
use crate::data::TrainBatch;
use crate::device::Compute;
use crate::error::{Error, torch};
use crate::loss::{
    GeometryTerms, InBatch, MatchedPairs, Matryoshka, Similarity, Temperature, kl_divergence, margin_mse,
};
use crate::model::VectorLength;

/// Vectors of a batch.
#[derive(Debug)]
pub(super) struct EmbeddedBatch {
    /// `[b, d]`.
    pub(super) questions: Tensor,
    /// `[n, d]`: the positives in the questions' order, then negatives.
    pub(super) answers: Tensor,
    /// Scores of the cross-encoder branch, `[b, c]` each.
    pub(super) cross: Option<[Tensor; 2]>,
}

/// A loss, and the parts that it is the weighted sum of.
#[derive(Debug)]
pub(super) struct ObjectiveLoss {
    pub(super) whole: Tensor,
    pub(super) parts: Vec<(&'static str, Tensor)>,
    /// What is no part of it, and tells how training goes.
    pub(super) measures: Vec<(&'static str, Tensor)>,
}

impl ObjectiveLoss {
    /// All parts times a weight.
    fn scaled(self, weight: f64) -> Result<Self, TchError> {
        let scaled = |(name, part): (&'static str, Tensor)| Ok((name, part.f_mul_scalar(weight)?));
        Ok(Self {
            whole: self.whole.f_mul_scalar(weight)?,
            parts: self.parts.into_iter().map(scaled).collect::<Result<_, TchError>>()?,
            measures: self.measures,
        })
    }

    /// The sum with another one of the same parts; measures are those of the first.
    fn plus(self, other: Self) -> Result<Self, TchError> {
        let parts = self.parts.into_iter().zip(other.parts);
        let added = |((name, part), (_, other)): ((&'static str, Tensor), (_, Tensor))| Ok((name, part.f_add(&other)?));
        Ok(Self {
            whole: self.whole.f_add(&other.whole)?,
            parts: parts.map(added).collect::<Result<_, TchError>>()?,
            measures: self.measures,
        })
    }
}

/// The objective of a stage.
#[derive(Debug)]
pub(super) struct Objective {
    in_batch: InBatch,
    weight: f64,
    distillation: Option<DistillationConfig>,
    endx: Option<(EndxConfig, InBatch)>,
    /// The sizes of vectors that learn, where they are several.
    matryoshka: Option<Matryoshka>,
    /// Of the vectors as the towers give them: cut ones are of unit length again.
    similarity: Similarity,
    length: VectorLength,
}

impl Objective {
    pub(super) fn new(config: &LossConfig, compute: &Compute) -> Result<Self, Error> {
        let temperature = if config.learned_temperature {
            Temperature::learned(config.temperature, compute.torch_device())?
        } else {
            Temperature::fixed(config.temperature)?
        };
        let length = match config.similarity {
            Similarity::Cosine => VectorLength::Unit,
            Similarity::InnerProduct => VectorLength::Raw,
        };
        // As the dual encoder's vectors: one similarity and one temperature for both, and between them.
        let cross = || InBatch {
            similarity: config.similarity,
            temperature: Temperature::Fixed(config.temperature),
            symmetric: false,
        };
        Ok(Self {
            // Vectors of unit length need not be made so once more.
            in_batch: InBatch {
                similarity: Similarity::InnerProduct,
                temperature,
                symmetric: config.symmetric,
            },
            weight: config.weight,
            distillation: config.distillation,
            endx: config.endx.map(|endx| (endx, cross())),
            matryoshka: config.matryoshka.as_ref().map(MatryoshkaConfig::sizes),
            similarity: config.similarity,
            length,
        })
    }

    /// How long the vectors have to be.
    pub(super) fn length(&self) -> VectorLength {
        self.length
    }

    pub(super) fn temperature(&self) -> &Temperature {
        &self.in_batch.temperature
    }

    /// The loss, at a point of training in epochs.
    pub(super) fn loss(&self, vectors: &EmbeddedBatch, batch: &TrainBatch, epoch: f64) -> Result<ObjectiveLoss, Error> {
        self.compute(vectors, batch, epoch).map_err(torch("computing a loss"))
    }

    fn compute(&self, vectors: &EmbeddedBatch, batch: &TrainBatch, epoch: f64) -> Result<ObjectiveLoss, TchError> {
        let device = vectors.questions.device();
        let (b, n) = (batch.questions.len() as i64, batch.answers.len() as i64);
        let excluded = if batch.excludes() {
            Some(
                Tensor::f_from_slice(&batch.excluded)?
                    .f_view([b, n])?
                    .f_to_device(device)?,
            )
        } else {
            None
        };
        let excluded = excluded.as_ref();
        let Some(matryoshka) = &self.matryoshka else {
            return self.of_vectors(vectors, batch, excluded, epoch);
        };
        let mut sum: Option<ObjectiveLoss> = None;
        for size in matryoshka.sizes_at([batch.cursor.epoch, batch.cursor.position]) {
            let [questions, answers] =
                [&vectors.questions, &vectors.answers].map(|vectors| self.similarity.cut(vectors, size.dim));
            let cross = vectors
                .cross
                .as_ref()
                .map(|cross| cross.each_ref().map(Tensor::shallow_clone));
            let cut = EmbeddedBatch {
                questions: questions?,
                answers: answers?,
                cross,
            };
            let loss = self.of_vectors(&cut, batch, excluded, epoch)?.scaled(size.weight)?;
            sum = Some(match sum {
                Some(sum) => sum.plus(loss)?,
                None => loss,
            });
        }
        sum.ok_or_else(|| TchError::Shape("expected a size of vectors that learns, got: none".to_owned()))
    }

    /// The loss of vectors as they are. `excluded` is `[b, n]`.
    fn of_vectors(
        &self,
        vectors: &EmbeddedBatch,
        batch: &TrainBatch,
        excluded: Option<&Tensor>,
        epoch: f64,
    ) -> Result<ObjectiveLoss, TchError> {
        let b = batch.questions.len() as i64;
        let scores = self.in_batch.similarity.scores(&vectors.questions, &vectors.answers)?;
        let softmax = self.in_batch.of_scores(&scores, excluded)?;
        let mut parts = vec![("in-batch", softmax.shallow_clone())];
        let mut dual = if self.distillation.is_some() {
            softmax.f_mul_scalar(self.weight)?
        } else {
            softmax
        };
        if let Some(config) = &self.distillation
            && let Some(distilled) = self.distillation_loss(config, &scores, batch)?
        {
            dual = dual.f_add(&distilled.f_mul_scalar(config.weight)?)?;
            parts.push(("distillation", distilled));
        }
        let (Some((endx, in_batch)), Some([questions, answers])) = (&self.endx, &vectors.cross) else {
            return Ok(ObjectiveLoss {
                whole: dual,
                parts,
                measures: Vec::new(),
            });
        };
        let excluded_pairs = excluded.map(|excluded| excluded.f_narrow(1, 0, b)).transpose()?;
        let scores = in_batch.similarity.scores(questions, answers)?;
        let cross = in_batch.of_scores(&scores, excluded_pairs.as_ref())?;
        let first = tch::no_grad(|| precision_at_1(&scores, excluded_pairs.as_ref()))?;
        let positives = vectors.answers.f_narrow(0, 0, b)?;
        let own = MatchedPairs {
            questions: &vectors.questions,
            answers: &positives,
        };
        let cross_pairs = MatchedPairs { questions, answers };
        let temperature = in_batch.temperature.value()?;
        let terms = endx
            .geometry
            .terms(own, cross_pairs, in_batch.similarity, temperature)?;
        let geometry = terms.weighted(endx.weights.geometry_weights(epoch))?;
        let whole = endx.weights.combined(&dual, &cross, &geometry)?;
        let GeometryTerms { a_q, q_q, q_a, a_a } = terms;
        parts.extend([("cross", cross), ("geometry", geometry)]);
        parts.extend([
            ("geometry-a-q", a_q),
            ("geometry-q-q", q_q),
            ("geometry-q-a", q_a),
            ("geometry-a-a", a_a),
        ]);
        Ok(ObjectiveLoss {
            whole,
            parts,
            measures: vec![("cross-p-at-1", first)],
        })
    }

    /// The loss of distillation over the questions whose positive and at least one negative the teacher has scored;
    /// `None` where the batch has no such question.
    fn distillation_loss(
        &self,
        config: &DistillationConfig,
        scores: &Tensor,
        batch: &TrainBatch,
    ) -> Result<Option<Tensor>, TchError> {
        let Some(candidates) = TeacherCandidates::from_batch(batch) else {
            return Ok(None);
        };
        let device = scores.device();
        let shape = [candidates.rows.len() as i64, candidates.width as i64];
        let moved = |tensor: Tensor| tensor.f_view(shape)?.f_to_device(device);
        let teacher = moved(Tensor::f_from_slice(&candidates.teacher)?)?.f_mul_scalar(config.scale)?;
        let missing = moved(Tensor::f_from_slice(&candidates.missing)?)?;
        let columns = moved(Tensor::f_from_slice(&candidates.columns)?)?;
        let rows = Tensor::f_from_slice(&candidates.rows)?.f_to_device(device)?;
        let own = scores.f_index_select(0, &rows)?.f_gather(1, &columns, false)?;
        Ok(Some(match config.kind {
            DistillationKind::Kl => {
                let own = self.in_batch.temperature.divide(&own.f_to_kind(Kind::Float)?)?;
                kl_divergence(&own, &teacher, config.temperature, Some(&missing))?
            }
            DistillationKind::MarginMse => margin_mse(&own, &teacher, Some(&missing))?,
        }))
    }
}

/// Share of the questions that score no answer of the batch higher than their own, in `[b, b]`, where `left_out` are no
/// competitors.
fn precision_at_1(scores: &Tensor, left_out: Option<&Tensor>) -> Result<Tensor, TchError> {
    let own = scores.f_diagonal(0, 0, 1)?.f_unsqueeze(1)?;
    let mut beaten = scores.f_gt_tensor(&own)?;
    if let Some(left_out) = left_out {
        beaten = beaten.f_logical_and(&left_out.f_logical_not()?)?;
    }
    beaten
        .f_any_dim(1, false)?
        .f_logical_not()?
        .f_to_kind(Kind::Float)?
        .f_mean(Kind::Float)
}
