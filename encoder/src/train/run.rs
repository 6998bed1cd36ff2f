//! A whole run: stages one after another, with evaluation, checkpoints and log; and how it resumes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_command::JobCancellation;
use dyad_corpus::metrics::Evaluation;
use dyad_corpus::run::TrecRun;
use dyad_files::AtomicDir;

use super::TrainError;
use super::began::Began;
use super::config::{Config, EncoderInit, Stage, TrainedKind};
use super::evaluate::{Evaluator, METRICS};
use super::log::RunLog;
use super::negatives_left::{NegativesLeft, Verdict};
use super::publish::{lock, start};
use super::stages::{StageMiner, check, context, pairs, sampler, suits};
use super::state::{Best, Checkpoints, TrainingState};
use super::step::{Length, TrainingStep};
use crate::config::Tower;
use crate::cross::Cross;
use crate::data::{Cursor, DataError, Prefetch, Sampler, TrainBatch};
use crate::device::Compute;
use crate::error::Error;
use crate::loss::Similarity;
use crate::model::{Model, VectorLength, check_whole};
use crate::tokenize::{Budget, Tokens};

/// Batches that are ready before they are asked for.
const AHEAD: usize = 4;
/// How long a batch may take.
const DEADLINE: Duration = Duration::from_mins(10);

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingOutcome {
    /// Steps in all.
    pub steps: u64,
    /// The model as it is after the last step; the best one where `patience` ended the last stage.
    pub last: PathBuf,
    /// The best model, its steps and its value; nothing where nothing was evaluated.
    pub best: Option<(PathBuf, u64, f64)>,
    /// The value of the model that the run began from.
    pub before: Option<f64>,
    /// Nothing was left to do.
    pub was_finished: bool,
}

/// Trains by `config` in directory `out`, and goes on there where an earlier call was ended. `interrupted` is looked at
/// between steps: once it is set, the run is saved and ends with [`TrainError::Interrupted`].
pub fn train(config: &Config, out: &Path, cancel: &JobCancellation) -> Result<TrainingOutcome, TrainError> {
    let _lock = lock(out)?;
    let facts = config.facts().map_err(std::io::Error::from)?;
    let checkpoints = Checkpoints::of(out, config.checkpoints.keep);
    let saved = checkpoints.last()?;
    let [last, best] = ["final", "best"].map(|name| out.join(name));
    AtomicDir::recover(&last)?;
    AtomicDir::recover(&best)?;
    let began = Began::of(out, &facts, saved.as_ref().map(|(_, state)| state))?;
    let outcome = |state: &TrainingState, was_finished: bool| {
        let found = state.best.map(|found| (best.clone(), found.step, found.value));
        if let Some((best, before)) = state.best.zip(state.before)
            && best.value < before.value
        {
            tracing::warn!(
                best = best.value,
                before = before.value,
                "no model of this run is better than the one that it began from"
            );
        }
        let before = state.before.map(|before| before.value);
        TrainingOutcome {
            steps: state.step,
            last: last.clone(),
            best: found,
            before,
            was_finished,
        }
    };
    if let Some((_, state)) = &saved
        && last.exists()
    {
        match check_whole(&last) {
            Ok(()) => return Ok(outcome(state, true)),
            Err(error) => tracing::warn!(%error, "`final` is not whole: it is written again from the last checkpoint"),
        }
    }
    let first = saved.as_ref().map_or(0, |(_, state)| state.stage);
    for (number, stage) in config.stages.iter().enumerate().skip(first) {
        check(stage, number > first)?;
    }
    began.write(out)?;
    let directory = start(config, out)?;
    let compute = config.compute();
    let mut learned = match config.model.kind {
        TrainedKind::DualEncoder => Model::open_for_training(&directory, &compute)?,
        TrainedKind::CrossEncoder => Model::open_cross_encoder_for_training(&directory, &compute)?,
    };
    let model = learned.info().fingerprint.clone();
    began.with_model(out, &model)?.write(out)?;
    let evaluator = match &config.evaluation.data {
        Some(data) => Some(Evaluator::open_in(
            &config.evaluation.context(),
            data,
            &config.evaluation.split,
            &learned,
        )?),
        None => None,
    };
    let hits = match &config.evaluation.run {
        Some(path) => dyad_corpus::run::read(path).map_err(DataError::from)?,
        None => TrecRun::new(),
    };
    let log = RunLog::open(out, config.log, saved.as_ref().map(|(_, state)| state.step))?;
    let mut run = TrainingRun {
        config,
        out,
        directory: &directory,
        compute: &compute,
        cancel,
        facts,
        model,
        checkpoints,
        evaluator,
        hits,
        log,
        before: saved.as_ref().and_then(|(_, state)| state.before),
        state: None,
    };
    if saved.is_none() {
        run.before = run.measure_before(&learned)?;
    }
    let mut saved = saved;
    let mut cross = None;
    for (number, stage) in config.stages.iter().enumerate().skip(first) {
        (learned, cross) = run.stage(number, stage, (learned, cross), saved.take())?;
    }
    learned.replace(&directory, &last)?;
    // There is at least one stage, and each leaves its state.
    let nothing = || TrainingOutcome {
        steps: 0,
        last: last.clone(),
        best: None,
        before: None,
        was_finished: false,
    };
    Ok(run.state.as_ref().map_or_else(nothing, |state| outcome(state, false)))
}

