//! Engines by name: which program holds one, and which names stand for several.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::error::Result;
use super::process::Worker;
use super::worker;

/// Names that stand for several engines, of which the best counts at each recall.
const FAMILIES: [(&str, &[&str]); 1] = [("svs-lvq", &["svs-lvq8", "svs-lvq4x4", "svs-lvq4x8"])];

/// The engine that others are compared with.
pub const OURS: &str = "dyad";

/// The engines that a name stands for.
pub fn members(name: &str) -> Vec<String> {
    let family = FAMILIES.iter().find(|(family, _)| *family == name);
    family.map_or_else(|| vec![name.to_owned()], |(_, members)| members.iter().map(|&name| name.to_owned()).collect())
}

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
