//! One step of training: forward, loss, gradients, clipping, optimizer.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use dyad_corpus::PassageContext;
use tch::{TchError, Tensor};

use super::config::Stage;
use super::objective::{Objective, ObjectiveLoss};
use super::vectors::{BatchAnswers, StepTowers};
use super::{cache, candidates};
use crate::cross::Cross;
use crate::data::TrainBatch;
use crate::device::Compute;
use crate::error::{Error, torch};
use crate::model::{Model, ModelKind, Parameter};
use crate::optim::{ClipOutcome, Clipping, Gradients, Optimizer, Schedule};

/// Prefix of the names in a checkpoint.
const PARAMETER: &str = "parameter/";
const OPTIMIZER: &str = "optimizer/";

/// How long a stage is, for schedules and the weights of ENDX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// Steps of the stage.
    pub steps: u64,
    /// Batches of an epoch.
    pub batches: u64,
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReport {
    /// The number of the step in its stage, from 1.
    pub step: u64,
    /// The mean over its batches, before the step.
    pub loss: f64,
    /// The loss's parts, not weighted.
    pub parts: Vec<(&'static str, f64)>,
    /// What else tells how it goes: of a cross encoder the share of the questions whose positive it scores best; of
    /// ENDX that share of its cross-encoder branch within the batch, and the gradients' norms of both sides.
    pub measures: Vec<(&'static str, f64)>,
    /// Norm of the gradients before clipping; `None` where they were not finite and the step was left out.
    pub norm: Option<f64>,
    /// The learning rate, with the schedule's factor and before groups; of Adafactor before a tensor's own scale.
    pub rate: f64,
    /// The temperature of the loss after the step.
    pub temperature: f64,
    /// Questions.
    pub examples: usize,
    /// Tokens of questions, of answers, and of the windows of documents in which these are read.
    pub tokens: usize,
}

/// A model that is trained.
#[derive(Debug)]
pub(super) struct TrainedModel {
    pub(super) model: Model,
    /// The cross-encoder branch of ENDX.
    pub(super) cross: Option<Cross>,
}

/// A model, what it is trained by, and where training stands.
#[derive(Debug)]
pub struct TrainingStep {
    trained: TrainedModel,
    objective: Objective,
    optimizer: Optimizer,
    parameters: Vec<Parameter>,
    /// The trained tensors, in the optimizer's order.
    tensors: Vec<Tensor>,
    /// The places of the cross-encoder branch's tensors in `tensors`, where there is a branch; those of the model come
    /// first.
    cross_places: Option<Range<usize>>,
    clipping: Clipping,
    /// Whether the gradients of each side of ENDX are clipped by their own norm.
    each_side: bool,
    schedule: Schedule,
    chunk: usize,
    late_weight: Option<f32>,
    length: Length,
    steps_taken: u64,
}

impl TrainingStep {
    /// A first step. `directory` is what `model` was opened from: an ENDX stage initialises its cross-encoder branch
    /// over it.
    pub fn new(
        model: Model,
        directory: &Path,
        stage: &Stage,
        compute: &Compute,
        length: Length,
    ) -> Result<Self, Error> {
        Self::after(TrainedModel { model, cross: None }, directory, stage, compute, length)
    }

    /// A first step after another stage, whose cross-encoder branch is kept where the settings of both are equal.
    pub(super) fn after(
        trained: TrainedModel,
        directory: &Path,
        stage: &Stage,
        compute: &Compute,
        length: Length,
    ) -> Result<Self, Error> {
        let objective = Objective::new(&stage.loss, compute)?;
        let TrainedModel { model, cross } = trained;
        if let Some(matryoshka) = &stage.loss.matryoshka {
            matryoshka.check(model.info().dim)?;
        }
        let cross = match (stage.loss.endx, cross) {
            (None, _) => None,
            (Some(endx), Some(cross)) if *cross.settings() == endx.cross => Some(cross),
            (Some(endx), _) => Some(Cross::new(&endx.cross, &model, directory, compute)?),
        };
        let first_cross = count_trained(model.parameters());
        let cross_places = cross
            .as_ref()
            .map(|cross| first_cross..first_cross + count_trained(cross.parameters()));
        let mut parameters: Vec<Parameter> = model
            .parameters()
            .iter()
            .chain(cross.iter().flat_map(Cross::parameters))
            .map(Parameter::shallow_clone)
            .collect();
        parameters.extend(objective.temperature().parameter());
        let optimizer = Optimizer::new(&stage.optimizer, &parameters, &stage.training.groups())?;
        let optimizer = optimizer.with_threads(compute.workers());
        let tensors = optimizer.tensors();
        Ok(Self {
            trained: TrainedModel { model, cross },
            objective,
            optimizer,
            parameters,
            tensors,
            cross_places,
            clipping: stage.clipping.clipping(),
            each_side: stage.clipping.each_side,
            schedule: stage.schedule,
            chunk: stage.batch.chunk,
            late_weight: stage.data.context.and_then(PassageContext::late_weight),
            length,
            steps_taken: 0,
        })
    }

    /// The model that is trained.
    pub fn model(&self) -> &Model {
        &self.trained.model
    }

    /// The model, and the cross-encoder branch of ENDX, for another stage.
    pub(super) fn into_trained(self) -> TrainedModel {
        self.trained
    }

    /// Steps taken in this stage, those included that were left out.
    pub fn steps_taken(&self) -> u64 {
        self.steps_taken
    }

    /// How long the stage is.
    pub fn length(&self) -> Length {
        self.length
    }

    /// One step with one batch.
    pub fn run(&mut self, batch: &TrainBatch) -> Result<StepReport, Error> {
        self.run_all(std::slice::from_ref(batch))
    }

    /// One step with the mean of the losses of several batches.
    pub fn run_all(&mut self, batches: &[TrainBatch]) -> Result<StepReport, Error> {
        let step = self.steps_taken + 1;
        let share = 1.0 / batches.len().max(1) as f64;
        let mut report = StepReport {
            step,
            loss: 0.0,
            parts: Vec::new(),
            measures: Vec::new(),
            norm: None,
            rate: 0.0,
            temperature: 0.0,
            examples: batches.iter().map(|batch| batch.questions.len()).sum(),
            tokens: batches.iter().map(count_tokens).sum(),
        };
        let mut sum: Option<Gradients> = None;
        for batch in batches {
            let (gradients, loss) = self.gradients(batch)?;
            add_loss(&mut report, &loss, share).map_err(torch("reading a loss"))?;
            match &mut sum {
                None => sum = Some(gradients),
                Some(sum) => sum.add(gradients).map_err(torch("adding gradients"))?,
            }
        }
        if let Some(mut gradients) = sum {
            if batches.len() > 1 {
                gradients.scale(share);
            }
            self.apply(&mut gradients, &mut report)?;
        }
        report.rate = self.optimizer.rate() * self.schedule.factor(self.steps_taken, self.length.steps);
        self.steps_taken = step;
        report.temperature = self
            .objective
            .temperature()
            .value()
            .map_err(torch("reading the temperature"))?;
        Ok(report)
    }

    /// Clips gradients and moves the parameters by them, unless the step is left out.
    fn apply(&mut self, gradients: &mut Gradients, report: &mut StepReport) -> Result<(), Error> {
        if let Some(cross) = &self.cross_places {
            let norm = |places| gradients.norm_of(places).map_err(torch("measuring gradients"));
            report.measures.extend([
                ("norm-dual", norm(0..cross.start)?),
                ("norm-cross", norm(cross.clone())?),
            ]);
        }
        let step = report.step;
        let outcome = match &self.cross_places {
            Some(cross) if self.each_side => {
                let sides = sides(cross, self.tensors.len());
                self.clipping.apply_each(gradients, &sides, step)?
            }
            _ => self.clipping.apply(gradients, step)?,
        };
        let ClipOutcome::Apply { norm } = outcome else {
            return Ok(());
        };
        let factor = self.schedule.factor(self.steps_taken, self.length.steps);
        self.optimizer.step_with(gradients, factor)?;
        self.objective
            .temperature()
            .keep_in_bounds()
            .map_err(torch("bounding the temperature"))?;
        report.norm = Some(norm);
        Ok(())
    }

    /// The gradients of a batch and its loss.
    fn gradients(&self, batch: &TrainBatch) -> Result<(Gradients, ObjectiveLoss), Error> {
        if self.trained.model.info().kind == ModelKind::CrossEncoder {
            return candidates::gradients(&self.trained.model, &self.tensors, batch, self.chunk);
        }
        let towers = StepTowers {
            model: &self.trained.model,
            cross: self.trained.cross.as_ref(),
            length: self.objective.length(),
            late_weight: self.late_weight,
        };
        let whole_epochs = batch.cursor.epoch as f64;
        let epoch = whole_epochs + batch.cursor.position as f64 / self.length.batches.max(1) as f64;
        let is_whole = self.chunk == 0 || self.chunk >= batch.questions.len().max(batch.answers.len());
        if !is_whole {
            return cache::gradients(towers, &self.objective, &self.tensors, batch, epoch, self.chunk);
        }
        let vectors = towers.embed_batch(batch)?;
        let loss = self.objective.loss(&vectors, batch, epoch)?;
        let gradients = Gradients::backward(&loss.whole, &self.tensors).map_err(torch("running backward"))?;
        Ok((gradients, loss))
    }

    /// Everything that later steps depend on, by name: the tensors themselves, not copies.
    pub(super) fn state(&self) -> Vec<(String, Tensor)> {
        let learning = self.parameters.iter().filter(|parameter| !parameter.frozen);
        let parameters =
            learning.map(|parameter| (PARAMETER, parameter.name.clone(), parameter.tensor.shallow_clone()));
        let optimizer = self.optimizer.state();
        let entries = optimizer.into_iter().map(|(name, tensor)| (OPTIMIZER, name, tensor));
        parameters
            .chain(entries)
            .map(|(prefix, name, tensor)| (format!("{prefix}{name}"), tensor))
            .collect()
    }

    /// Restores a state after `taken` steps; the error says what does not fit, and then nothing is changed.
    pub(super) fn restore(&mut self, mut state: BTreeMap<String, Tensor>, taken: u64) -> Result<(), String> {
        let pairs = match_saved(&self.parameters, &mut state)?;
        let mut entries = Vec::new();
        for (name, tensor) in state {
            match name.strip_prefix(OPTIMIZER) {
                Some(entry) => entries.push((entry.to_owned(), tensor)),
                None => return Err(format!("tensor `{name}` has no place: it is of another architecture")),
            }
        }
        self.optimizer.restore(&entries).map_err(|error| error.to_string())?;
        copy_saved(pairs)?;
        self.steps_taken = taken;
        Ok(())
    }

    /// Gives the towers alone the weights of another checkpoint of the run; the error says what does not fit.
    pub(super) fn restore_towers(&mut self, mut state: BTreeMap<String, Tensor>) -> Result<(), String> {
        copy_saved(match_saved(self.trained.model.parameters(), &mut state)?)
    }
}

fn count_trained(parameters: &[Parameter]) -> usize {
    parameters.iter().filter(|parameter| !parameter.frozen).count()
}

/// Tensors that learn, each with its saved value, which is taken out of `state`.
fn match_saved(
    parameters: &[Parameter],
    state: &mut BTreeMap<String, Tensor>,
) -> Result<Vec<(Tensor, Tensor)>, String> {
    let mut pairs = Vec::new();
    for Parameter { name, tensor, .. } in parameters.iter().filter(|parameter| !parameter.frozen) {
        let Some(saved) = state.remove(&format!("{PARAMETER}{name}")) else {
            return Err(format!("tensor `{name}` is missing: it is of another architecture"));
        };
        let shown = |tensor: &Tensor| format!("{:?} {:?}", tensor.kind(), tensor.size());
        let (expected, got) = (shown(tensor), shown(&saved));
        if expected != got {
            return Err(format!(
                "tensor `{name}` must be {expected}, got: {got}. It is of another architecture"
            ));
        }
        pairs.push((tensor.shallow_clone(), saved));
    }
    Ok(pairs)
}

fn copy_saved(mut pairs: Vec<(Tensor, Tensor)>) -> Result<(), String> {
    let copied = tch::no_grad(|| {
        pairs
            .iter_mut()
            .try_for_each(|(own, saved)| own.f_copy_(saved).map(drop))
    });
    copied.map_err(|error: TchError| error.to_string())
}

/// Tokens that a batch reads.
fn count_tokens(batch: &TrainBatch) -> usize {
    let questions: usize = batch.questions.iter().map(|question| question.ids.len()).sum();
    questions + BatchAnswers::select(batch, 0..batch.answers.len()).count_tokens()
}

fn add_loss(report: &mut StepReport, loss: &ObjectiveLoss, share: f64) -> Result<(), TchError> {
    report.loss += loss.whole.f_double_value(&[])? * share;
    for (means, values) in [(&mut report.parts, &loss.parts), (&mut report.measures, &loss.measures)] {
        for (name, value) in values {
            let value = value.f_double_value(&[])? * share;
            match means.iter_mut().find(|(known, _)| known == name) {
                Some((_, mean)) => *mean += value,
                None => means.push((name, value)),
            }
        }
    }
    Ok(())
}

/// What is clipped on its own: the towers, the cross-encoder branch, and a learned temperature, which comes after both.
fn sides(cross: &Range<usize>, tensors: usize) -> [Range<usize>; 3] {
    [0..cross.start, cross.clone(), cross.end..tensors]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gradient_is_clipped_with_one_side() {
        for tensors in [9, 10] {
            let places: Vec<usize> = sides(&(4..9), tensors).into_iter().flatten().collect();
            assert_eq!(places, (0..tensors).collect::<Vec<_>>());
        }
    }
}
