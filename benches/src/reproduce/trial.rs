//! One model at one seed: trained, evaluated, looked at. What is finished is kept, and a trial that was ended goes on.
//!
//! ```text
//! OUT/VARIANT-seedN/run/            the trainer's directory; its checkpoints go when the trial is finished
//!                   EVALUATION.json the values of each question
//!                   tsne.svg        where there is a probe
//!                   trial.json      written last
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use dyad_command::JobCancellation;
use dyad_corpus::examples::ExampleOptions;
use dyad_encoder::loss::Similarity;
use dyad_encoder::model::{Model, VectorLength};
use dyad_encoder::probe::{ProbeOptions, probe, svg};
use dyad_encoder::tokenize::{Budget, Tokens};
use dyad_encoder::train::config::TrainedKind;
use dyad_encoder::train::{Config, Embed, EvaluatedContext, Evaluator, METRICS, TrainError, train};
use dyad_encoder::{Compute, CrossEncoder, Tower};
use dyad_files::write_atomic;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::table::{
    ProbeConfig, ReproduceTable, RerankSettings, TableEvaluation, TablePlaces, TableReference, TableVariant,
};
use crate::error::{BenchError, BenchResult};
use crate::harness::RunInfo;

/// Question to one value per metric, in the order of [`METRICS`].
pub(super) type QuestionValues = BTreeMap<String, Vec<f64>>;

/// A finished trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VariantTrial {
    pub(crate) variant: String,
    /// Seed of all that is random.
    pub(crate) seed: u64,
    /// Steps of training; 0 for a model as it was.
    pub(crate) steps: u64,
    /// Seconds of training, mining and its checkpoints included.
    pub(crate) train_s: f64,
    pub(crate) evaluate_s: f64,
    /// Values of a vector; 1 for a cross encoder, which gives a logit.
    pub(crate) dim: usize,
    /// Threads of one operator; 0 for one per core.
    pub(crate) threads: usize,
    pub(crate) device: String,
    /// How the towers lie, where that was asked for: how well they are told apart, alignment (mean squared distance of
    /// a question and its answer), uniformity of both together, and the cosine of their centroids.
    pub(crate) probe: Option<Value>,
    pub(crate) settings: Value,
    /// What it was measured on; not in trials that were made before it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) evaluations: Vec<TableEvaluation>,
    /// How its hits were reranked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rerank: Option<RerankSettings>,
    /// The source and the time at the end of it; absent from trials made before it was kept.
    #[serde(default)]
    pub(crate) made: Option<RunInfo>,
}

impl VariantTrial {
    /// Share of held-out vectors whose tower a linear classifier tells: 0.5 is mixed.
    pub(super) fn separable(&self) -> Option<f64> {
        self.probe.as_ref()?["accuracy"].as_f64()
    }
}

/// What a trial needs.
#[derive(Debug, Clone)]
pub(super) struct TrialPlan<'a> {
    pub(super) variant: &'a TableVariant,
    pub(super) config: &'a Config,
    pub(super) table: &'a ReproduceTable,
    pub(super) places: &'a TablePlaces,
    pub(super) cancel: &'a JobCancellation,
    /// Folder of this trial.
    pub(super) folder: PathBuf,
}

/// Settings without those that do not change what is learned, up to rounding; written and read, so that equal texts are
/// equal numbers.
fn decisive(settings: &Value) -> Result<Value, serde_json::Error> {
    let mut settings: Value = serde_json::from_str(&settings.to_string())?;
    if let Value::Object(settings) = &mut settings {
        settings.retain(|key, _| !["device", "threads", "checkpoints", "log"].contains(&key.as_str()));
    }
    Ok(settings)
}

