//! `dyad-indexer verify`: problems to standard output, one per line; the exit code says whether there are any.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use dyad_index::verify::verify_current;
use dyad_indexer::plan::Bytes;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let findings = verify_current(&arguments.index)?;
    if let Some(reason) = &findings.prevented {
        anyhow::bail!("the index was not verified: {reason}");
    }
    let read = format!("generation {}, {} files, {} read", findings.generation, findings.files, Bytes(findings.bytes));
    let mut out = io::stdout().lock();
    for problem in &findings.problems {
        writeln!(out, "{problem}")?;
    }
    let intact = findings.problems.is_empty();
    match findings.problems.len() {
        0 => writeln!(out, "intact: {read}")?,
        1 => writeln!(out, "damaged: 1 problem in {read}")?,
        problems => writeln!(out, "damaged: {problems} problems in {read}")?,
    }
    out.flush()?;
    Ok(if intact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
