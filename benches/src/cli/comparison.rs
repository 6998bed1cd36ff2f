//! `dyad-bench encode` and `train-step`; and what they share with `ann`: arguments, programs, records.

use std::io::{self, Write as _, stdout};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use dyad_command::cancel_on_signal;

use crate::encode::EncodeTask;
use crate::harness::{BenchTask, EngineSettings, Measurement, TaskJob, TaskWorkload, WorkerPrograms, run, write_csv};
use crate::train_step::TrainStep;

/// What the arguments of a comparison say of it.
pub(super) trait BenchComparison {
    /// The peers' worker.
    const PEERS: &'static str = "benches/peers/ann.py";
    /// Folder of records.
    const RECORDS: &'static str;
    /// Help on engines.
    const ENGINES: &'static str;
    /// Python with the peers' packages.
    const PYTHON: &'static str = ".venv-ann/bin/python";
}

impl BenchComparison for EncodeTask {
    const PEERS: &'static str = "benches/peers/encode.py";
    const RECORDS: &'static str = "benches/records/encode";
    const ENGINES: &'static str = "Engines between commas, in place of the workload's: dyad, dyad-bf16, dyad-f16, dyad-int8, and the \
        peers that benches/peers/encode.py knows. Vectors are compared with the first one's";
    const PYTHON: &'static str = ".venv-encode/bin/python";
}

impl BenchComparison for TrainStep {
    const PEERS: &'static str = "benches/peers/train_step.py";
    const RECORDS: &'static str = "benches/records/train-step";
    const ENGINES: &'static str = "Engines between commas, in place of the workload's: dyad, and the peers that \
        benches/peers/train_step.py knows. Losses are compared with the first one's";
    const PYTHON: &'static str = ".venv-encode/bin/python";
}

/// Arguments that all comparisons have.
#[derive(Debug, Args)]
pub(super) struct ComparisonArguments<C: BenchComparison> {
    /// What to measure; see benches/workloads/README.md.
    #[arg(long, value_name = "TOML")]
    pub(super) workload: PathBuf,
    #[arg(long, value_delimiter = ',', help = C::ENGINES)]
    engines: Vec<String>,
    /// Timed passes, in place of the workload's.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    repeats: Option<u16>,
    /// Also write the rows to the comparison's folder under benches/records, or to this one, under names of workload,
    /// day and revision.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = C::RECORDS)]
    record: Option<PathBuf>,
    /// Python with the peers' packages.
    #[arg(long, default_value = C::PYTHON, value_name = "FILE")]
    python: PathBuf,
    /// The peers' worker.
    #[arg(long, default_value = C::PEERS, value_name = "FILE")]
    peers: PathBuf,
    /// Folder of scratch files, and of what is made of models and vectors.
    #[arg(long, default_value = "target/dyad-bench", value_name = "DIR")]
    pub(super) cache: PathBuf,
    /// Where relative paths of data are looked for, if not next to the workload.
    #[arg(long, env = "DYAD_DATA", value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Time for any answer of an engine but a build, in seconds.
    #[arg(long, default_value_t = 3_600, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_s: u64,
    /// Folder for summary.json, the rows and plots. Earlier files there are replaced.
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,
    #[arg(skip)]
    comparison: PhantomData<C>,
}

impl<C: BenchComparison> ComparisonArguments<C> {
    /// Sets the repeats of a workload, makes the folders, and gives how engines are run: those asked for, or else the
    /// workload's.
    pub(super) fn settings(&self, repeats: &mut usize, engines: &[String]) -> anyhow::Result<EngineSettings> {
        *repeats = self.repeats.map_or(*repeats, usize::from);
        let engines = if self.engines.is_empty() {
            engines
        } else {
            &self.engines
        };
        if let Some(engine) = engines.iter().find(|engine| !is_plain(engine)) {
            bail!("--engines: expected names between commas, got `{engine}`");
        }
        fs_err::create_dir_all(&self.out)?;
        fs_err::create_dir_all(&self.cache)?;
        Ok(EngineSettings {
            engines: engines.to_vec(),
            programs: WorkerPrograms {
                ours: std::env::current_exe()?,
                python: self.python.clone(),
                peers: self.peers.clone(),
            },
            cache: fs_err::canonicalize(&self.cache)?,
            deadline: Duration::from_secs(self.timeout_s),
            cancel: cancel_on_signal()?,
        })
    }

    /// Writes the summary and rows, the rows also into the folder of records if they are wanted, under their own names.
    pub(super) fn write(&self, measured: &impl Measurement) -> io::Result<()> {
        fs_err::write(self.out.join("summary.json"), format!("{:#}\n", measured.summary()))?;
        let files = measured.files();
        for (name, rows) in &files {
            let mut content = Vec::new();
            write_csv(&mut content, rows)?;
            fs_err::write(self.out.join(name), &content)?;
            if let Some(records) = &self.record {
                fs_err::create_dir_all(records)?;
                let ending = if files.len() == 1 {
                    ".csv".to_owned()
                } else {
                    format!("-{name}")
                };
                fs_err::write(records.join(measured.record_name() + &ending), &content)?;
            }
        }
        Ok(())
    }
}

/// Prints the table. A run without some of its engines is written and printed, and still no success.
pub(super) fn print_table(measured: &impl Measurement) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    measured.write_table(&mut out)?;
    out.flush()?;
    let failed = measured.failed();
    if failed.is_empty() {
        return Ok(());
    }
    bail!(
        "{} failed: {}",
        if failed.len() == 1 {
            "one engine"
        } else {
            "some engines"
        },
        failed.join(", ")
    )
}

/// Whether an engine's name can be that of a file.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
}

/// Says what is being done.
pub(super) fn note(text: &str) {
    tracing::info!("{text}");
}

/// The arguments of a comparison of engines that open a model.
#[derive(Debug, Args)]
pub(super) struct Compare<C: BenchComparison> {
    #[command(flatten)]
    shared: ComparisonArguments<C>,
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
}

impl<C: BenchComparison + BenchTask> Compare<C> {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let shared = &self.shared;
        let mut workload =
            TaskWorkload::<C::Shape>::read(&shared.workload, shared.data.as_deref(), self.model.as_deref())?;
        workload
            .keep_shapes(&self.shapes)
            .map_err(|problem| anyhow!("--shapes: {problem}"))?;
        workload.threads = self.threads.map_or(workload.threads, usize::from);
        let settings = shared.settings(&mut workload.repeats, &workload.engines)?;
        let job = TaskJob {
            workload: &workload,
            settings,
            device: self.device.clone(),
        };
        let measured = run::<C>(&job, &note)?;
        shared.write(&measured)?;
        print_table(&measured)
    }
}
