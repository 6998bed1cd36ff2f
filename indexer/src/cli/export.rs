//! `dyad-indexer export`: an index for other programs.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use dyad_indexer::export::{self, Exported, METADATA, VECTORS};

#[derive(Debug, clap::Args)]
pub(super) struct ExportArguments {
    #[command(subcommand)]
    target: ExportTarget,
}

#[derive(Debug, Subcommand)]
enum ExportTarget {
    /// Write vectors.tsv and metadata.tsv for the TensorFlow embedding projector
    Projector(Projector),
}

#[derive(Debug, clap::Args)]
struct Projector {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// A new directory for the files
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Documents, chosen at random where the index has more: the projector shows about this many well
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Seed of the choice
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

pub(super) fn run(arguments: &ExportArguments) -> anyhow::Result<ExitCode> {
    let ExportTarget::Projector(Projector {
        index,
        out,
        limit,
        seed,
    }) = &arguments.target;
    let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
    let Exported {
        generation,
        documents,
        of,
    } = export::export_projector(index, out, limit, *seed)?;
    let out = out.display();
    writeln!(
        io::stdout().lock(),
        "{documents} of {of} documents of generation {generation}: `{out}/{VECTORS}`, `{out}/{METADATA}`"
    )?;
    Ok(ExitCode::SUCCESS)
}
