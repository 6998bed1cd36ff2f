//! `dyad-bench synth`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dyad_command::{Cancellation, ProgressBar};

use crate::dataset::synthetic::{Synthetic, write};
use crate::dataset::{exact, read_vectors, write_neighbours};

/// Write a synthetic set: clusters of Zipf-like sizes and low intrinsic dimension. Any size; memory does not grow with it.
#[derive(Debug, Args)]
pub(super) struct Synth {
    #[command(flatten)]
    parameters: Synthetic,
    /// Format of base and queries.
    #[arg(long, value_enum, default_value = "npy")]
    format: Format,
    /// Also compute this many exact neighbours per query, into neighbours.ibin. Reads the whole set into memory.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..))]
    neighbours: Option<u16>,
    /// Folder for base and queries.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Npy,
    Fbin,
}

impl Synth {
    pub(super) fn run(self) -> anyhow::Result<()> {
        self.parameters.check()?;
        fs_err::create_dir_all(&self.out)?;
        let ending = match self.format {
            Format::Npy => "npy",
            Format::Fbin => "fbin",
        };
        let (base, queries) = (self.out.join(format!("base.{ending}")), self.out.join(format!("queries.{ending}")));
        let rows = (self.parameters.n + self.parameters.queries) as u64;
        let bar = ProgressBar::new("rows", Some(rows), "{wide_bar} {pos}/{len}");
        // A signal ends this process at once: nothing has to be cleared up.
        write(&self.parameters, &base, &queries, &|rows| bar.advance(rows as u64), &Cancellation::new())?;
        drop(bar);
        if let Some(k) = self.neighbours {
            let (base, queries) = (read_vectors(&base)?, read_vectors(&queries)?);
            let (found, scores) = exact(&base, &queries, usize::from(k), self.parameters.metric());
            write_neighbours(&self.out.join("neighbours.ibin"), &found, &scores)?;
        }
        Ok(())
    }
}
