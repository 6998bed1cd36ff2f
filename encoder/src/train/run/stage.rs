//! A stage of a run, from its beginning or from a checkpoint.

use std::path::PathBuf;

use super::TrainingRun;
use crate::data::{ExampleContext, SamplerState};
use crate::model::Model;
use crate::train::TrainError;
use crate::train::config::Stage;
use crate::train::stages::{StageMiner, check_examples, open_context, open_sampler, read_pairs};
use crate::train::state::{Checkpoints, SavedCheckpoint, TrainingState};
use crate::train::step::{Length, TrainedModel, TrainingStep};

impl TrainingRun<'_> {
    /// Trains a model by a stage, from its first step or after those of a checkpoint.
    pub(super) fn run_stage(
        &mut self,
        number: usize,
        stage: &Stage,
        trained: TrainedModel,
        saved: Option<SavedCheckpoint>,
    ) -> Result<TrainedModel, TrainError> {
        let model = &trained.model;
        let context = open_context(&stage.data, model)?;
        let mined = self.mine(stage, model, context.as_deref())?;
        let pairs = read_pairs(&stage.data, context, model.tokenizer(), mined.as_deref())?;
        check_examples(stage, &pairs)?;
        let saved_sampler = saved.as_ref().map(|saved| &saved.state.sampler);
        let sampler = open_sampler(stage, number, self.config.seed, pairs, saved_sampler)?;
        let batches = sampler.batches();
        let length = Length {
            steps: stage.training.steps(batches, stage.batch.accumulate),
            batches,
        };
        let mut step = TrainingStep::after(trained, self.directory, stage, self.compute, length)?;
        let state = match saved {
            None => self.first_state(number, sampler.state()),
            Some(saved) => self.restore(&mut step, saved)?,
        };
        self.log.begin(stage, state.stage_step, length.steps);
        self.state = Some(state);
        self.run_steps(stage, &mut step, sampler)?;
        Ok(step.into_trained())
    }

    /// The file of the stage's examples with mined negatives, where it asks for them.
    fn mine(
        &self,
        stage: &Stage,
        model: &Model,
        context: Option<&ExampleContext>,
    ) -> Result<Option<PathBuf>, TrainError> {
        let Some(config) = &stage.mine else {
            return Ok(None);
        };
        let miner = StageMiner {
            model,
            directory: self.directory,
            compute: self.compute,
            context,
            out: self.out,
            seed: self.config.seed,
        };
        self.or_interrupted(miner.mine(stage, config, self.cancel)).map(Some)
    }

    /// The state before the first step of a stage.
    fn first_state(&mut self, number: usize, sampler: SamplerState) -> TrainingState {
        let fresh = TrainingState::new(self.facts.clone(), self.fingerprint.clone(), sampler);
        let previous = self.state.take();
        let TrainingState {
            step, best, evaluated, ..
        } = previous.unwrap_or_else(|| fresh.clone());
        TrainingState {
            stage: number,
            step,
            best,
            evaluated,
            before: self.before,
            ..fresh
        }
    }

    /// Restores the weights and the optimizer of a checkpoint; gives its state.
    fn restore(&self, step: &mut TrainingStep, saved: SavedCheckpoint) -> Result<TrainingState, TrainError> {
        let SavedCheckpoint { path, state } = saved;
        let tensors = Checkpoints::read_tensors(&path)?;
        if let Err(reason) = step.restore(tensors, state.stage_step) {
            return Err(TrainError::Checkpoint { path, reason });
        }
        tracing::info!("going on after {}", path.display());
        // New settings of what does not matter are those of the next checkpoint.
        Ok(TrainingState {
            config: self.facts.clone(),
            ..state
        })
    }

    fn or_interrupted<T>(&self, result: Result<T, TrainError>) -> Result<T, TrainError> {
        let step = self.state.as_ref().map_or(0, |state| state.step);
        result.map_err(|error| {
            if self.cancel.is_cancelled() {
                TrainError::Interrupted { step }
            } else {
                error
            }
        })
    }
}
