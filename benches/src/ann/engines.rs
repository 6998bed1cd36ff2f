//! Engines by name: which program holds one.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::error::Result;
use super::process::Worker;
use super::worker;

/// The engine that others are compared with.
pub const OURS: &str = "dyad";

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    /// This binary.
    pub ours: PathBuf,
    /// Python with the peers' packages.
    pub python: PathBuf,
    /// The peers' worker.
    pub peers: PathBuf,
}

impl Programs {
    /// Starts the worker of an engine.
    pub fn start(&self, engine: &str, cancel: &'static AtomicBool) -> Result<Worker> {
        let mut command;
        if worker::ENGINES.contains(&engine) {
            command = Command::new(&self.ours);
            command.args(["ann-worker", "--engine", engine]);
        } else {
            command = Command::new(&self.python);
            command.arg(&self.peers).args(["--engine", engine]);
        }
        Worker::start(engine, command, cancel)
    }
}
