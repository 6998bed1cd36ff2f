//! `dyad-bench train-step`.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;

use super::ann::plain_names;
use super::interrupt;
use crate::harness::{Programs, Shaped as _};
use crate::train_step::{Job, Measured, Workload, run, summary, write_points, write_table};

/// Measure a step of training against peers: forward of both towers, in-batch loss, backward, clipping, optimizer, each engine in
/// a process of its own.
#[derive(Debug, Args)]
pub(super) struct TrainStep {
    /// What to measure; see benches/workloads/README.md.
    #[arg(long, value_name = "TOML")]
    workload: PathBuf,
    /// Engines between commas, in place of the workload's: dyad, and the peers that `benches/peers/train_step.py` knows. Losses are
    /// compared with the first one's.
    #[arg(long, value_delimiter = ',')]
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
    /// Also write points.csv to benches/records/train-step, or to this folder, under the names of workload, day and revision.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "benches/records/train-step")]
    record: Option<PathBuf>,
    /// Python with the peers' packages.
    #[arg(long, default_value = ".venv-encode/bin/python", value_name = "FILE")]
    python: PathBuf,
    /// The peers' worker.
    #[arg(long, default_value = "benches/peers/train_step.py", value_name = "FILE")]
    peers: PathBuf,
    /// Folder of scratch files.
    #[arg(long, default_value = "target/dyad-bench", value_name = "DIR")]
    cache: PathBuf,
    /// Where relative paths of pairs are looked for, if not beside the workload.
    #[arg(long, env = "DYAD_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// Time for any answer of an engine, in seconds.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_s: u64,
}

impl TrainStep {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let cancel = interrupt::watch()?;
        let mut workload = Workload::read(&self.workload, self.data.as_deref(), self.model.as_deref())?;
        workload.keep_shapes(&self.shapes).map_err(|problem| anyhow!("--shapes: {problem}"))?;
        if let Some(repeats) = self.repeats {
            workload.repeats = usize::from(repeats);
        }
        let engines = if self.engines.is_empty() { workload.engines.clone() } else { self.engines.clone() };
        plain_names(&engines)?;
        let machine = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let of_workload = if workload.threads == 0 { machine } else { workload.threads };
        for dir in [&self.out, &self.cache] {
            fs_err::create_dir_all(dir)?;
        }
        let job = Job {
            workload: &workload,
            engines,
            device: self.device.clone(),
            threads: self.threads.map_or(of_workload, usize::from),
            programs: Programs {
                ours: std::env::current_exe()?,
                python: self.python.clone(),
                peers: self.peers.clone(),
            },
            cache: fs_err::canonicalize(&self.cache)?,
            deadline: Duration::from_secs(self.timeout_s),
            cancel,
        };
        let measured = run(&job, &|text| tracing::info!("{text}"))?;
        self.write(&measured)?;
        write_table(&mut std::io::stdout().lock(), &measured)?;
        let failed = measured.failed();
        if !failed.is_empty() {
            std::io::stdout().flush()?;
            bail!("{} failed: {}", if failed.len() == 1 { "one engine" } else { "some engines" }, failed.join(", "));
        }
        Ok(())
    }

    fn write(&self, measured: &Measured) -> anyhow::Result<()> {
        fs_err::write(self.out.join("summary.json"), format!("{:#}\n", summary(measured)))?;
        let mut points = Vec::new();
        write_points(&mut points, measured)?;
        fs_err::write(self.out.join("points.csv"), &points)?;
        if let Some(records) = &self.record {
            fs_err::create_dir_all(records)?;
            let name = measured.conditions.stamp.record(&measured.conditions.workload) + ".csv";
            fs_err::write(records.join(name), &points)?;
        }
        Ok(())
    }
}