impl TrialPlan<'_> {
    /// The finished trial with the values of its questions, evaluation by evaluation; `None` where it is not finished,
    /// or the table has got another evaluation since.
    pub(super) fn finished(&self) -> anyhow::Result<Option<(VariantTrial, Vec<QuestionValues>)>> {
        let Some(trial) = self.trained()? else { return Ok(None) };
        let files: Vec<PathBuf> = self
            .evaluations()
            .iter()
            .map(|evaluated| self.file(evaluated))
            .collect();
        if !files.iter().all(|file| file.exists()) {
            return Ok(None);
        }
        let values = files.iter().map(|file| read_values(file));
        Ok(Some((trial, values.collect::<BenchResult<_>>()?)))
    }

    /// The trial whose model is trained, and which was finished with the evaluations that the table had then.
    fn trained(&self) -> anyhow::Result<Option<VariantTrial>> {
        let path = self.folder.join("trial.json");
        if !path.exists() {
            return Ok(None);
        }
        let trial: VariantTrial = read(&path)?;
        if decisive(&trial.settings)? != decisive(&serde_json::to_value(self.config)?)?
            || trial.rerank != self.variant.rerank
        {
            return Err(BenchError::kept(&path, "the trial was made under other settings").into());
        }
        let is_other = |then: &&TableEvaluation| {
            self.evaluations()
                .iter()
                .any(|now| now.name == then.name && now != *then)
        };
        if let Some(other) = trial.evaluations.iter().find(is_other) {
            let reason = format!("evaluation `{}` was made under other settings", other.name);
            return Err(BenchError::kept(&path, reason).into());
        }
        Ok(Some(trial))
    }

    fn file(&self, evaluated: &TableEvaluation) -> PathBuf {
        self.folder.join(format!("{}.json", evaluated.name))
    }

    /// What the model is measured on; nothing for a cross encoder, which cannot search: it reranks the hits of others.
    fn evaluations(&self) -> &[TableEvaluation] {
        match self.config.model.kind {
            TrainedKind::DualEncoder => &self.table.evaluations,
            TrainedKind::CrossEncoder => &[],
        }
    }

    /// Makes the examples that the trial is trained on, and refuses a trial whose models are not there.
    fn prepare(&self, note: &dyn Fn(&str)) -> anyhow::Result<()> {
        let seed = self.config.seed;
        for needed in self.variant.references(self.table) {
            match needed {
                TableReference::Examples(name) => {
                    for made in self.table.made_from(name) {
                        made.make(self.places, self.config, note, self.cancel)?;
                    }
                }
                TableReference::Variant(name) if !self.places.trial(name, seed).join("trial.json").exists() => {
                    let of = &self.variant.name;
                    return Err(BenchError::Refused(format!(
                        "variant `{of}` needs variant `{name}` of seed {seed}, which is not finished: run it too"
                    ))
                    .into());
                }
                TableReference::Variant(_) => {}
            }
        }
        Ok(())
    }

    /// Does what is left of a trial.
    pub(super) fn run(&self, note: &dyn Fn(&str)) -> anyhow::Result<()> {
        let (config, name, folder) = (self.config, &self.variant.name, &self.folder);
        self.prepare(note)?;
        fs_err::create_dir_all(folder)?;
        let before = self.trained()?;
        let (model, steps, train_s) = match &before {
            _ if self.variant.untrained => (config.model.path.clone(), 0, 0.0),
            Some(trial) => (self.places.model_of(name, config.seed), trial.steps, trial.train_s),
            None => {
                note(&format!("{name}, seed {}: training", config.seed));
                self.train()?
            }
        };
        let started = Instant::now();
        let (mut dim, mut seen) = (1, None);
        if config.model.kind == TrainedKind::DualEncoder {
            let encoder = Model::open(&model, &config.compute())?;
            for evaluated in self.evaluations() {
                let file = self.file(evaluated);
                if !file.exists() {
                    note(&format!(
                        "{name}, seed {}: evaluating on {}",
                        config.seed, evaluated.name
                    ));
                    write_atomic(
                        &file,
                        &serde_json::to_vec(&self.evaluate(&model, &encoder, evaluated)?)?,
                    )?;
                }
            }
            dim = encoder.info().dim;
            seen = self
                .table
                .probe
                .as_ref()
                .map(|probe| self.look(&encoder, probe))
                .transpose()?;
        }
        let evaluate_s = before.map_or(0.0, |trial| trial.evaluate_s) + started.elapsed().as_secs_f64();
        let trial = VariantTrial {
            variant: name.clone(),
            seed: config.seed,
            steps,
            train_s,
            evaluate_s,
            dim,
            threads: config.threads,
            device: config.device.to_string(),
            probe: seen,
            settings: serde_json::to_value(config)?,
            evaluations: self.evaluations().to_vec(),
            rerank: self.variant.rerank.clone(),
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
    fn train(&self) -> anyhow::Result<(PathBuf, u64, f64)> {
        let [run, clock] = ["run", "train-seconds"].map(|name| self.folder.join(name));
        let before = if clock.exists() {
            fs_err::read_to_string(&clock)?.trim().parse().unwrap_or(0.0)
        } else {
            0.0
        };
        let started = Instant::now();
        let trained = train(self.config, &run, self.cancel);
        let seconds = before + started.elapsed().as_secs_f64();
        if !matches!(&trained, Ok(outcome) if outcome.was_finished) {
            fs_err::write(&clock, format!("{seconds:.1}\n"))?;
        }
        match trained {
            Ok(outcome) if outcome.was_finished => Ok((outcome.last, outcome.steps, before)),
            Ok(outcome) => Ok((outcome.last, outcome.steps, seconds)),
            Err(TrainError::Interrupted { .. }) => Err(BenchError::Interrupted.into()),
            Err(error) => Err(error).with_context(|| format!("training variant `{}`", self.variant.name)),
        }
    }

    fn evaluate(&self, model: &Path, encoder: &Model, evaluated: &TableEvaluation) -> anyhow::Result<QuestionValues> {
        let data = PathBuf::from(self.places.fill(&evaluated.data, self.config.seed));
        let compute = self.config.compute();
        let documents = evaluated
            .documents
            .as_ref()
            .map(|file| self.places.fill(file, self.config.seed).into());
        let context = EvaluatedContext {
            context: evaluated.context,
            documents,
        };
        let evaluator = Evaluator::open_in(&context, &data, &evaluated.split, encoder)?;
        let budget = Budget::of(compute.device, compute.dtype);
        let search = |embed: &Embed<'_>| evaluator.search(embed, encoder.info().dim, compute.torch_device());
        let found = match evaluated.similarity {
            Similarity::Cosine => search(&|tower: Tower, texts: &[Tokens]| {
                encoder.embed_until(tower, texts, VectorLength::Unit, budget, self.cancel)
            })?,
            Similarity::InnerProduct => {
                let learned = Model::open_for_training(model, &compute)?;
                search(&|tower: Tower, texts: &[Tokens]| {
                    learned.embed_until(tower, texts, VectorLength::Raw, budget, self.cancel)
                })?
            }
        };
        let mut found = found.ok_or(BenchError::Interrupted)?;
        if let Some(rerank) = &self.variant.rerank {
            let compute = Compute {
                dtype: rerank.dtype.unwrap_or(compute.dtype),
                ..compute
            };
            let cross_encoder = CrossEncoder::open(&self.places.model_of(&rerank.by, self.config.seed), &compute)?;
            let budget = Budget::of(compute.device, compute.dtype);
            let score = |pairs: &[Tokens]| cross_encoder.logits_until(pairs, budget, self.cancel);
            let reranked = evaluator.rerank(&found, rerank.depth, &cross_encoder.tokenizer(), &score)?;
            found = reranked.ok_or(BenchError::Interrupted)?;
        }
        Ok(evaluator.measure(&found).queries)
    }

    /// How the towers lie; draws them.
    fn look(&self, encoder: &Model, config: &ProbeConfig) -> anyhow::Result<Value> {
        let compute = self.config.compute();
        let options = ProbeOptions {
            data: self.places.fill(&config.data, self.config.seed).into(),
            read: ExampleOptions {
                split: config.split.clone(),
                ..ExampleOptions::default()
            },
            pairs: config.pairs,
            // The same questions for every model.
            seed: 0,
            budget: Budget::of(compute.device, compute.dtype),
        };
        let (found, places) = probe(encoder, &options)?;
        fs_err::write(self.folder.join("tsne.svg"), svg(&found, &places))?;
        let (separation, geometry) = (found.separation, found.geometry);
        Ok(json!({
            "accuracy": separation.accuracy,
            "standard_error": separation.standard_error,
            "alignment": geometry.alignment,
            "uniformity": geometry.uniformity,
            "centroid_cosine": geometry.centroid_cosine,
        }))
    }
}

/// Reads a file of an earlier run.
fn read<T: DeserializeOwned>(path: &Path) -> BenchResult<T> {
    serde_json::from_slice(&fs_err::read(path)?).map_err(|error| BenchError::kept(path, error))
}

/// Reads the values of each question, kept so that a paired test needs no second search.
fn read_values(path: &Path) -> BenchResult<QuestionValues> {
    let values: QuestionValues = read(path)?;
    match values.iter().find(|(_, values)| values.len() != METRICS.len()) {
        Some((question, _)) => Err(BenchError::kept(
            path,
            format!("`{question}`: expected a value for each metric"),
        )),
        None => Ok(values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_damage_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e.json");
        let row = |value: f64| {
            (0..METRICS.len())
                .map(|at| value / (at + 3) as f64)
                .collect::<Vec<f64>>()
        };
        let values = QuestionValues::from([("a,\"b\"".to_owned(), row(1.0)), ("c".to_owned(), row(0.0))]);
        let text = serde_json::to_string(&values).unwrap();
        fs_err::write(&path, &text).unwrap();
        assert_eq!(read_values(&path).unwrap(), values);
        for (broken, expected) in [
            (text.replace(":[", ":[\"x\","), "expected f64"),
            (text[..text.len() - 1].to_owned(), "EOF"),
            (text.replace(":[", ":[0.5,"), "expected a value for each metric"),
        ] {
            fs_err::write(&path, broken).unwrap();
            let message = read_values(&path).unwrap_err().to_string();
            assert!(message.contains(expected), "{expected}: {message}");
        }
    }
}
