//! `dyad-indexer rollback`: makes an earlier generation current.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use dyad_indexer::rollback::{RolledBack, roll_back};
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(super) struct RollbackArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// The generation to make current; by default the one that was current before the current one was published
    #[arg(long, value_name = "GENERATION")]
    to: Option<u64>,
    /// Change nothing; say what would be changed
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &RollbackArguments) -> anyhow::Result<ExitCode> {
    let RolledBack { before, manifest: now } = roll_back(&arguments.index, arguments.to, arguments.dry_run)?;
    let mut out = io::stdout().lock();
    if arguments.json {
        let record = json!({
            "index": arguments.index.display().to_string(),
            "dry_run": arguments.dry_run,
            "generation_before": before,
            "generation": now.generation,
            "documents": now.documents(),
            "model": now.model,
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&record)?)?;
    } else {
        writeln!(
            out,
            "{}generation {} -> {} of `{}`: {} documents, model `{}` (fingerprint {})",
            if arguments.dry_run { "dry run: " } else { "" },
            before.map_or_else(|| "none".to_owned(), |generation| generation.to_string()),
            now.generation,
            arguments.index.display(),
            now.documents(),
            now.model.name,
            now.model.fingerprint
        )?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
