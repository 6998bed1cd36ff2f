//! The loss of a batch from its vectors: in-batch softmax, distillation, ENDX.

use tch::{Kind, TchError, Tensor};

use super::config::{DistillationConfig, DistillationKind, EndxConfig, LossConfig};
use crate::data::TrainBatch;
use crate::device::Compute;
use crate::error::{Error, torch};
use crate::loss::{GeometryTerms, InBatch, MatchedPairs, Similarity, Temperature, kl_divergence, margin_mse};
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

/// The objective of a stage.
#[derive(Debug)]
pub(super) struct Objective {
    in_batch: InBatch,
    weight: f64,
    distillation: Option<DistillationConfig>,
    endx: Option<(EndxConfig, InBatch)>,
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
        let scores = self.in_batch.similarity.scores(&vectors.questions, &vectors.answers)?;
        let softmax = self.in_batch.of_scores(&scores, excluded.as_ref())?;
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

/// The candidates that the teacher has scored, the positive first.
#[derive(Debug, PartialEq)]
struct TeacherCandidates {
    /// Questions.
    rows: Vec<i64>,
    /// Candidates of a question at most.
    width: usize,
    /// Answers, `[rows, width]`; 0 where one is missing.
    columns: Vec<i64>,
    teacher: Vec<f32>,
    missing: Vec<bool>,
}

impl TeacherCandidates {
    fn from_batch(batch: &TrainBatch) -> Option<Self> {
        let (scores, b, n) = (batch.teacher.as_ref()?, batch.questions.len(), batch.answers.len());
        let score = |row: usize, column: usize| scores.get(row * n + column).copied().filter(|score| !score.is_nan());
        let mut of_question: Vec<Vec<(usize, f32)>> = vec![Vec::new(); b];
        let owned = (0..b).chain(batch.owners.iter().copied()).enumerate();
        for (column, row) in owned {
            let scored = of_question.get_mut(row).zip(score(row, column));
            // Without a score of the positive no margin is known.
            if let Some((candidates, score)) = scored
                && (column < b || !candidates.is_empty())
            {
                candidates.push((column, score));
            }
        }
        let width = of_question.iter().map(Vec::len).max().filter(|&width| width > 1)?;
        let (mut rows, mut columns, mut teacher, mut missing) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (row, candidates) in of_question
            .iter()
            .enumerate()
            .filter(|(_, candidates)| candidates.len() > 1)
        {
            rows.push(row as i64);
            for place in 0..width {
                let candidate = candidates.get(place);
                columns.push(candidate.map_or(0, |(column, _)| *column as i64));
                teacher.push(candidate.map_or(0.0, |(_, score)| *score));
                missing.push(candidate.is_none());
            }
        }
        Some(Self {
            rows,
            width,
            columns,
            teacher,
            missing,
        })
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::data::Cursor;
    use crate::tokenize::Tokens;

    #[test]
    fn precision_at_1_counts_the_questions_that_no_other_answer_beats() {
        let scores = Tensor::from_slice(&[2.0_f32, 1.0, 0.0, 3.0, 2.0, 0.0, 1.0, 1.0, 1.0]).view([3, 3]);
        let value = |left_out: Option<&Tensor>| precision_at_1(&scores, left_out).unwrap().double_value(&[]);
        assert!((value(None) - 2.0 / 3.0).abs() < 1e-6, "a tie is no loss");
        let left_out = Tensor::from_slice(&[false, false, false, true, false, false, false, false, false]).view([3, 3]);
        assert!((value(Some(&left_out)) - 1.0).abs() < 1e-6);
    }

    fn batch(owners: Vec<usize>, b: usize, teacher: Option<Vec<f32>>) -> TrainBatch {
        let n = b + owners.len();
        TrainBatch {
            questions: vec![Tokens::default(); b],
            answers: vec![Tokens::default(); n],
            contexts: Vec::new(),
            excluded: vec![false; b * n],
            teacher,
            examples: (0..b as u32).collect(),
            cursor: Cursor::default(),
            next: Cursor { epoch: 0, position: 1 },
            owners,
        }
    }

    #[test]
    fn candidates_are_those_that_a_teacher_scored() {
        let none = f32::NAN;
        // Question 0 has two negatives, question 1 one, question 2 a negative without a score of its positive.
        let scores = [
            [5.0, none, none, 1.0, none, 2.0, none],
            [none, 4.0, none, none, 3.0, none, none],
            [none, none, none, none, none, none, 9.0],
        ];
        let batch = batch(vec![0, 1, 0, 2], 3, Some(scores.concat()));
        let found = TeacherCandidates::from_batch(&batch).unwrap();
        assert_eq!((found.rows.as_slice(), found.width), (&[0, 1][..], 3));
        assert_eq!(found.columns, [0, 3, 5, 1, 4, 0]);
        assert_eq!(found.teacher, [5.0, 1.0, 2.0, 4.0, 3.0, 0.0]);
        assert_eq!(found.missing, [false, false, false, false, false, true]);
    }

    fn config() -> LossConfig {
        LossConfig {
            similarity: Similarity::InnerProduct,
            temperature: 0.5,
            learned_temperature: false,
            symmetric: false,
            weight: 0.5,
            distillation: None,
            endx: None,
        }
    }

    fn random(rows: i64) -> Tensor {
        Tensor::arange(rows * 4, (Kind::Float, Device::Cpu))
            .sin()
            .view([rows, 4])
    }

    #[test]
    fn distillation_is_weighed_beside_the_softmax() {
        let none = f32::NAN;
        // Halved by the scale.
        let teacher = [[10.0, none, 2.0], [none, 8.0, none]].concat();
        let vectors = EmbeddedBatch {
            questions: random(2),
            answers: random(3) * 0.7,
            cross: None,
        };
        let scores = vectors.questions.matmul(&vectors.answers.transpose(0, 1));
        let score = |row: i64, column: i64| scores.double_value(&[row, column]);
        for kind in [DistillationKind::MarginMse, DistillationKind::Kl] {
            let distillation = Some(DistillationConfig {
                kind,
                weight: 2.0,
                temperature: 1.0,
                scale: 0.5,
            });
            let objective = Objective::new(
                &LossConfig {
                    distillation,
                    ..config()
                },
                &Compute::default(),
            )
            .unwrap();
            let loss = objective
                .loss(&vectors, &batch(vec![0], 2, Some(teacher.clone())), 0.0)
                .unwrap();
            let value = |name: &str| {
                loss.parts
                    .iter()
                    .find(|(part, _)| *part == name)
                    .unwrap()
                    .1
                    .double_value(&[])
            };
            let expected = match kind {
                DistillationKind::MarginMse => (score(0, 0) - score(0, 2) - 4.0).powi(2),
                DistillationKind::Kl => {
                    let p = 1.0 / (1.0 + (-4.0_f64).exp());
                    let own = 1.0 / (1.0 + (-(score(0, 0) - score(0, 2)) / 0.5).exp());
                    p * (p / own).ln() + (1.0 - p) * ((1.0 - p) / (1.0 - own)).ln()
                }
            };
            assert!(
                (value("distillation") - expected).abs() < 1e-4,
                "{kind:?} {} {expected}",
                value("distillation")
            );
            let whole = loss.whole.double_value(&[]);
            assert!(
                (whole - 0.5 * value("in-batch") - 2.0 * expected).abs() < 1e-4,
                "{kind:?}"
            );
            // Where nothing was scored, the softmax is left.
            let loss = objective.loss(&vectors, &batch(vec![0], 2, None), 0.0).unwrap();
            assert_eq!(loss.parts.len(), 1);
        }
    }
}
