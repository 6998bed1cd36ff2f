//! A whole run: stages one behind another, with evaluation, checkpoints and log; and how it goes on where it was ended.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dyad_corpus::metrics::Metric;

use super::TrainError;
use super::config::{Config, Stage, difference};
use super::evaluate::{Evaluator, METRICS};
use super::log::RunLog;
use super::publish::{lock, recover, replace, start};
use super::stages::{Miner, check, pairs, sampler};
use super::state::{Best, Checkpoints, State};
use super::step::{Length, Step};
use crate::data::{Cursor, DataError, Prefetch, Sampler, TrainBatch};
use crate::device::Compute;
use crate::dual::Learned;
use crate::error::Error;
use crate::loss::Similarity;
use crate::tokenize::{Budget, Tokens};
use crate::tower::{Tower, VectorLength};

/// Batches that are ready before they are asked for.
const AHEAD: usize = 4;
/// How long a batch may take.
const DEADLINE: Duration = Duration::from_mins(10);

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Steps in all.
    pub steps: u64,
    /// The model as it is behind the last step.
    pub last: PathBuf,
    /// The best model, its steps and its value; nothing where nothing was evaluated.
    pub best: Option<(PathBuf, u64, f64)>,
    /// Nothing was left to do.
    pub was_finished: bool,
}

/// Trains by `config` in directory `out`, and goes on there where an earlier call was ended. `interrupted` is looked at between
/// steps: once it is set, the run is saved and ends with [`TrainError::Interrupted`].
pub fn train(config: &Config, out: &Path, interrupted: &AtomicBool) -> Result<Outcome, TrainError> {
    let _lock = lock(out)?;
    let facts = config.facts().map_err(std::io::Error::from)?;
    let checkpoints = Checkpoints::of(out, config.checkpoints.keep);
    let saved = checkpoints.last()?;
    if let Some((_, state)) = &saved
        && let Some((setting, then, now)) = difference(&state.config, &facts)
    {
        return Err(TrainError::OtherSetting { path: out.to_owned(), setting, then, now });
    }
    let [last, best] = ["final", "best"].map(|name| out.join(name));
    recover(&last)?;
    recover(&best)?;
    let found = |state: &State| state.best.map(|found| (best.clone(), found.step, found.value));
    if let Some((_, state)) = &saved
        && last.exists()
    {
        return Ok(Outcome { steps: state.step, last, best: found(state), was_finished: true });
    }
    let first = saved.as_ref().map_or(0, |(_, state)| state.stage);
    for (number, stage) in config.stages.iter().enumerate().skip(first) {
        check(stage, number > first)?;
    }
    let directory = start(config, out)?;
    let compute = config.compute();
    let mut learned = Learned::open(&directory, &compute)?;
    let model = learned.fingerprint().to_owned();
    if let Some((path, state)) = &saved
        && state.model != model
    {
        let reason = format!(
            "it began from a model with fingerprint {}, `{}` has {model}. Begin from the same model, or name another directory",
            state.model,
            directory.display()
        );
        return Err(TrainError::Checkpoint { path: path.clone(), reason });
    }
    let evaluator = match &config.evaluation.data {
        Some(data) => Some(Evaluator::open(data, &config.evaluation.split, &learned.tokenizer())?),
        None => None,
    };
    let log = RunLog::open(out, config.log, saved.as_ref().map_or(0, |(_, state)| state.step))?;
    let mut run = Run {
        config,
        out,
        directory: &directory,
        compute: &compute,
        interrupted,
        facts,
        model,
        checkpoints,
        evaluator,
        log,
        state: None,
    };
    let mut saved = saved;
    for (number, stage) in config.stages.iter().enumerate().skip(first) {
        learned = run.stage(number, stage, learned, saved.take())?;
    }
    replace(&learned, &directory, &last)?;
    let state = run.state.as_ref();
    let best = state.and_then(found);
    Ok(Outcome { steps: state.map_or(0, |state| state.step), last, best, was_finished: false })
}

struct Run<'a> {
    config: &'a Config,
    /// Its directory.
    out: &'a Path,
    /// What the model was opened from.
    directory: &'a Path,
    compute: &'a Compute,
    interrupted: &'a AtomicBool,
    facts: String,
    model: String,
    checkpoints: Checkpoints,
    evaluator: Option<Evaluator>,
    log: RunLog,
    state: Option<State>,
}

