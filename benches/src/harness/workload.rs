//! Workloads of named shapes for engines that open a model: read from TOML, checked, and made a job.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_command::JobCancellation;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::files::{find, find_data, plain_names, read_toml};
use super::process::{Programs, Worker};
use super::run_info::threads;
use crate::error::{Error, Result};

/// What OpenMP, MKL and rayon (ours and that of the tokenizers) read.
const THREADS: [&str; 4] = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"];

/// One shape of a workload: inputs that are handed to every engine; and the constants of its task.
pub trait Shape: DeserializeOwned + Clone + Debug {
    /// Name of the comparison.
    const NAME: &'static str;
    /// Engines that this binary holds.
    const OWN: &'static [&'static str];
    /// Engines of a workload that names none.
    const ENGINES: &'static [&'static str];
    /// Timed passes of a workload that gives no number.
    const REPEATS: usize;
    /// The key of its files.
    const FILES: &'static str;
    /// Name in records.
    fn name(&self) -> &str;
    /// Its files.
    fn files(&mut self) -> Vec<&mut PathBuf>;
    /// What is wrong with it, its name apart.
    fn check(&self) -> Result<(), String>;
}

/// A model, and the shapes of inputs that it is given. `benches/workloads/README.md` says what every key means.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, bound = "S: Shape")]
pub struct Workload<S> {
    pub(crate) name: String,
    pub(crate) model: PathBuf,
    #[serde(default = "repeats::<S>")]
    pub(crate) repeats: usize,
    /// Threads of every engine; 0 in the file stands for all that this process may use.
    #[serde(default)]
    pub threads: usize,
    #[serde(default = "engines::<S>")]
    pub(crate) engines: Vec<String>,
    #[serde(rename = "shape")]
    pub(crate) shapes: Vec<S>,
}

fn repeats<S: Shape>() -> usize {
    S::REPEATS
}

fn engines<S: Shape>() -> Vec<String> {
    S::ENGINES.iter().map(|&engine| engine.to_owned()).collect()
}

impl<S: Shape> Workload<S> {
    /// Reads and checks a workload. Relative paths of a shape are looked for next to the file, then under `data_dir`; a relative
    /// model directory next to the file, then where the command was given. `model` stands in for the workload's.
    pub fn read(path: &Path, data_dir: Option<&Path>, model: Option<&Path>) -> Result<Self> {
        let mut workload: Self = read_toml(path, |workload: &mut Self| workload.check())?;
        let beside = path.parent().unwrap_or(Path::new(""));
        for shape in &mut workload.shapes {
            let field = format!("shape.{}.{}", shape.name(), S::FILES);
            for file in shape.files() {
                *file = find_data(&field, file, beside, data_dir).map_err(|problem| Error::file(path, problem))?;
            }
        }
        let (model, beside) = model.map_or((workload.model.as_path(), beside), |model| (model, Path::new("")));
        workload.model = find(model, beside, Some(Path::new(""))).map_err(|tried| {
            Error::file(path, format!("`model`: no such directory: {tried}. `deploy/model.sh NAME DIR` fetches one"))
        })?;
        workload.threads = threads(workload.threads);
        Ok(workload)
    }

    /// Keeps only the named shapes, in the workload's order.
    pub fn keep_shapes(&mut self, names: &[String]) -> Result<(), String> {
        let known: Vec<&str> = self.shapes.iter().map(Shape::name).collect();
        if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("expected shapes of the workload ({}), got `{unknown}`", known.join(", ")));
        }
        self.shapes.retain(|shape| names.is_empty() || names.iter().any(|name| name == shape.name()));
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        plain_names("name", [self.name.as_str()])?;
        if self.repeats == 0 {
            return Err("`repeats`: expected at least 1, got 0".to_owned());
        }
        plain_names("shape.name", self.shapes.iter().map(Shape::name))?;
        self.shapes.iter().try_for_each(Shape::check)
    }
}

/// A run to be done, of engines that open a model.
#[derive(Debug)]
pub struct Job<'a, S> {
    /// What to measure.
    pub workload: &'a Workload<S>,
    /// Engines in order; what they compute is compared with the first one's.
    pub engines: Vec<String>,
    /// `cpu`, `cuda` or `cuda:N`.
    pub device: String,
    /// Where the programs are.
    pub programs: Programs,
    /// Scratch files, and what is made of a model and kept.
    pub cache: PathBuf,
    /// For each answer of a worker.
    pub deadline: Duration,
    /// Ends the run.
    pub cancel: JobCancellation,
}

impl<S: Shape> Job<'_, S> {
    /// Starts the worker of an engine with its threads set, and without a network.
    pub(crate) fn start(&self, engine: &str) -> Result<Worker> {
        let mut command = self.programs.command(engine, S::OWN.contains(&engine).then_some(S::NAME));
        command.envs(THREADS.map(|name| (name, self.workload.threads.to_string())));
        command.envs([("HF_HUB_OFFLINE", "1"), ("TOKENIZERS_PARALLELISM", "true")]);
        Worker::start(engine, command, self.deadline, self.cancel.clone())
    }
}
