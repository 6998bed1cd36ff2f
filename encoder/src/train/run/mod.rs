//! A whole run: stages one after another, with evaluation, checkpoints and log; and how it resumes.
//!
//! | file | what |
//! |---|---|
//! | `stage.rs` | a stage, from its beginning or from a checkpoint |
//! | `steps.rs` | the steps of a stage, and what is due between two of them |
//! | `evaluation.rs` | evaluation of the model, before and during training |

mod evaluation;
mod stage;
mod steps;

use std::path::{Path, PathBuf};

use dyad_command::JobCancellation;
use dyad_corpus::run::TrecRun;
use dyad_files::AtomicDir;

use super::TrainError;
use super::config::{Config, TrainedKind};
use super::evaluate::Evaluator;
use super::log::RunLog;
use super::publish::{initial_model, lock};
use super::run_record::RunRecord;
use super::stages::check_stage;
use super::state::{Best, Checkpoints, TrainingState};
use super::step::TrainedModel;
use crate::data::DataError;
use crate::device::Compute;
use crate::model::{Model, check_whole};

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
    /// Whether an earlier call had finished the run, so that nothing was left to do.
    pub was_finished: bool,
}

/// Trains by `config` in directory `out`, and resumes there where an earlier call was interrupted. `cancel` is looked
/// at between steps: once it is set, the run is saved and ends with [`TrainError::Interrupted`].
pub fn train(config: &Config, out: &Path, cancel: &JobCancellation) -> Result<TrainingOutcome, TrainError> {
    let _lock = lock(out)?;
    let facts = config.facts().map_err(std::io::Error::from)?;
    let checkpoints = Checkpoints::in_run(out, config.checkpoints.keep);
    let mut saved = checkpoints.last()?;
    let models = OutputModels::recover(out)?;
    let record = RunRecord::begin(out, &facts, saved.as_ref().map(|saved| &saved.state))?;
    if let Some(saved) = &saved
        && models.last.exists()
    {
        match check_whole(&models.last) {
            Ok(()) => return Ok(models.outcome(&saved.state, true)),
            Err(error) => tracing::warn!(%error, "`final` is not whole: it is written again from the last checkpoint"),
        }
    }
    let first = saved.as_ref().map_or(0, |saved| saved.state.stage);
    for (number, stage) in config.stages.iter().enumerate().skip(first) {
        check_stage(stage, number > first)?;
    }
    record.write(out)?;
    let directory = initial_model(config, out)?;
    let compute = config.compute();
    let model = match (&config.model.lora, config.model.kind) {
        (Some(lora), _) => Model::open_for_adapters(&directory, &compute, lora, config.seed)?,
        (None, TrainedKind::DualEncoder) => Model::open_for_training(&directory, &compute)?,
        (None, TrainedKind::CrossEncoder) => Model::open_cross_encoder_for_training(&directory, &compute)?,
    };
    let fingerprint = model.info().fingerprint.clone();
    record.with_model(out, &fingerprint)?.write(out)?;
    let mut run = TrainingRun {
        config,
        out,
        directory: &directory,
        compute: &compute,
        cancel,
        facts,
        fingerprint,
        checkpoints,
        evaluator: open_evaluator(config, &model)?,
        hits: read_hits(config)?,
        log: RunLog::open(out, config.log, saved.as_ref().map(|saved| saved.state.step))?,
        before: saved.as_ref().and_then(|saved| saved.state.before),
        state: None,
    };
    if saved.is_none() {
        run.before = run.measure_before(&model)?;
    }
    let mut trained = TrainedModel { model, cross: None };
    for (number, stage) in config.stages.iter().enumerate().skip(first) {
        trained = run.run_stage(number, stage, trained, saved.take())?;
    }
    trained.model.replace(&directory, &models.last)?;
    // There is at least one stage, and each leaves its state.
    Ok(run
        .state
        .as_ref()
        .map_or_else(|| models.empty_outcome(), |state| models.outcome(state, false)))
}

/// The documents and judgements that models are evaluated over, where the run has any.
fn open_evaluator(config: &Config, model: &Model) -> Result<Option<Evaluator>, TrainError> {
    let evaluation = &config.evaluation;
    let Some(data) = &evaluation.data else {
        return Ok(None);
    };
    Evaluator::open_in(&evaluation.context(), data, &evaluation.split, model).map(Some)
}

/// The hits that a cross encoder reranks in an evaluation.
fn read_hits(config: &Config) -> Result<TrecRun, TrainError> {
    match &config.evaluation.run {
        Some(path) => Ok(dyad_corpus::run::read(path).map_err(DataError::from)?),
        None => Ok(TrecRun::new()),
    }
}

/// Where a run leaves its models.
struct OutputModels {
    last: PathBuf,
    best: PathBuf,
}

impl OutputModels {
    /// The two directories of a run; a replacement of one that was cut short is completed or undone.
    fn recover(out: &Path) -> Result<Self, TrainError> {
        let [last, best] = ["final", "best"].map(|name| out.join(name));
        AtomicDir::recover(&last)?;
        AtomicDir::recover(&best)?;
        Ok(Self { last, best })
    }

    fn outcome(&self, state: &TrainingState, was_finished: bool) -> TrainingOutcome {
        if let Some((best, before)) = state.best.zip(state.before)
            && best.value < before.value
        {
            tracing::warn!(
                best = best.value,
                before = before.value,
                "no model of this run is better than the one that it began from"
            );
        }
        TrainingOutcome {
            steps: state.step,
            last: self.last.clone(),
            best: state.best.map(|best| (self.best.clone(), best.step, best.value)),
            before: state.before.map(|before| before.value),
            was_finished,
        }
    }

    fn empty_outcome(&self) -> TrainingOutcome {
        TrainingOutcome {
            steps: 0,
            last: self.last.clone(),
            best: None,
            before: None,
            was_finished: false,
        }
    }
}

struct TrainingRun<'a> {
    config: &'a Config,
    /// Directory of the run.
    out: &'a Path,
    /// Directory of the model that the run began from.
    directory: &'a Path,
    compute: &'a Compute,
    cancel: &'a JobCancellation,
    /// The settings, as a checkpoint has them.
    facts: String,
    /// Fingerprint of the model that the run began from.
    fingerprint: String,
    checkpoints: Checkpoints,
    evaluator: Option<Evaluator>,
    /// The hits that a cross encoder reranks.
    hits: TrecRun,
    log: RunLog,
    /// The evaluation of the model that the run began from.
    before: Option<Best>,
    state: Option<TrainingState>,
}
