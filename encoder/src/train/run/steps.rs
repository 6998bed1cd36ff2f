//! The steps of a stage, and what is due between two of them: evaluation, a checkpoint, the end.

use std::time::Duration;

use super::TrainingRun;
use crate::data::{Cursor, DataError, Prefetch, Sampler, TrainBatch};
use crate::error::Error;
use crate::train::TrainError;
use crate::train::config::{Stage, TrainedKind};
use crate::train::negatives_left::{NegativesLeft, Verdict};
use crate::train::state::TrainingState;
use crate::train::step::{Length, StepReport, TrainingStep};

/// Batches that are ready before they are asked for.
const AHEAD: usize = 4;
/// How long a batch may take.
const DEADLINE: Duration = Duration::from_mins(10);

impl TrainingRun<'_> {
    /// The loop. What is due after a step is done before the next one is begun, so that a resumed run does it too.
    pub(super) fn run_steps(
        &mut self,
        stage: &Stage,
        step: &mut TrainingStep,
        sampler: Sampler,
    ) -> Result<(), TrainError> {
        let Some(mut state) = self.state.take() else {
            return Ok(());
        };
        // A checkpoint that training resumed from need not be written again.
        let mut saved_step = (state.stage_step > 0).then_some(state.step);
        let mut prefetch = Prefetch::batches(sampler, AHEAD)?;
        let mut left = NegativesLeft::default();
        while !self.finish_step(step, &mut state, &mut saved_step)? {
            let batches = next_batches(&mut prefetch, stage.batch.accumulate)?;
            let masked = self.check_negatives(stage, &mut left, &batches, step.length())?;
            let mut report = run_step(step, &batches, state.step + 1)?;
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
            self.log.write_step(state.step, epoch, &report)?;
        }
        self.state = Some(state);
        Ok(())
    }

    /// Evaluates and saves where that is due after a step; whether the stage has ended.
    fn finish_step(
        &mut self,
        step: &mut TrainingStep,
        state: &mut TrainingState,
        saved_step: &mut Option<u64>,
    ) -> Result<bool, TrainError> {
        let config = self.config;
        let is_last = step.steps_taken() >= step.length().steps;
        let evaluates = state.stage_step > 0 && (is_last || is_due(state.step, config.evaluation.every));
        let mut saves = is_last || is_due(state.step, config.checkpoints.every);
        let mut is_interrupted = self.cancel.is_cancelled();
        if !is_interrupted && evaluates && state.evaluated != Some(state.step) {
            match self.evaluate(step, state)? {
                Some(better) => saves |= better,
                None => is_interrupted = true,
            }
        }
        let patience = config.evaluation.patience;
        let gives_up = patience > 0 && state.stale >= patience;
        let has_ended = is_last || gives_up;
        if (saves || is_interrupted || has_ended) && *saved_step != Some(state.step) && state.step > 0 {
            self.checkpoints.save(state, &step.state())?;
            *saved_step = Some(state.step);
        }
        if is_interrupted {
            return Err(TrainError::Interrupted { step: state.step });
        }
        if gives_up && let Some(best) = state.best {
            let (path, tensors) = self.checkpoints.best_tensors(best)?;
            step.restore_towers(tensors)
                .map_err(|reason| TrainError::Checkpoint { path, reason })?;
            tracing::info!(
                step = best.step,
                patience,
                "no better evaluation: going on from the best weights"
            );
        }
        Ok(has_ended)
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
        let batches_of_stage = length.steps.saturating_mul(stage.batch.accumulate as u64);
        match left.judge(length.batches.min(batches_of_stage)) {
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
}

/// Whether an action that is due at each multiple of `every` steps, or never where that is 0, is due at `step`.
fn is_due(step: u64, every: u64) -> bool {
    every > 0 && step > 0 && step.is_multiple_of(every)
}

/// Takes a step, the `number`-th of the run.
fn run_step(step: &mut TrainingStep, batches: &[TrainBatch], number: u64) -> Result<StepReport, Error> {
    step.run_all(batches).map_err(|error| match error {
        // Counted over all stages, as everything that the log names.
        Error::GradientNotFinite { norm, .. } => Error::GradientNotFinite { step: number, norm },
        other => other,
    })
}

fn next_batches(prefetch: &mut Prefetch<TrainBatch>, count: usize) -> Result<Vec<TrainBatch>, TrainError> {
    let mut batches = Vec::with_capacity(count);
    while batches.len() < count.max(1) {
        match prefetch.next(DEADLINE)? {
            Some(batch) => batches.push(batch),
            None => return Err(TrainError::Data(DataError::Lost { name: "dyad-batches" })),
        }
    }
    Ok(batches)
}
