//! Which program holds an engine.

use std::path::PathBuf;
use std::process::Command;

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
    /// The command of an engine's worker: a command of our own where there is one for it, else the peers' program.
    pub fn command(&self, engine: &str, own: Option<&str>) -> Command {
        let mut command;
        if let Some(own) = own {
            command = Command::new(&self.ours);
            command.arg(own);
        } else {
            command = Command::new(&self.python);
            command.arg(&self.peers);
        }
        command.args(["--engine", engine]);
        command
    }
}
