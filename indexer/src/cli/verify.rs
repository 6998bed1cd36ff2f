//! `dyad-indexer verify`: problems to standard output, one per line; the exit code says whether there are any.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use dyad_index::verify::verify_current;
use dyad_indexer::plan::ByteSize;
use serde::Serialize;

use super::report::OutputArguments;

#[derive(Debug, clap::Args)]
pub(super) struct VerifyArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    #[command(flatten)]
    output: OutputArguments,
}

/// What was read of an index, and what is wrong with it.
#[derive(Debug, Serialize)]
struct VerifyReport {
    index: String,
    generation: u64,
    files: u64,
    bytes: u64,
    problems: Vec<String>,
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        match self.problems.len() {
            0 => f.write_str("intact: ")?,
            1 => f.write_str("damaged: 1 problem in ")?,
            problems => write!(f, "damaged: {problems} problems in ")?,
        }
        let (generation, files, bytes) = (self.generation, self.files, ByteSize(self.bytes));
        writeln!(f, "generation {generation}, {files} files, {bytes} read")
    }
}

pub(super) fn run(arguments: &VerifyArguments) -> anyhow::Result<ExitCode> {
    let findings = verify_current(&arguments.index)?;
    if let Some(reason) = &findings.prevented {
        anyhow::bail!("the index was not verified: {reason}");
    }
    let report = VerifyReport {
        index: arguments.index.display().to_string(),
        generation: findings.generation,
        files: findings.files,
        bytes: findings.bytes,
        problems: findings.problems,
    };
    arguments.output.print(&report)?;
    Ok(if report.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