impl Run<'_> {
    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Runs a stage, from its begin or from a checkpoint.
    fn stage(
        &mut self,
        number: usize,
        stage: &Stage,
        learned: Learned,
        saved: Option<(PathBuf, State)>,
    ) -> Result<Learned, TrainError> {
        let Self { config, out, directory, compute, interrupted, .. } = *self;
        let mined = match &stage.mine {
            None => None,
            Some(mine) => {
                let go_on = || !interrupted.load(Ordering::Relaxed);
                let miner = Miner { learned: &learned, directory, compute, out, seed: config.seed };
                Some(self.or_interrupted(miner.mine(stage, mine, &go_on))?)
            }
        };
        let pairs = pairs(&stage.data, learned.tokenizer(), mined.as_deref())?;
        if stage.loss.distillation.is_some() && !pairs.has_scores() {
            let expected = "scored by a teacher where `loss.distillation` is to learn from it".to_owned();
            let what = "the examples of the stage";
            return Err(DataError::Option { what, expected, got: "no score".to_owned() }.into());
        }
        let of_checkpoint = saved.as_ref().map(|(_, state)| &state.sampler);
        let sampler = sampler(stage, number, config.seed, pairs, of_checkpoint)?;
        let batches = sampler.batches();
        let length = Length { steps: stage.training.steps(batches, stage.batch.accumulate), batches };
        let mut step = Step::new(learned, directory, stage, compute, length)?;
        let state = match saved {
            None => {
                let fresh = State::new(self.facts.clone(), self.model.clone(), sampler.state());
                let State { step, best, evaluated, .. } = self.state.take().unwrap_or_else(|| fresh.clone());
                State { stage: number, step, best, evaluated, ..fresh }
            }
            Some((path, state)) => {
                let tensors = Checkpoints::tensors(&path)?;
                let restored = step.restore(tensors, state.stage_step);
                restored.map_err(|reason| TrainError::Checkpoint { path: path.clone(), reason })?;
                tracing::info!("going on behind {}", path.display());
                // New settings of what does not matter are those of the next checkpoint.
                State { config: self.facts.clone(), ..state }
            }
        };
        self.log.begin(stage, state.stage_step, length.steps);
        self.state = Some(state);
        self.steps(stage, &mut step, sampler)?;
        Ok(step.into_learned())
    }

    fn or_interrupted<T>(&self, result: Result<T, TrainError>) -> Result<T, TrainError> {
        let step = self.state.as_ref().map_or(0, |state| state.step);
        result.map_err(|error| if self.is_interrupted() { TrainError::Interrupted { step } } else { error })
    }

    /// The loop. What is due behind a step is done before the next one is begun, so that a run that goes on does it too.
    fn steps(&mut self, stage: &Stage, step: &mut Step, sampler: Sampler) -> Result<(), TrainError> {
        let config = self.config;
        let Some(mut state) = self.state.take() else { return Ok(()) };
        // A checkpoint that training went on from need not be written again.
        let mut stored = (state.stage_step > 0).then_some(state.step);
        let mut prefetch = Prefetch::batches(sampler, AHEAD)?;
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
            let ended = ended || (patience > 0 && state.stale >= patience);
            if (save || stop || ended) && stored != Some(state.step) && state.step > 0 {
                self.checkpoints.save(&state, &step.state())?;
                stored = Some(state.step);
            }
            if stop {
                return Err(TrainError::Interrupted { step: state.step });
            }
            if ended {
                break;
            }
            let batches = next(&mut prefetch, stage.batch.accumulate)?;
            let report = step.run_all(&batches).map_err(|error| match error {
                // Counted over all stages, as everything that the log names.
                Error::GradientNotFinite { norm, .. } => Error::GradientNotFinite { step: state.step + 1, norm },
                other => other,
            })?;
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

    /// Evaluates where there is something to evaluate over, and keeps the model where it is the best: whether it is; `None` when
    /// interrupted.
    fn evaluate(&mut self, step: &Step, state: &mut State) -> Result<Option<bool>, TrainError> {
        let Some(evaluator) = &self.evaluator else { return Ok(Some(false)) };
        let Self { config, out, directory, compute, interrupted, .. } = *self;
        let length = match config.evaluation.similarity {
            Similarity::Cosine => VectorLength::Unit,
            Similarity::InnerProduct => VectorLength::Raw,
        };
        let (learned, budget) = (step.learned(), Budget::of(compute.device, compute.dtype));
        let go_on = || !interrupted.load(Ordering::Relaxed);
        let embed = |tower: Tower, texts: &[Tokens]| learned.embed_all(tower, texts, length, budget, &go_on);
        let Some(found) = evaluator.search(&embed, learned.dim(), compute.torch_device())? else { return Ok(None) };
        let measured = evaluator.measure(&found);
        let value = measured.mean(config.evaluation.metric.metric()).unwrap_or_default();
        let better = state.best.is_none_or(|best| value > best.value);
        state.evaluated = Some(state.step);
        if better {
            state.best = Some(Best { step: state.step, value });
            state.stale = 0;
            replace(learned, directory, &out.join("best"))?;
        } else {
            state.stale += 1;
        }
        let named = |metric: &Metric| (metric.to_string(), measured.mean(*metric).unwrap_or_default());
        self.log.evaluation(state.step, &METRICS.iter().map(named).collect::<Vec<_>>(), better)?;
        Ok(Some(better))
    }
}

fn next(prefetch: &mut Prefetch<TrainBatch>, count: usize) -> Result<Vec<TrainBatch>, TrainError> {
    let mut batches = Vec::with_capacity(count);
    while batches.len() < count.max(1) {
        match prefetch.next(DEADLINE)? {
            Some(batch) => batches.push(batch),
            None => return Err(TrainError::Data(crate::data::DataError::Lost { name: "dyad-batches" })),
        }
    }
    Ok(batches)
}
