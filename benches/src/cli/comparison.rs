//! `dyad-bench encode` and `train-step`; and what they share with `ann`: arguments, programs, records.

use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use dyad_command::cancel_on_signal;

use crate::encode::Encode;
use crate::harness::{Job, Programs, Task, Workload, run, summary, threads, write_points, write_table};
use crate::train_step::TrainStep;

/// What the arguments of a comparison say of it.
pub(super) trait Comparison {
    /// Help on engines: their names, and what is compared with the first one's.
    const ENGINES: &'static str;
    /// Python with the peers' packages.
    const PYTHON: &'static str;
    /// The peers' worker.
    const PEERS: &'static str;
    /// Folder of records.
    const RECORDS: &'static str;
    /// What the work directory holds.
    const CACHE: &'static str;
    /// Time for any answer of an engine, in seconds.
    const TIMEOUT_S: &'static str;
}

impl Comparison for Encode {
    const ENGINES: &'static str = "dyad, dyad-bf16, dyad-f16, dyad-int8, and the peers that benches/peers/encode.py knows. \
         Vectors are compared with the first one's";
    const PYTHON: &'static str = ".venv-encode/bin/python";
    const PEERS: &'static str = "benches/peers/encode.py";
    const RECORDS: &'static str = "benches/records/encode";
    const CACHE: &'static str = "exported models and scratch files";
    const TIMEOUT_S: &'static str = "3600";
}

impl Comparison for TrainStep {
    const ENGINES: &'static str =
        "dyad, and the peers that `benches/peers/train_step.py` knows. Losses are compared with the first one's";
    const PYTHON: &'static str = ".venv-encode/bin/python";
    const PEERS: &'static str = "benches/peers/train_step.py";
    const RECORDS: &'static str = "benches/records/train-step";
    const CACHE: &'static str = "scratch files";
    const TIMEOUT_S: &'static str = "600";
}

/// Arguments that all comparisons have.
#[derive(Debug, Args)]
pub(super) struct Shared<C: Comparison> {
    #[arg(long, value_delimiter = ',', help = format!("Engines between commas, in place of the workload's: {}", C::ENGINES))]
    engines: Vec<String>,
    /// Timed passes, in place of the workload's; of `ann` those on one thread.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    repeats: Option<u16>,
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = C::RECORDS, help = record_help(C::RECORDS))]
    pub(super) record: Option<PathBuf>,
    /// Python with the peers' packages.
    #[arg(long, default_value = C::PYTHON, value_name = "FILE")]
    python: PathBuf,
    /// The peers' worker.
    #[arg(long, default_value = C::PEERS, value_name = "FILE")]
    pub(super) peers: PathBuf,
    #[arg(long, default_value = "target/dyad-bench", value_name = "DIR", help = format!("Folder of {}", C::CACHE))]
    pub(super) cache: PathBuf,
    /// Where relative paths of data are looked for, if not next to the workload.
    #[arg(long, env = "DYAD_DATA", value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Time for any answer of an engine but a build, in seconds.
    #[arg(long, default_value = C::TIMEOUT_S, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_s: u64,
    #[arg(skip)]
    comparison: PhantomData<C>,
}

fn record_help(records: &str) -> String {
    format!("Also write the rows to {records}, or to this folder, under the names of workload, day and revision")
}

impl<C: Comparison> Shared<C> {
    /// Sets the repeats of a workload, and gives the engines: those asked for, or else the workload's.
    pub(super) fn apply(&self, repeats: &mut usize, engines: &[String]) -> anyhow::Result<Vec<String>> {
        *repeats = self.repeats.map_or(*repeats, usize::from);
        let engines = if self.engines.is_empty() { engines } else { &self.engines };
        // Names of engines become names of files.
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if let Some(engine) = engines.iter().find(|engine| engine.is_empty() || !engine.chars().all(plain)) {
            bail!("--engines: expected names between commas, got `{engine}`");
        }
        Ok(engines.to_vec())
    }

    pub(super) fn programs(&self) -> io::Result<Programs> {
        Ok(Programs { ours: std::env::current_exe()?, python: self.python.clone(), peers: self.peers.clone() })
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s)
    }

    /// Writes a record into `out`, and into the folder of records if they are wanted.
    pub(super) fn write(&self, file: &Path, record: &str, content: &[u8]) -> io::Result<()> {
        fs_err::write(file, content)?;
        let Some(records) = &self.record else { return Ok(()) };
        fs_err::create_dir_all(records)?;
        fs_err::write(records.join(record), content)
    }
}

/// The arguments of a comparison of engines that open a model.
#[derive(Debug, Args)]
pub(super) struct Compare<C: Comparison> {
    /// What to measure; see benches/workloads/README.md.
    #[arg(long, value_name = "TOML")]
    workload: PathBuf,
    #[command(flatten)]
    shared: Shared<C>,
    /// Shapes between commas; all of the workload's where absent.
    #[arg(long, value_delimiter = ',')]
    shapes: Vec<String>,
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
}

impl<C: Comparison + Task> Compare<C> {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let (cancel, shared) = (cancel_on_signal()?, &self.shared);
        let mut workload = Workload::<C::Shape>::read(&self.workload, shared.data.as_deref(), self.model.as_deref())?;
        workload.keep_shapes(&self.shapes).map_err(|problem| anyhow!("--shapes: {problem}"))?;
        let engines = shared.apply(&mut workload.repeats, &workload.engines)?;
        let threads = self.threads.map_or_else(|| threads(workload.threads), usize::from);
        for dir in [&self.out, &shared.cache] {
            fs_err::create_dir_all(dir)?;
        }
        let job = Job {
            workload: &workload,
            engines,
            device: self.device.clone(),
            threads,
            programs: shared.programs()?,
            cache: fs_err::canonicalize(&shared.cache)?,
            deadline: shared.timeout(),
            cancel,
        };
        let measured = run::<C>(&job, &|text| tracing::info!("{text}"))?;
        fs_err::write(self.out.join("summary.json"), format!("{:#}\n", summary(&measured)))?;
        let mut points = Vec::new();
        write_points(&mut points, &measured)?;
        shared.write(&self.out.join("points.csv"), &(measured.record() + ".csv"), &points)?;
        let mut out = io::stdout().lock();
        write_table(&mut out, &measured)?;
        let failed = measured.failed();
        if !failed.is_empty() {
            out.flush()?;
            bail!("{} failed: {}", if failed.len() == 1 { "one engine" } else { "some engines" }, failed.join(", "));
        }
        Ok(())
    }
}
