//! `dyad-bench filter`.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;

use super::ann::parse_sweep;
use super::comparison::{BenchComparison, ComparisonArguments, note, print_table};
use crate::ann::{AnnJob, AnnWorkload, ConditionShape, FilterCorrelation, lock_cache, prepare, run_filter};

/// Measure search under filters against peers: recall and speed for every selectivity, correlation with the questions
/// and shape of condition, at equal recall, next to the search without filter and the exact scan of what passes.
#[derive(Debug, Args)]
pub(super) struct FilterCommand {
    #[command(flatten)]
    shared: ComparisonArguments<Self>,
    /// Percents between commas, in place of the workload's.
    #[arg(long, value_delimiter = ',', value_name = "PERCENT")]
    selectivity: Vec<f64>,
    /// How the rows that pass lie to the questions, in place of the workload's.
    #[arg(long, value_delimiter = ',', value_enum)]
    correlation: Vec<FilterCorrelation>,
    /// Conditions, in place of the workload's.
    #[arg(long, value_delimiter = ',', value_enum)]
    shape: Vec<ConditionShape>,
    /// Only the first queries.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    queries: Option<u32>,
    /// Values of one engine's sweep parameter, in place of its own: NAME=V1:V2:... May be given several times.
    #[arg(long, value_name = "ENGINE=VALUES", value_parser = parse_sweep)]
    sweep: Vec<(String, Vec<u32>)>,
    /// Take indexes of an earlier run, where vectors, settings and what filters read are the same: for changes that
    /// leave builders and formats as they are.
    #[arg(long)]
    keep_indexes: bool,
    /// Time for one build, in seconds.
    #[arg(long, default_value_t = 14_400, value_parser = clap::value_parser!(u64).range(1..))]
    build_timeout_s: u64,
}

impl BenchComparison for FilterCommand {
    const RECORDS: &'static str = "benches/records/filter";
    const ENGINES: &'static str = "Engines between commas, in place of the workload's: dyad, dyad-index, dyad-exact, and those peers of \
        benches/peers/ann.py that have filters";
}

impl FilterCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let shared = &self.shared;
        let mut workload = AnnWorkload::read(&shared.workload, shared.data.as_deref())?;
        let filters = &mut workload.filter;
        replace(&mut filters.selectivity, &self.selectivity);
        replace(&mut filters.correlation, &self.correlation);
        replace(&mut filters.shape, &self.shape);
        filters
            .check()
            .map_err(|problem| anyhow!("filters of the command: {problem}"))?;
        let settings = shared.settings(&mut workload.repeats, &workload.filter.engines)?;
        if let Some(queries) = self.queries {
            workload.data.limit_queries = Some(queries as usize);
        }
        workload.sweep.extend(self.sweep.iter().cloned());
        let _lock = lock_cache(&settings.cache)?;
        let ready = prepare(&workload, &settings.cache, &settings.cancel, &note)?;
        let job = AnnJob {
            swept: self.sweep.iter().map(|(name, _)| name.clone()).collect(),
            keep_indexes: self.keep_indexes,
            ..AnnJob::new(&workload, settings, Duration::from_secs(self.build_timeout_s))
        };
        let measured = run_filter(&job, &ready, &note)?;
        shared.write(&measured)?;
        print_table(&measured)
    }
}

/// What the command gives stands in for what the workload has.
fn replace<T: Clone>(of_workload: &mut Vec<T>, given: &[T]) {
    if !given.is_empty() {
        *of_workload = given.to_vec();
    }
}
