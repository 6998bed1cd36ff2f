//! One model at one seed: trained, evaluated, looked at. What is finished is kept, and a trial that was ended goes on.
//!
//! ```text
//! OUT/VARIANT-seedN/run/            the trainer's directory; its checkpoints go when the trial is finished
//!                   EVALUATION.json the values of each question
//!                   tsne.svg        where there is a probe
//!                   trial.json      written last
//! ```

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use dyad_command::Cancellation;
use dyad_corpus::examples::ExampleOptions;
use dyad_encoder::Tower;
use dyad_encoder::loss::Similarity;
use dyad_encoder::model::Model;
use dyad_encoder::model::VectorLength;
use dyad_encoder::probe::{ProbeOptions, probe, svg};
use dyad_encoder::tokenize::{Budget, Tokens};
use dyad_encoder::train::{Config, Embed, Evaluator, TrainError, train};
use dyad_files::write_atomic;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::table::{Evaluated, Places, ProbeConfig, Variant};
use super::values::{self, Values};
use crate::harness::{Error, RunInfo};

/// A finished trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trial {
    pub(crate) variant: String,
    /// Of all that is random.
    pub(crate) seed: u64,
    /// Steps of training; 0 for a model as it was.
    pub(crate) steps: u64,
    /// Seconds of training, mining and its checkpoints included.
    pub(crate) train_s: f64,
    pub(crate) evaluate_s: f64,
    /// Values of a vector.
    pub(crate) dim: usize,
    /// Threads of one operator; 0 for one per core.
    pub(crate) threads: usize,
    pub(crate) device: String,
    /// How the towers lie, where that was asked for.
    pub(crate) probe: Option<Separated>,
    pub(crate) settings: Value,
    /// The source and the time at the end of it; absent from trials made before it was kept.
    #[serde(default)]
    pub(crate) made: Option<RunInfo>,
}

/// How the towers lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Separated {
    /// Share of held-out vectors whose tower a linear classifier tells: 0.5 is mixed.
    pub(crate) accuracy: f64,
    pub(crate) standard_error: f64,
    /// Mean squared distance of a question and its answer.
    pub(crate) alignment: f64,
    /// Of questions and answers together.
    pub(crate) uniformity: f64,
    /// Of the centroids of questions and answers.
    pub(crate) centroid_cosine: f64,
}

/// What a trial needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Todo<'a> {
    pub(super) variant: &'a Variant,
    pub(super) config: &'a Config,
    pub(super) evaluations: &'a [Evaluated],
    pub(super) probe: Option<&'a ProbeConfig>,
    pub(super) places: &'a Places,
    pub(super) cancel: &'a Cancellation,
}

/// The folder of a trial.
pub(super) fn folder(out: &Path, variant: &str, seed: u64) -> PathBuf {
    out.join(format!("{variant}-seed{seed}"))
}

/// A finished trial with the values of its questions, evaluation by evaluation; `None` where it is not finished.
pub(super) fn finished(folder: &Path, todo: Todo<'_>) -> anyhow::Result<Option<(Trial, Vec<Values>)>> {
    let path = folder.join("trial.json");
    if !path.exists() {
        return Ok(None);
    }
    let fail = |problem: String| Error::kept(&path, problem);
    let trial: Trial = serde_json::from_slice(&fs_err::read(&path)?).map_err(|error| fail(error.to_string()))?;
    if decisive(&trial.settings)? != decisive(&serde_json::to_value(todo.config)?)? {
        return Err(fail("the trial was made under other settings".to_owned()).into());
    }
    let values = todo.evaluations.iter().map(|evaluated| values::read(&file(folder, evaluated)));
    Ok(Some((trial, values.collect::<Result<_, _>>()?)))
}

/// Settings without those that do not change what is learned, up to rounding; written and read, so that equal texts are equal
/// numbers.
fn decisive(settings: &Value) -> Result<Value, serde_json::Error> {
    let mut settings: Value = serde_json::from_str(&settings.to_string())?;
    if let Value::Object(settings) = &mut settings {
        settings.retain(|key, _| !["device", "threads", "checkpoints", "log"].contains(&key.as_str()));
    }
    Ok(settings)
}

fn file(folder: &Path, evaluated: &Evaluated) -> PathBuf {
    folder.join(format!("{}.json", evaluated.name))
}

