//! `dyad-indexer rollback`: makes an earlier generation current.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use dyad_index::ModelRecord;
use dyad_indexer::rollback::{RolledBack, roll_back};
use serde::Serialize;

use super::report::ChangeArguments;

#[derive(Debug, clap::Args)]
pub(super) struct RollbackArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// The generation to make current; by default the one that was current before the current one was published
    #[arg(long, value_name = "GENERATION")]
    to: Option<u64>,
    #[command(flatten)]
    report: ChangeArguments,
}

/// The generation that is current in place of another one, or would be.
#[derive(Debug, Serialize)]
struct RollbackReport {
    index: String,
    dry_run: bool,
    /// The one that was current; none where the pointer could not be read.
    generation_before: Option<u64>,
    generation: u64,
    documents: u64,
    model: ModelRecord,
}

impl fmt::Display for RollbackReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dry_run {
            f.write_str("dry run: ")?;
        }
        match self.generation_before {
            Some(before) => write!(f, "generation {before}")?,
            None => f.write_str("generation none")?,
        }
        writeln!(
            f,
            " -> {} of `{}`: {} documents, model `{}` (fingerprint {})",
            self.generation, self.index, self.documents, self.model.name, self.model.fingerprint
        )
    }
}

pub(super) fn run(arguments: &RollbackArguments) -> anyhow::Result<ExitCode> {
    let dry_run = arguments.report.dry_run;
    let RolledBack { before, manifest } = roll_back(&arguments.index, arguments.to, dry_run)?;
    arguments.report.output.print(&RollbackReport {
        index: arguments.index.display().to_string(),
        dry_run,
        generation_before: before,
        generation: manifest.generation,
        documents: manifest.documents(),
        model: manifest.model,
    })?;
    Ok(ExitCode::SUCCESS)
}
