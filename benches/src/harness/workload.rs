//! Workloads of named shapes for engines that open a model: read from TOML, checked, and made a job.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_command::Cancellation;
use serde::de::DeserializeOwned;

use super::error::{Error, Result};
use super::files::{find, find_data, plain_name, plain_names, read_toml};
use super::process::{Programs, Worker};
use super::run_info::{Conditions, Machine, RunInfo};

/// What OpenMP, MKL and rayon (ours and that of the tokenizers) read.
const THREADS: [&str; 4] = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"];

/// One shape of a workload: inputs that are handed to every engine.
pub trait Shape {
    /// The key of its files.
    const FILES: &'static str;
    /// Name in records.
    fn name(&self) -> &str;
    /// Its files.
    fn files(&mut self) -> Vec<&mut PathBuf>;
    /// What is wrong with it, its name apart.
    fn check(&self) -> Result<(), String>;
}

/// What all workloads of shapes have.
#[derive(Debug)]
pub struct Parts<'a, S> {
    pub(crate) name: &'a str,
    /// Directory of the model.
    pub(crate) model: &'a mut PathBuf,
    /// Timed passes.
    pub(crate) repeats: &'a mut usize,
    /// Threads of every engine; 0: as many as the machine has.
    pub(crate) threads: usize,
    /// Engines measured where the command names none.
    pub(crate) engines: &'a [String],
    pub(crate) shapes: &'a mut Vec<S>,
}

/// A workload of named shapes.
pub trait Shaped: DeserializeOwned + Clone {
    /// One shape.
    type Shape: Shape;
    /// Engines that this binary holds.
    const OWN: &'static [&'static str];
    /// The command of this binary that serves one of them.
    const WORKER: &'static str;

    /// What it has in common with others.
    fn parts(&mut self) -> Parts<'_, Self::Shape>;

    /// What is wrong with the keys that only this kind of workload has.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Reads and checks a workload. Relative paths of a shape are looked for next to the file, then under `data_dir`; a relative
    /// model directory next to the file, then where the command was given. `model` stands in for the workload's.
    fn read(path: &Path, data_dir: Option<&Path>, model: Option<&Path>) -> Result<Self> {
        let mut workload: Self = read_toml(path, check)?;
        let beside = path.parent().unwrap_or(Path::new(""));
        let Parts { model: own_model, shapes, .. } = workload.parts();
        for shape in shapes {
            let field = format!("shape.{}.{}", shape.name(), Self::Shape::FILES);
            for file in shape.files() {
                *file = find_data(&field, file, beside, data_dir).map_err(|problem| Error::file(path, problem))?;
            }
        }
        let (model, beside) = model.map_or((own_model.as_path(), beside), |model| (model, Path::new("")));
        *own_model = find(model, beside, Some(Path::new(""))).map_err(|tried| {
            Error::file(path, format!("`model`: no such directory: {tried}. `deploy/model.sh NAME DIR` fetches one"))
        })?;
        Ok(workload)
    }

    /// Keeps only the named shapes, in the workload's order.
    fn keep_shapes(&mut self, names: &[String]) -> Result<(), String> {
        let Parts { shapes, .. } = self.parts();
        if let Some(unknown) = names.iter().find(|name| shapes.iter().all(|shape| shape.name() != name.as_str())) {
            let known: Vec<&str> = shapes.iter().map(Shape::name).collect();
            return Err(format!("expected shapes of the workload ({}), got `{unknown}`", known.join(", ")));
        }
        if !names.is_empty() {
            shapes.retain(|shape| names.iter().any(|name| name == shape.name()));
        }
        Ok(())
    }
}

fn check<W: Shaped>(workload: &mut W) -> Result<(), String> {
    workload.check()?;
    let Parts { name, repeats, shapes, .. } = workload.parts();
    plain_name("name", name)?;
    if *repeats == 0 {
        return Err("`repeats`: expected at least 1, got 0".to_owned());
    }
    plain_names("shape.name", shapes.iter().map(Shape::name))?;
    shapes.iter().try_for_each(Shape::check)
}

/// A run to be done, of engines that open a model.
#[derive(Debug)]
pub struct Job<'a, W> {
    /// What to measure.
    pub workload: &'a W,
    /// Engines in order; what they compute is compared with the first one's.
    pub engines: Vec<String>,
    /// `cpu`, `cuda` or `cuda:N`.
    pub device: String,
    /// Threads of every engine.
    pub threads: usize,
    /// Where the programs are.
    pub programs: Programs,
    /// Scratch files, and what is made of a model and kept.
    pub cache: PathBuf,
    /// For each answer of a worker.
    pub deadline: Duration,
    /// Ends the run.
    pub cancel: Cancellation,
}

impl<W: Shaped> Job<'_, W> {
    /// Starts the worker of an engine with its threads set, and without a network.
    pub(crate) fn start(&self, engine: &str) -> Result<Worker> {
        let mut command = self.programs.command(engine, W::OWN.contains(&engine).then_some(W::WORKER));
        command.envs(THREADS.map(|name| (name, self.threads.to_string())));
        command.envs([("HF_HUB_OFFLINE", "1"), ("TOKENIZERS_PARALLELISM", "true")]);
        Worker::start(engine, command, self.cancel.clone())
    }

    /// The conditions of this run, as it ends.
    pub(super) fn conditions(&self, parts: &Parts<'_, W::Shape>) -> Result<Conditions> {
        Ok(Conditions {
            workload: parts.name.to_owned(),
            model: Conditions::model_name(parts.model)?,
            device: self.device.clone(),
            threads: self.threads,
            repeats: *parts.repeats,
            asked: self.engines.clone(),
            machine: Machine::this(),
            stamp: RunInfo::now(),
        })
    }
}
