//! `dyad-indexer inspect`: a report as text or as JSON.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use dyad_indexer::inspect::inspect;

#[derive(Debug, clap::Args)]
pub(super) struct InspectArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &InspectArguments) -> anyhow::Result<ExitCode> {
    let report = inspect(&arguments.index)?;
    let mut out = io::stdout().lock();
    if arguments.json {
        // Not straight to the writer: the JSON error would hide a broken pipe.
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        write!(out, "{report}")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
