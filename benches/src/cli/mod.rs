//! The command line: arguments in, exit code out.
//!
//! | file | what lives there |
//! |---|---|
//! | `quality.rs` | `dyad-bench quality` |
//! | `metrics.rs` | `dyad-bench metrics` |

mod metrics;
mod quality;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures dyad.
#[derive(Debug, Parser)]
#[command(name = "dyad-bench", version, about, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Ask a running searcher every judged question of a BEIR folder, and say how good its answers are.
    Quality(quality::Quality),
    /// Compute the metrics of a TREC run.
    Metrics(metrics::Metrics),
}

/// Runs the command line of this process. 0: done; 1: failed; 2: used wrongly.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no failures; clap knows. A closed pipe is nobody's fault.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    dyad_proto::service::init_logs();
    let result = match arguments.command {
        Command::Quality(arguments) => arguments.run(),
        Command::Metrics(arguments) => arguments.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(broken)
}