impl Todo<'_> {
    /// Does what is left of a trial.
    pub(super) fn run(self, folder: &Path, note: &dyn Fn(&str)) -> anyhow::Result<()> {
        let (config, name) = (self.config, &self.variant.name);
        fs_err::create_dir_all(folder)?;
        let (model, steps, train_s) = if self.variant.untrained {
            (config.model.path.clone(), 0, 0.0)
        } else {
            note(&format!("{name}, seed {}: training", config.seed));
            self.train(folder)?
        };
        let started = Instant::now();
        let encoder = Model::open(&model, &config.compute())?;
        for evaluated in self.evaluations {
            let file = file(folder, evaluated);
            if !file.exists() {
                note(&format!("{name}, seed {}: evaluating on {}", config.seed, evaluated.name));
                values::write(&file, &self.evaluate(&model, &encoder, evaluated)?)?;
            }
        }
        let evaluate_s = started.elapsed().as_secs_f64();
        let trial = Trial {
            variant: name.clone(),
            seed: config.seed,
            steps,
            train_s,
            evaluate_s,
            dim: encoder.info().dim,
            threads: config.threads,
            device: config.device.to_string(),
            probe: self.probe.map(|probe| self.look(folder, &encoder, probe)).transpose()?,
            settings: serde_json::to_value(config)?,
            made: Some(RunInfo::now()),
        };
        let text = format!("{:#}\n", serde_json::to_value(&trial)?);
        write_atomic(&folder.join("trial.json"), text.as_bytes())?;
        // Three times the model's size, and of no use any more.
        for left in ["checkpoints", "best"] {
            let left = folder.join("run").join(left);
            if left.exists() {
                fs_err::remove_dir_all(left)?;
            }
        }
        Ok(())
    }

    /// Trains, or goes on; the final model, the steps, and the seconds of all calls.
    fn train(self, folder: &Path) -> anyhow::Result<(PathBuf, u64, f64)> {
        let run = folder.join("run");
        let clock = folder.join("train-seconds");
        let before = if clock.exists() { fs_err::read_to_string(&clock)?.trim().parse().unwrap_or(0.0) } else { 0.0 };
        let started = Instant::now();
        let trained = train(self.config, &run, self.cancel);
        let seconds = before + started.elapsed().as_secs_f64();
        if !matches!(&trained, Ok(outcome) if outcome.was_finished) {
            fs_err::create_dir_all(folder)?;
            fs_err::write(&clock, format!("{seconds:.1}\n"))?;
        }
        match trained {
            Ok(outcome) if outcome.was_finished => Ok((outcome.last, outcome.steps, before)),
            Ok(outcome) => Ok((outcome.last, outcome.steps, seconds)),
            Err(TrainError::Interrupted { .. }) => Err(Error::Interrupted.into()),
            Err(error) => Err(error).with_context(|| format!("training variant `{}`", self.variant.name)),
        }
    }

    fn evaluate(self, model: &Path, encoder: &Model, evaluated: &Evaluated) -> anyhow::Result<Values> {
        let data = PathBuf::from(self.places.fill(&evaluated.data));
        let compute = self.config.compute();
        let evaluator = Evaluator::open(&data, &evaluated.split, &encoder.tokenizer())?;
        let budget = Budget::of(compute.device, compute.dtype);
        let go_on = || !self.cancel.is_cancelled();
        let search = |embed: &Embed<'_>| evaluator.search(embed, encoder.info().dim, compute.torch_device());
        let found = match evaluated.similarity {
            Similarity::Cosine => search(&|tower: Tower, texts: &[Tokens]| {
                encoder.embed_while(tower, texts, VectorLength::Unit, budget, |_| go_on())
            })?,
            Similarity::InnerProduct => {
                let learned = Model::open_for_training(model, &compute)?;
                search(&|tower: Tower, texts: &[Tokens]| {
                    learned.embed_while(tower, texts, VectorLength::Raw, budget, |_| go_on())
                })?
            }
        };
        Ok(evaluator.measure(&found.ok_or(Error::Interrupted)?).queries)
    }

    fn look(self, folder: &Path, encoder: &Model, config: &ProbeConfig) -> anyhow::Result<Separated> {
        let compute = self.config.compute();
        let options = ProbeOptions {
            data: self.places.fill(&config.data).into(),
            read: ExampleOptions { split: config.split.clone(), ..ExampleOptions::default() },
            pairs: config.pairs,
            // The same questions for every model.
            seed: 0,
            budget: Budget::of(compute.device, compute.dtype),
        };
        let (found, places) = probe(encoder, &options)?;
        fs_err::write(folder.join("tsne.svg"), svg(&found, &places))?;
        let (separation, geometry) = (found.separation, found.geometry);
        Ok(Separated {
            accuracy: separation.accuracy,
            standard_error: separation.standard_error,
            alignment: geometry.alignment,
            uniformity: geometry.uniformity,
            centroid_cosine: geometry.centroid_cosine,
        })
    }
}
