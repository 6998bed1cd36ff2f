//! `dyad-indexer verify`: problems to standard output, one per line; the exit code says whether there are any.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use dyad_index::verify::verify_current;
use dyad_indexer::plan::ByteSize;
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(super) struct VerifyArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &VerifyArguments) -> anyhow::Result<ExitCode> {
    let findings = verify_current(&arguments.index)?;
    if let Some(reason) = &findings.prevented {
        anyhow::bail!("the index was not verified: {reason}");
    }
    let read = format!(
        "generation {}, {} files, {} read",
        findings.generation,
        findings.files,
        ByteSize(findings.bytes)
    );
    let mut out = io::stdout().lock();
    if arguments.json {
        let record = json!({
            "index": arguments.index.display().to_string(),
            "generation": findings.generation,
            "files": findings.files,
            "bytes": findings.bytes,
            "problems": findings.problems,
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&record)?)?;
        out.flush()?;
        return Ok(if findings.problems.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
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
