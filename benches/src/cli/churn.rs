//! `dyad-bench churn`.

use std::io::{Write as _, stdout};
use std::time::Duration;

use clap::Args;
use dyad_command::cancel_on_signal;
use serde_json::Value;

use super::comparison::{Comparison, Shared};
use crate::ann::{Churn, Job, Moment, Workload, churn, lock_cache, prepare};
use crate::harness::{Row, RunInfo};

/// Change an index again and again, and measure what is left of recall and speed: a tenth of half the rows is deleted and as many
/// others are added in each cycle.
#[derive(Debug, Args)]
pub(super) struct ChurnCommand {
    #[command(flatten)]
    shared: Shared<Changes>,
    /// Changes; each adds a twentieth of the workload's rows to a first half.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=10))]
    cycles: u16,
    /// Value of the sweep parameter, for all engines.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    ef: u32,
}

/// Changes.
#[derive(Debug)]
struct Changes;

impl Comparison for Changes {
    const PEERS: &'static str = "benches/peers/ann.py";
    const RECORDS: &'static str = "benches/records/churn";
    const ENGINES: &'static str =
        "Engines between commas: dyad-index, hnswlib-replace and qdrant-edge, which is also the default";
    const PYTHON: &'static str = ".venv-ann/bin/python";
}

impl ChurnCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let (cancel, shared) = (cancel_on_signal()?, &self.shared);
        let mut workload = Workload::read(&shared.workload, shared.data.as_deref())?;
        let default = ["dyad-index", "hnswlib-replace", "qdrant-edge"].map(str::to_owned);
        let engines = shared.apply(&mut workload.repeats, &default)?;
        let _lock = lock_cache(&shared.cache)?;
        let note = |text: &str| tracing::info!("{text}");
        let ready = prepare(&workload, &shared.cache, &cancel, &note)?;
        let job = Job {
            workload: &workload,
            engines,
            swept: Vec::new(),
            programs: shared.programs()?,
            cache: fs_err::canonicalize(&shared.cache)?,
            keep_indexes: false,
            cold: false,
            memory_limit: None,
            build_deadline: shared.timeout().max(Duration::from_hours(1)),
            deadline: shared.timeout(),
            cancel,
        };
        let moments = churn(&job, &ready, Churn { cycles: self.cycles.into(), ef: self.ef }, &note)?;
        let stamp = RunInfo::now();
        let row = |moment: &Moment| match serde_json::to_value(moment) {
            Ok(Value::Object(row)) => row,
            _ => Row::new(),
        };
        let rows: Vec<Row> = moments.iter().map(row).collect();
        let record = format!("{}.csv", stamp.record(&workload.name));
        let summary = serde_json::json!({ "workload": workload.name, "ef": self.ef, "moments": moments });
        shared.write(&summary, &[("churn.csv", record, rows)])?;
        let mut out = stdout().lock();
        writeln!(
            out,
            "{:<16} {:>5}  {:<10} {:>7} {:>9} {:>8}",
            "engine", "cycle", "stage", "recall", "QPS", "seconds"
        )?;
        for Moment { engine, cycle, stage, recall, qps, seconds } in &moments {
            writeln!(out, "{engine:<16} {cycle:>5}  {stage:<10} {recall:>7.4} {qps:>9.0} {seconds:>8.2}")?;
        }
        Ok(out.flush()?)
    }
}
