//! `dyad-indexer rollback`: makes an earlier generation current.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use dyad_indexer::rollback::roll_back;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// The generation to make current; by default the one that was current before the current one was published
    #[arg(value_name = "GENERATION")]
    generation: Option<u64>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (before, now) = roll_back(&arguments.index, arguments.generation)?;
    let before = before.map_or_else(|| "none".to_owned(), |generation| generation.to_string());
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "generation {before} -> {} of `{}`: {} documents, model `{}` (fingerprint {})",
        now.generation,
        arguments.index.display(),
        now.documents(),
        now.model.name,
        now.model.fingerprint
    )?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
