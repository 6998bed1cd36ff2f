//! `dyad-bench churn`.

use std::time::Duration;

use clap::Args;

use super::comparison::{BenchComparison, ComparisonArguments, note, print_table};
use crate::ann::{AnnJob, AnnWorkload, ChurnOptions, churn, lock_cache, prepare};

/// Change an index again and again, and measure what is left of recall and speed: a tenth of half the rows is deleted
/// and as many others are added in each cycle.
#[derive(Debug, Args)]
pub(super) struct ChurnCommand {
    #[command(flatten)]
    shared: ComparisonArguments<Self>,
    /// Changes; each adds a twentieth of the workload's rows to a first half.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=10))]
    cycles: u16,
    /// Value of the sweep parameter, for all engines.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    ef: u32,
}

impl BenchComparison for ChurnCommand {
    const RECORDS: &'static str = "benches/records/churn";
    const ENGINES: &'static str =
        "Engines between commas: dyad-index, hnswlib-replace and qdrant-edge, which is also the default";
}

impl ChurnCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let shared = &self.shared;
        let mut workload = AnnWorkload::read(&shared.workload, shared.data.as_deref())?;
        let default = ["dyad-index", "hnswlib-replace", "qdrant-edge"].map(str::to_owned);
        let settings = shared.settings(&mut workload.repeats, &default)?;
        let build_deadline = settings.deadline.max(Duration::from_hours(1));
        let _lock = lock_cache(&settings.cache)?;
        let ready = prepare(&workload, &settings.cache, &settings.cancel, &note)?;
        let job = AnnJob::new(&workload, settings, build_deadline);
        let measured = churn(
            &job,
            &ready,
            ChurnOptions {
                cycles: self.cycles.into(),
                ef: self.ef,
            },
            &note,
        )?;
        shared.write(&measured)?;
        print_table(&measured)
    }
}
