//! `dyad-indexer`: build, inspect and verify an index.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(dyad_revision::revision!())
}
