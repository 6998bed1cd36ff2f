//! `dyad-bench filter`.

use std::io::stdout;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use dyad_command::cancel_on_signal;

use super::ann::parse_sweep;
use super::comparison::{Comparison, Shared, refuse_failures};
use crate::ann::{Correlation, Job, Shape, Workload, lock_cache, prepare, run_filter};

/// Measure search under filters against peers: recall and speed for every selectivity, correlation with the questions and shape of
/// condition, at equal recall, next to the search without filter and the exact scan of what passes.
#[derive(Debug, Args)]
pub(super) struct FilterCommand {
    #[command(flatten)]
    shared: Shared<Filtered>,
    /// Percents between commas, in place of the workload's.
    #[arg(long, value_delimiter = ',', value_name = "PERCENT")]
    selectivity: Vec<f64>,
    /// How the rows that pass lie to the questions, in place of the workload's.
    #[arg(long, value_delimiter = ',', value_enum)]
    correlation: Vec<Correlation>,
    /// Conditions, in place of the workload's.
    #[arg(long, value_delimiter = ',', value_enum)]
    shape: Vec<Shape>,
    /// Only the first queries.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    queries: Option<u32>,
    /// Values of one engine's sweep parameter, in place of its own: NAME=V1:V2:... May be given several times.
    #[arg(long, value_name = "ENGINE=VALUES", value_parser = parse_sweep)]
    sweep: Vec<(String, Vec<u32>)>,
    /// Take indexes of an earlier run, where vectors, settings and what filters read are the same: for changes that leave builders
    /// and formats as they are.
    #[arg(long)]
    keep_indexes: bool,
    /// Time for one build, in seconds.
    #[arg(long, default_value_t = 14_400, value_parser = clap::value_parser!(u64).range(1..))]
    build_timeout_s: u64,
}

/// Search under filters.
#[derive(Debug)]
struct Filtered;

impl Comparison for Filtered {
    const PEERS: &'static str = "benches/peers/ann.py";
    const RECORDS: &'static str = "benches/records/filter";
    const ENGINES: &'static str = "Engines between commas, in place of the workload's: dyad, dyad-index, dyad-exact, and those peers of \
        benches/peers/ann.py that have filters";
    const PYTHON: &'static str = ".venv-ann/bin/python";
}

impl FilterCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let (cancel, shared) = (cancel_on_signal()?, &self.shared);
        let mut workload = Workload::read(&shared.workload, shared.data.as_deref())?;
        let filters = &mut workload.filter;
        replace(&mut filters.selectivity, &self.selectivity);
        replace(&mut filters.correlation, &self.correlation);
        replace(&mut filters.shape, &self.shape);
        filters.check().map_err(|problem| anyhow!("filters of the command: {problem}"))?;
        let engines = shared.apply(&mut workload.repeats, &workload.filter.engines)?;
        if let Some(queries) = self.queries {
            workload.data.limit_queries = Some(queries as usize);
        }
        workload.sweep.extend(self.sweep.iter().cloned());
        let _lock = lock_cache(&shared.cache)?;
        let note = |text: &str| tracing::info!("{text}");
        let ready = prepare(&workload, &shared.cache, &cancel, &note)?;
        let job = Job {
            workload: &workload,
            engines,
            swept: self.sweep.iter().map(|(name, _)| name.clone()).collect(),
            programs: shared.programs()?,
            cache: fs_err::canonicalize(&shared.cache)?,
            keep_indexes: self.keep_indexes,
            cold: false,
            memory_limit: None,
            build_deadline: Duration::from_secs(self.build_timeout_s),
            deadline: shared.timeout(),
            cancel,
        };
        let measured = run_filter(&job, &ready, &note)?;
        let record = measured.stamp.record(&workload.name) + ".csv";
        shared.write(&measured.summary(), &[("cells.csv", record, measured.rows())])?;
        measured.write_table(&mut stdout().lock())?;
        refuse_failures(&measured.failures.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>())
    }
}

/// What the command gives stands in for what the workload has.
fn replace<T: Clone>(of_workload: &mut Vec<T>, given: &[T]) {
    if !given.is_empty() {
        *of_workload = given.to_vec();
    }
}
