//! `dyad-bench growth`.

use std::path::PathBuf;

use clap::Args;

use super::ann::{How, refuse_failures};
use crate::ann::{Growth, write_growth, write_table};

/// Measure workloads of several sizes, and fit how speed and build time grow with the number of vectors.
#[derive(Debug, Args)]
pub(super) struct GrowthCommand {
    /// Workloads of one kind of data and different sizes.
    #[arg(long, value_name = "TOML", value_delimiter = ',', num_args = 1.., required = true)]
    workloads: Vec<PathBuf>,
    #[command(flatten)]
    how: How,
    /// Folder for growth.json, and one folder per workload as `ann` writes them.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl GrowthCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut runs = Vec::new();
        for workload in &self.workloads {
            let name = workload.file_stem().map_or_else(|| "workload".into(), |name| name.to_string_lossy());
            let measured = self.how.measure(workload, &self.out.join(name.as_ref()))?;
            write_table(&mut std::io::stdout().lock(), &measured)?;
            runs.push(measured);
        }
        let growth = Growth::of(&runs);
        let text = format!("{:#}\n", growth.to_json());
        fs_err::write(self.out.join("growth.json"), &text)?;
        if let (Some(records), Some(first)) = (self.how.records(), runs.first()) {
            fs_err::write(records.join(first.stamp.record("growth") + ".json"), &text)?;
        }
        write_growth(&mut std::io::stdout().lock(), &growth)?;
        runs.iter().try_for_each(refuse_failures)
    }
}
