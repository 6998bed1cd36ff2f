//! Workloads of named shapes for engines that open a model: read from TOML, checked, and made a job.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::files::{WorkloadFile, find, plain_names, read_toml, require_some};
use super::process::WorkerProcess;
use super::run_info::threads;
use super::runner::EngineSettings;
use crate::error::{BenchError, BenchResult};

/// What OpenMP, MKL and rayon (ours and that of the tokenizers) read.
const THREADS: [&str; 4] = [
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "RAYON_NUM_THREADS",
];

/// One shape of a workload: inputs that are handed to every engine; and the constants of its task.
pub trait TaskShape: DeserializeOwned + Clone + Debug {
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
#[serde(deny_unknown_fields, bound = "S: TaskShape")]
pub struct TaskWorkload<S> {
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

fn repeats<S: TaskShape>() -> usize {
    S::REPEATS
}

fn engines<S: TaskShape>() -> Vec<String> {
    S::ENGINES.iter().map(|&engine| engine.to_owned()).collect()
}

impl<S: TaskShape> TaskWorkload<S> {
    /// Reads and checks a workload. Relative paths of a shape are looked for next to the file, then under `data_dir`; a
    /// relative model directory next to the file, then where the command was given. `model` stands in for the
    /// workload's.
    pub fn read(path: &Path, data_dir: Option<&Path>, model: Option<&Path>) -> BenchResult<Self> {
        let mut workload: Self = read_toml(path, |workload: &mut Self| workload.check())?;
        let file = WorkloadFile::new(path, data_dir);
        for shape in &mut workload.shapes {
            let field = format!("shape.{}.{}", shape.name(), S::FILES);
            shape
                .files()
                .into_iter()
                .try_for_each(|data| file.locate(&field, data))?;
        }
        let (model, beside) = match model {
            Some(model) => (model, Path::new("")),
            None => (workload.model.as_path(), file.folder()),
        };
        workload.model = find(model, beside, Some(Path::new(""))).map_err(|tried| {
            BenchError::file(
                path,
                format!("`model`: no such directory: {tried}. `deploy/model.sh NAME DIR` fetches one"),
            )
        })?;
        workload.threads = threads(workload.threads);
        Ok(workload)
    }

    /// Keeps only the named shapes, in the workload's order.
    pub fn keep_shapes(&mut self, names: &[String]) -> Result<(), String> {
        let known: Vec<&str> = self.shapes.iter().map(TaskShape::name).collect();
        if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(format!(
                "expected shapes of the workload ({}), got `{unknown}`",
                known.join(", ")
            ));
        }
        self.shapes
            .retain(|shape| names.is_empty() || names.iter().any(|name| name == shape.name()));
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        plain_names("name", [self.name.as_str()])?;
        require_some(&[("repeats", self.repeats)])?;
        plain_names("shape.name", self.shapes.iter().map(TaskShape::name))?;
        self.shapes.iter().try_for_each(TaskShape::check)
    }
}

/// A run to be done, of engines that open a model.
#[derive(Debug)]
pub struct TaskJob<'a, S> {
    /// What to measure.
    pub workload: &'a TaskWorkload<S>,
    /// Engines; what they compute is compared with the first one's.
    pub settings: EngineSettings,
    /// `cpu`, `cuda` or `cuda:N`.
    pub device: String,
}

impl<S: TaskShape> TaskJob<'_, S> {
    /// Starts the worker of an engine with its threads set, and without a network.
    pub(crate) fn start(&self, engine: &str) -> BenchResult<WorkerProcess> {
        let EngineSettings {
            programs,
            deadline,
            cancel,
            ..
        } = &self.settings;
        let mut command = programs.command(engine, S::OWN.contains(&engine).then_some(S::NAME));
        command.envs(THREADS.map(|name| (name, self.workload.threads.to_string())));
        command.envs([("HF_HUB_OFFLINE", "1"), ("TOKENIZERS_PARALLELISM", "true")]);
        WorkerProcess::start(engine, command, *deadline, cancel.clone())
    }
}