struct TrainingRun<'a> {
    config: &'a Config,
    /// Its directory.
    out: &'a Path,
    /// The model's directory.
    directory: &'a Path,
    compute: &'a Compute,
    cancel: &'a JobCancellation,
    facts: String,
    model: String,
    checkpoints: Checkpoints,
    evaluator: Option<Evaluator>,
    /// What a cross encoder reranks.
    hits: TrecRun,
    log: RunLog,
    /// The model that the run began from.
    before: Option<Best>,
    state: Option<TrainingState>,
}

impl TrainingRun<'_> {
    fn is_interrupted(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Runs a stage, from its begin or from a checkpoint.
    fn stage(
        &mut self,
        number: usize,
        stage: &Stage,
        (learned, cross): (Model, Option<Cross>),
        saved: Option<(PathBuf, TrainingState)>,
    ) -> Result<(Model, Option<Cross>), TrainError> {
        let Self {
            config,
            out,
            directory,
            compute,
            cancel,
            ..
        } = *self;
        let context = context(&stage.data, &learned)?;
        let mined = match &stage.mine {
            None => None,
            Some(mine) => {
                let go_on = || !cancel.is_cancelled();
                let context = context.as_deref();
                let miner = StageMiner {
                    learned: &learned,
                    directory,
                    compute,
                    context,
                    out,
                    seed: config.seed,
                };
                Some(self.or_interrupted(miner.mine(stage, mine, &go_on))?)
            }
        };
        let pairs = pairs(&stage.data, context, learned.tokenizer(), mined.as_deref())?;
        suits(stage, &pairs)?;
        let of_checkpoint = saved.as_ref().map(|(_, state)| &state.sampler);
        let sampler = sampler(stage, number, config.seed, pairs, of_checkpoint)?;
        let batches = sampler.batches();
        let length = Length {
            steps: stage.training.steps(batches, stage.batch.accumulate),
            batches,
        };
        let mut step = TrainingStep::after(cross, learned, directory, stage, compute, length)?;
        let state = match saved {
            None => {
                let fresh = TrainingState::new(self.facts.clone(), self.model.clone(), sampler.state());
                let TrainingState {
                    step, best, evaluated, ..
                } = self.state.take().unwrap_or_else(|| fresh.clone());
                TrainingState {
                    stage: number,
                    step,
                    best,
                    evaluated,
                    before: self.before,
                    ..fresh
                }
            }
            Some((path, state)) => {
                let tensors = Checkpoints::tensors(&path)?;
                let restored = step.restore(tensors, state.stage_step);
                restored.map_err(|reason| TrainError::Checkpoint {
                    path: path.clone(),
                    reason,
                })?;
                tracing::info!("going on after {}", path.display());
                // New settings of what does not matter are those of the next checkpoint.
                TrainingState {
                    config: self.facts.clone(),
                    ..state
                }
            }
        };
        self.log.begin(stage, state.stage_step, length.steps);
        self.state = Some(state);
        self.steps(stage, &mut step, sampler)?;
        Ok(step.into_learned())
    }

    fn or_interrupted<T>(&self, result: Result<T, TrainError>) -> Result<T, TrainError> {
        let step = self.state.as_ref().map_or(0, |state| state.step);
        result.map_err(|error| {
            if self.is_interrupted() {
                TrainError::Interrupted { step }
            } else {
                error
            }
        })
    }

    /// The loop. What is due after a step is done before the next one is begun, so that a run that goes on does it too.
    fn steps(&mut self, stage: &Stage, step: &mut TrainingStep, sampler: Sampler) -> Result<(), TrainError> {
        let config = self.config;
        let Some(mut state) = self.state.take() else {
            return Ok(());
        };
        // A checkpoint that training went on from need not be written again.
        let mut stored = (state.stage_step > 0).then_some(state.step);
        let mut prefetch = Prefetch::batches(sampler, AHEAD)?;
        let mut left = NegativesLeft::default();
        loop {
            let ended = step.taken() >= step.length().steps;
            let due = |every: u64| every > 0 && state.step > 0 && state.step.is_multiple_of(every);
            let evaluate = state.stage_step > 0 && (ended || due(config.evaluation.every));
            let mut save = ended || due(config.checkpoints.every);
            let mut stop = self.is_interrupted();
            if !stop && evaluate && state.evaluated != Some(state.step) {
                match self.evaluate(step, &mut state)? {
                    Some(better) => save |= better,
                    None => stop = true,
                }
            }
            let patience = config.evaluation.patience;
            let given_up = patience > 0 && state.stale >= patience;
            let ended = ended || given_up;
            if (save || stop || ended) && stored != Some(state.step) && state.step > 0 {
                self.checkpoints.save(&state, &step.state())?;
                stored = Some(state.step);
            }
            if stop {
                return Err(TrainError::Interrupted { step: state.step });
            }
            if given_up && let Some(best) = state.best {
                let (path, tensors) = self.checkpoints.best_tensors(best)?;
                step.restore_towers(tensors)
                    .map_err(|reason| TrainError::Checkpoint { path, reason })?;
                tracing::info!(
                    step = best.step,
                    patience,
                    "no better evaluation: going on from the best weights"
                );
            }
            if ended {
                break;
            }
            let batches = next(&mut prefetch, stage.batch.accumulate)?;
            let masked = self.check_negatives(stage, &mut left, &batches, step.length())?;
            let mut report = step.run_all(&batches).map_err(|error| match error {
                // Counted over all stages, as everything that the log names.
                Error::GradientNotFinite { norm, .. } => Error::GradientNotFinite {
                    step: state.step + 1,
                    norm,
                },
                other => other,
            })?;
            if masked > 0.0 {
                report.measures.push(("masked-negatives", masked));
            }
            state.step += 1;
            state.stage_step = report.step;
            if let Some(last) = batches.last() {
                state.sampler.cursor = last.next;
            }
            let Cursor { epoch, position } = state.sampler.cursor;
            let epoch = epoch as f64 + position as f64 / step.length().batches.max(1) as f64;
            self.log.step(state.step, epoch, &report)?;
        }
        self.state = Some(state);
        Ok(())
    }

    /// The share of the negatives of these batches that are masked; an error where nothing is left to learn from.
    fn check_negatives(
        &self,
        stage: &Stage,
        left: &mut NegativesLeft,
        batches: &[TrainBatch],
        length: Length,
    ) -> Result<f64, TrainError> {
        // A cross encoder learns from the candidates of each question alone.
        if self.config.model.kind == TrainedKind::CrossEncoder {
            return Ok(0.0);
        }
        let masked = left.add(batches);
        let of_stage = length.steps.saturating_mul(stage.batch.accumulate as u64);
        match left.judge(length.batches.min(of_stage)) {
            Some(Verdict::Nothing) if stage.loss.distillation.is_some() || stage.loss.endx.is_some() => tracing::warn!(
                stage = stage.name,
                "no question has had a negative in its batch: all answers of a batch are the same text, or answer every question of it. Only the other terms of the loss teach anything"
            ),
            Some(Verdict::Nothing) => {
                return Err(TrainError::NothingToLearn {
                    stage: stage.name.clone(),
                    batches: left.batches(),
                });
            }
            Some(Verdict::Masked(share)) => tracing::warn!(
                stage = stage.name,
                "{:.0} % of the negatives in batches are masked, because their answers are the same text or answer the question too: the stage learns from the others alone",
                share * 100.0
            ),
            None => {}
        }
        Ok(masked)
    }

    /// Evaluates where there is something to evaluate over, and keeps the model where it is the best: whether it is;
    /// `None` when interrupted.
    fn evaluate(&mut self, step: &TrainingStep, state: &mut TrainingState) -> Result<Option<bool>, TrainError> {
        let Some(evaluator) = &self.evaluator else {
            return Ok(Some(false));
        };
        let Some(measured) = self.measure(evaluator, step.learned())? else {
            return Ok(None);
        };
        let value = measured
            .mean(self.config.evaluation.metric.metric())
            .unwrap_or_default();
        let better = state.best.is_none_or(|best| value > best.value);
        state.evaluated = Some(state.step);
        if better {
            state.best = Some(Best {
                step: state.step,
                value,
            });
            state.stale = 0;
            step.learned().replace(self.directory, &self.out.join("best"))?;
        } else {
            state.stale += 1;
        }
        self.log.evaluation(state.step, &named(&measured), better)?;
        Ok(Some(better))
    }

    /// Each of [`METRICS`] of a model; `None` when interrupted.
    fn measure(&self, evaluator: &Evaluator, learned: &Model) -> Result<Option<Evaluation>, TrainError> {
        let Self {
            config,
            compute,
            cancel,
            ..
        } = *self;
        let length = match config.evaluation.similarity {
            Similarity::Cosine => VectorLength::Unit,
            Similarity::InnerProduct => VectorLength::Raw,
        };
        let budget = Budget::of(compute.device, compute.dtype);
        let go_on = || !cancel.is_cancelled();
        let found = match config.model.kind {
            TrainedKind::DualEncoder => {
                let embed =
                    |tower: Tower, texts: &[Tokens]| learned.embed_while(tower, texts, length, budget, |_| go_on());
                evaluator.search(&embed, learned.info().dim, compute.torch_device())?
            }
            TrainedKind::CrossEncoder => {
                // Its logits are vectors of one value.
                let score = |pairs: &[Tokens]| {
                    learned.embed_while(Tower::Answer, pairs, VectorLength::Raw, budget, |_| go_on())
                };
                evaluator.rerank(&self.hits, config.evaluation.depth, &learned.tokenizer(), &score)?
            }
        };
        Ok(found.map(|found| evaluator.measure(&found)))
    }

    /// The value of the model that the run begins from: `model.path`, where its weights are trained; else, and where it
    /// is not there any more, the initialised model `start`. Nothing where nothing is evaluated.
    fn measure_before(&mut self, start: &Model) -> Result<Option<Best>, TrainError> {
        let Some(evaluator) = &self.evaluator else {
            return Ok(None);
        };
        let model = &self.config.model;
        let is_trained = model.init == EncoderInit::Pretrained && model.encoder.is_none() && model.path.is_dir();
        let from = if is_trained && model.sharing.is_some() {
            Some(Model::open_for_training(&model.path, self.compute)?)
        } else {
            None
        };
        let measured = self.measure(evaluator, from.as_ref().unwrap_or(start))?;
        let measured = measured.ok_or(TrainError::Interrupted { step: 0 })?;
        self.log.before(&named(&measured))?;
        let value = measured
            .mean(self.config.evaluation.metric.metric())
            .unwrap_or_default();
        Ok(Some(Best { step: 0, value }))
    }
}

fn named(measured: &Evaluation) -> Vec<(String, f64)> {
    METRICS
        .iter()
        .map(|metric| (metric.to_string(), measured.mean(*metric).unwrap_or_default()))
        .collect()
}

fn next(prefetch: &mut Prefetch<TrainBatch>, count: usize) -> Result<Vec<TrainBatch>, TrainError> {
    let mut batches = Vec::with_capacity(count);
    while batches.len() < count.max(1) {
        match prefetch.next(DEADLINE)? {
            Some(batch) => batches.push(batch),
            None => return Err(TrainError::Data(DataError::Lost { name: "dyad-batches" })),
        }
    }
    Ok(batches)
}
