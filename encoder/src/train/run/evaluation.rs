//! Evaluation of the model of a run, before and during training.

use dyad_corpus::metrics::Evaluation;

use super::TrainingRun;
use crate::config::Tower;
use crate::error::Error;
use crate::loss::Similarity;
use crate::model::{Model, VectorLength};
use crate::tokenize::{Budget, Tokens};
use crate::train::TrainError;
use crate::train::config::{EncoderInit, TrainedKind};
use crate::train::evaluate::{Evaluator, METRICS};
use crate::train::state::{Best, TrainingState};
use crate::train::step::TrainingStep;

impl TrainingRun<'_> {
    /// Evaluates where there is something to evaluate over, and keeps the model where it is the best: whether it is;
    /// `None` when interrupted.
    pub(super) fn evaluate(
        &mut self,
        step: &TrainingStep,
        state: &mut TrainingState,
    ) -> Result<Option<bool>, TrainError> {
        let Some(evaluator) = &self.evaluator else {
            return Ok(Some(false));
        };
        let Some((measured, cut)) = self.measure(evaluator, step.model())? else {
            return Ok(None);
        };
        let value = self.criterion_value(&measured);
        let better = state.best.is_none_or(|best| value > best.value);
        state.evaluated = Some(state.step);
        if better {
            state.best = Some(Best {
                step: state.step,
                value,
            });
            state.stale = 0;
            step.model().replace(self.directory, &self.out.join("best"))?;
        } else {
            state.stale += 1;
        }
        let values = [metric_values(&measured), cut].concat();
        self.log.write_evaluation(state.step, &values, better)?;
        Ok(Some(better))
    }

    /// The value of the model that the run begins from: `model.path`, where its weights are trained; else, and where it
    /// is not there any more, the initialised model `start`. Nothing where nothing is evaluated.
    pub(super) fn measure_before(&mut self, start: &Model) -> Result<Option<Best>, TrainError> {
        let Some(evaluator) = &self.evaluator else {
            return Ok(None);
        };
        let model = &self.config.model;
        let is_trained = model.init == EncoderInit::Pretrained && model.encoder.is_none() && model.path.is_dir();
        let pretrained = if is_trained && model.sharing.is_some() {
            Some(Model::open_for_training(&model.path, self.compute)?)
        } else {
            None
        };
        let measured = self.measure(evaluator, pretrained.as_ref().unwrap_or(start))?;
        let (measured, cut) = measured.ok_or(TrainError::Interrupted { step: 0 })?;
        self.log.write_before(&[metric_values(&measured), cut].concat())?;
        let value = self.criterion_value(&measured);
        Ok(Some(Best { step: 0, value }))
    }

    /// Each of [`METRICS`] of a model, and the metric that decides of its vectors cut to each of
    /// `evaluation.dimensions`; `None` when interrupted.
    fn measure(&self, evaluator: &Evaluator, model: &Model) -> Result<Option<Measured>, TrainError> {
        let (config, compute) = (self.config, self.compute);
        let length = match config.evaluation.similarity {
            Similarity::Cosine => VectorLength::Unit,
            Similarity::InnerProduct => VectorLength::Raw,
        };
        let run = match config.model.kind {
            TrainedKind::DualEncoder => {
                let embed = |tower: Tower, texts: &[Tokens]| self.embed(model, tower, texts, length);
                let Some(vectors) = evaluator.embed(&embed, model.info().dim)? else {
                    return Ok(None);
                };
                let mut cut = Vec::new();
                for dim in &config.evaluation.dimensions {
                    let vectors = vectors.cut(*dim, config.evaluation.similarity)?;
                    let run = evaluator.search_vectors(&vectors, compute.torch_device())?;
                    let metric = config.evaluation.metric.metric();
                    let value = self.criterion_value(&evaluator.measure(&run));
                    cut.push((format!("{metric}-of-{dim}-dimensions"), value));
                }
                let run = evaluator.search_vectors(&vectors, compute.torch_device())?;
                return Ok(Some((evaluator.measure(&run), cut)));
            }
            TrainedKind::CrossEncoder => {
                // Its logits are vectors of one value.
                let score = |pairs: &[Tokens]| self.embed(model, Tower::Answer, pairs, VectorLength::Raw);
                evaluator.rerank(&self.hits, config.evaluation.depth, &model.tokenizer(), &score)?
            }
        };
        Ok(run.map(|run| (evaluator.measure(&run), Vec::new())))
    }

    /// Vectors of tokenized texts; `None` when interrupted.
    fn embed(
        &self,
        model: &Model,
        tower: Tower,
        texts: &[Tokens],
        length: VectorLength,
    ) -> Result<Option<Vec<f32>>, Error> {
        let budget = Budget::of(self.compute.device, self.compute.dtype);
        model.embed_until(tower, texts, length, budget, self.cancel)
    }

    /// The value of the metric that selects the best model.
    fn criterion_value(&self, measured: &Evaluation) -> f64 {
        let metric = self.config.evaluation.metric.metric();
        measured.mean(metric).unwrap_or_default()
    }
}

/// The metrics of a model, and values of its cut vectors by name.
type Measured = (Evaluation, Vec<(String, f64)>);

/// The value of each metric by its name.
fn metric_values(measured: &Evaluation) -> Vec<(String, f64)> {
    METRICS
        .iter()
        .map(|metric| (metric.to_string(), measured.mean(*metric).unwrap_or_default()))
        .collect()
}
