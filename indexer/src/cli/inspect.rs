//! `dyad-indexer inspect`: a report as text or as JSON.

use std::path::PathBuf;
use std::process::ExitCode;

use dyad_indexer::inspect::inspect;

use super::report::OutputArguments;

#[derive(Debug, clap::Args)]
pub(super) struct InspectArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    #[command(flatten)]
    output: OutputArguments,
}

pub(super) fn run(arguments: &InspectArguments) -> anyhow::Result<ExitCode> {
    arguments.output.print(&inspect(&arguments.index)?)?;
    Ok(ExitCode::SUCCESS)
}
