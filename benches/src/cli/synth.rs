//! `dyad-bench synth`.

use std::path::PathBuf;

use clap::Args;
use dyad_command::{JobCancellation, ProgressBar};

use crate::dataset::synthetic::SyntheticData;
use crate::dataset::{exact, read_vectors, write_neighbours};

/// Write a synthetic set: clusters of Zipf-like sizes and low intrinsic dimension. Any size; memory does not grow with
/// it.
#[derive(Debug, Args)]
pub(super) struct SynthCommand {
    #[command(flatten)]
    parameters: SyntheticData,
    /// Format of base and queries.
    #[arg(long, value_parser = ["npy", "fbin"], default_value = "npy")]
    format: String,
    /// Also compute this many exact neighbours per query, into neighbours.ibin. Reads the whole set into memory.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..))]
    neighbours: Option<u16>,
    /// Folder for base and queries.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl SynthCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let Self {
            parameters,
            format,
            neighbours,
            out,
        } = self;
        parameters.check().map_err(anyhow::Error::msg)?;
        fs_err::create_dir_all(&out)?;
        let [base, queries] = ["base", "queries"].map(|name| out.join(format!("{name}.{format}")));
        let rows = (parameters.n + parameters.queries) as u64;
        let bar = ProgressBar::new("rows", Some(rows), "{wide_bar} {pos}/{len}");
        // A signal ends this process at once: nothing has to be cleared up.
        parameters.write(&base, &queries, &|rows| {
            bar.advance(rows as u64);
            Ok(())
        })?;
        drop(bar);
        if let Some(k) = neighbours {
            let (base, queries) = (read_vectors(&base)?, read_vectors(&queries)?);
            let (found, scores) = exact(
                &base,
                &queries,
                usize::from(k),
                parameters.metric(),
                &JobCancellation::new(),
            )?;
            write_neighbours(&out.join("neighbours.ibin"), &found, &scores)?;
        }
        Ok(())
    }
}
