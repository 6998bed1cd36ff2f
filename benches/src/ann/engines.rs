//! Engines by name: which program holds one.

use dyad_command::Cancellation;

use super::worker;
use crate::harness::{Programs, Result, Worker};

/// Starts the worker of an engine.
pub(super) fn start(programs: &Programs, engine: &str, cancel: Cancellation) -> Result<Worker> {
    let own = worker::ENGINES.contains(&engine).then_some("ann-worker");
    Worker::start(engine, programs.command(engine, own), cancel)
}
