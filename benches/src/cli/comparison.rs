//! What the commands share that compare engines at the shapes of a workload: arguments, the way of a run, files, exit.

use std::io::{self, StdoutLock, Write as _};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use dyad_command::cancel_on_signal;
use serde_json::Value;

use super::ann::plain_names;
use crate::harness::{Conditions, Job, NamedShape, Programs, Result, Shaped, threads};

/// One such comparison.
pub(super) trait Comparison {
    /// What is to be measured.
    type Workload: Shaped;
    /// What was measured.
    type Measured;
    /// From the one to the other, and to files.
    const STEPS: Steps<Self::Workload, Self::Measured>;
    /// Help on engines: their names, and what is compared with the first one's.
    const ENGINES: &'static str;
    /// The peers' worker.
    const PEERS: &'static str;
    /// Folder of records.
    const RECORDS: &'static str;
    /// What the work directory holds.
    const CACHE: &'static str;
    /// Time for any answer of an engine, in seconds.
    const TIMEOUT_S: &'static str;
}

/// Runs a job; the function hears what is being done.
type Run<W, M> = fn(&Job<'_, W>, &dyn Fn(&str)) -> Result<M>;

/// What a comparison does in its own way.
pub(super) struct Steps<W, M> {
    pub(super) run: Run<W, M>,
    /// Where and when it ran.
    pub(super) conditions: fn(&M) -> &Conditions,
    /// Engines that failed, and where.
    pub(super) failed: fn(&M) -> Vec<String>,
    /// `summary.json`.
    pub(super) summary: fn(&M) -> Value,
    /// `points.csv`.
    pub(super) points: fn(&mut Vec<u8>, &M) -> io::Result<()>,
    /// The table for people.
    pub(super) table: fn(&mut StdoutLock<'static>, &M) -> io::Result<()>,
}

/// The arguments of a comparison.
#[derive(Debug, Args)]
pub(super) struct Compare<C: Comparison> {
    /// What to measure; see benches/workloads/README.md.
    #[arg(long, value_name = "TOML")]
    workload: PathBuf,
    #[arg(long, value_delimiter = ',', help = engines_help(C::ENGINES))]
    engines: Vec<String>,
    /// Shapes between commas; all of the workload's where absent.
    #[arg(long, value_delimiter = ',')]
    shapes: Vec<String>,
    /// Timed passes, in place of the workload's.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    repeats: Option<u16>,
    /// cpu, cuda or cuda:N, for all engines.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Threads of every engine, in place of the workload's.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Model directory, in place of the workload's.
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Folder for points.csv and summary.json. Earlier files there are replaced.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = C::RECORDS, help = record_help(C::RECORDS))]
    record: Option<PathBuf>,
    /// Python with the peers' packages.
    #[arg(long, default_value = ".venv-encode/bin/python", value_name = "FILE")]
    python: PathBuf,
    /// The peers' worker.
    #[arg(long, default_value = C::PEERS, value_name = "FILE")]
    peers: PathBuf,
    #[arg(long, default_value = "target/dyad-bench", value_name = "DIR", help = format!("Folder of {}", C::CACHE))]
    cache: PathBuf,
    #[arg(long, env = "DYAD_DATA", value_name = "DIR", help = data_help::<C>())]
    data: Option<PathBuf>,
    /// Time for any answer of an engine, in seconds.
    #[arg(long, default_value = C::TIMEOUT_S, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_s: u64,
    #[arg(skip)]
    comparison: PhantomData<C>,
}

fn engines_help(engines: &str) -> String {
    format!("Engines between commas, in place of the workload's: {engines}")
}

fn record_help(records: &str) -> String {
    format!("Also write points.csv to {records}, or to this folder, under the names of workload, day and revision")
}

fn data_help<C: Comparison>() -> String {
    let files = <<C::Workload as Shaped>::Shape as NamedShape>::FILES;
    format!("Where relative paths of {files} are looked for, if not beside the workload")
}

impl<C: Comparison> Compare<C> {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let cancel = cancel_on_signal()?;
        let mut workload = C::Workload::read(&self.workload, self.data.as_deref(), self.model.as_deref())?;
        workload.keep_shapes(&self.shapes).map_err(|problem| anyhow!("--shapes: {problem}"))?;
        let parts = workload.parts();
        if let Some(repeats) = self.repeats {
            *parts.repeats = usize::from(repeats);
        }
        let engines = if self.engines.is_empty() { parts.engines.to_vec() } else { self.engines.clone() };
        let threads = self.threads.map_or_else(|| threads(parts.threads), usize::from);
        plain_names(&engines)?;
        for dir in [&self.out, &self.cache] {
            fs_err::create_dir_all(dir)?;
        }
        let job = Job {
            workload: &workload,
            engines,
            device: self.device.clone(),
            threads,
            programs: Programs {
                ours: std::env::current_exe()?,
                python: self.python.clone(),
                peers: self.peers.clone(),
            },
            cache: fs_err::canonicalize(&self.cache)?,
            deadline: Duration::from_secs(self.timeout_s),
            cancel,
        };
        let measured = (C::STEPS.run)(&job, &|text| tracing::info!("{text}"))?;
        self.write(&measured)?;
        let mut out = io::stdout().lock();
        (C::STEPS.table)(&mut out, &measured)?;
        let failed = (C::STEPS.failed)(&measured);
        if !failed.is_empty() {
            out.flush()?;
            bail!("{} failed: {}", if failed.len() == 1 { "one engine" } else { "some engines" }, failed.join(", "));
        }
        Ok(())
    }

    fn write(&self, measured: &C::Measured) -> anyhow::Result<()> {
        fs_err::write(self.out.join("summary.json"), format!("{:#}\n", (C::STEPS.summary)(measured)))?;
        let mut points = Vec::new();
        (C::STEPS.points)(&mut points, measured)?;
        fs_err::write(self.out.join("points.csv"), &points)?;
        if let Some(records) = &self.record {
            fs_err::create_dir_all(records)?;
            let Conditions { workload, stamp, .. } = (C::STEPS.conditions)(measured);
            fs_err::write(records.join(stamp.record(workload) + ".csv"), &points)?;
        }
        Ok(())
    }
}
