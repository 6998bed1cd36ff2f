//! The command line: arguments in, text and exit codes out. No step of a build lives here.
//!
//! | file | what lives there |
//! |---|---|
//! | `build.rs` | `dyad-indexer build` |
//! | `inspect.rs` | `dyad-indexer inspect` |
//! | `verify.rs` | `dyad-indexer verify` |
//! | `rollback.rs` | `dyad-indexer rollback` |
//! | `bar.rs` | progress on a terminal, or as log lines |
//! | `interrupt.rs` | Ctrl-C: first cancels, second ends |
//!
//! Exit codes: 0 success, 1 failure or an index that is not sound, 2 usage, 130 interrupted.

mod bar;
mod build;
mod inspect;
mod interrupt;
mod rollback;
mod verify;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use dyad_index::kernels;

/// Interrupted by Ctrl-C, as shells report it.
const INTERRUPTED: u8 = 130;

/// Makes and checks the indexes that dyad-searcher serves.
#[derive(Debug, Parser)]
#[command(name = "dyad-indexer", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build an index from a corpus and its vectors, and publish it as the next generation
    Build(Box<build::Arguments>),
    /// Print what is in an index
    Inspect(inspect::Arguments),
    /// Read every byte of an index and check it; exit code 1 if it is not sound
    Verify(verify::Arguments),
    /// Make an earlier generation current, without a searcher. A running one takes it with `dyad-searcher admin reload`
    Rollback(rollback::Arguments),
}

pub(crate) fn run() -> ExitCode {
    let arguments = Arguments::parse();
    dyad_proto::service::init_logs();
    if let Err(error) = kernels::choose(kernels::asked().as_deref()) {
        let _ = writeln!(io::stderr().lock(), "error: {error}");
        return ExitCode::from(2);
    }
    let result = match arguments.command {
        Command::Build(arguments) => build::run(*arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Rollback(arguments) => rollback::run(&arguments),
    };
    result.unwrap_or_else(|error| report(&error))
}

fn report(error: &anyhow::Error) -> ExitCode {
    // Only printing fails with a bare I/O error. Whoever reads our output has seen enough.
    if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    // Where even standard error is gone, the exit code still tells.
    let _ = writeln!(io::stderr().lock(), "error: {error:#}");
    match error.downcast_ref::<dyad_indexer::Error>() {
        Some(dyad_indexer::Error::Cancelled) => ExitCode::from(INTERRUPTED),
        Some(dyad_indexer::Error::Parameter { .. } | dyad_indexer::Error::FloorValue { .. }) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    }
}
