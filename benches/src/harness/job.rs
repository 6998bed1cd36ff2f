//! A run of a workload that is to be done: what all engines of it are given.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_command::Cancellation;

use super::conditions::Conditions;
use super::error::Result;
use super::machine::{machine, stamp};
use super::process::Worker;
use super::programs::Programs;
use super::workload::Shaped;

/// What OpenMP, MKL and rayon (ours and that of the tokenizers) read.
const THREADS: [&str; 4] = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"];

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
    pub fn start(&self, engine: &str) -> Result<Worker> {
        let mut command = self.programs.command(engine, W::is_ours(engine).then_some(W::WORKER));
        command.envs(THREADS.map(|name| (name, self.threads.to_string())));
        command.envs([("HF_HUB_OFFLINE", "1"), ("TOKENIZERS_PARALLELISM", "true")]);
        Worker::start(engine, command, self.cancel.clone())
    }

    /// The conditions of this run, as it ends.
    pub fn conditions(&self, workload: &str, model: &Path, repeats: usize) -> Result<Conditions> {
        let model = fs_err::canonicalize(model)?;
        Ok(Conditions {
            workload: workload.to_owned(),
            model: model.file_name().unwrap_or(model.as_os_str()).to_string_lossy().into_owned(),
            device: self.device.clone(),
            threads: self.threads,
            repeats,
            asked: self.engines.clone(),
            machine: machine(),
            stamp: stamp(),
        })
    }
}
