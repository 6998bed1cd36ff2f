//! Engines by name: which program holds one.

use std::ffi::OsString;
use std::sync::atomic::AtomicBool;

use super::worker;
use crate::harness::{Programs, Result, Worker};

/// The engine that others are compared with.
pub(super) const OURS: &str = "dyad";
/// What OpenMP, MKL and rayon (ours and that of the tokenizers) read.
const THREADS: [&str; 4] = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"];

/// Whether an engine lives in this binary.
pub fn is_ours(engine: &str) -> bool {
    worker::ENGINES.contains(&engine)
}

/// Starts the worker of an engine with its threads set, and without a network.
pub(super) fn start(programs: &Programs, engine: &str, threads: usize, cancel: &'static AtomicBool) -> Result<Worker> {
    let mut command = programs.command(engine, is_ours(engine).then_some("train-step-worker"));
    command.envs(THREADS.map(|name| (name, OsString::from(threads.to_string()))));
    command.envs([("HF_HUB_OFFLINE", "1"), ("TOKENIZERS_PARALLELISM", "true")]);
    Worker::start(engine, command, cancel)
}
