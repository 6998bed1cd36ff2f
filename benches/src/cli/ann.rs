//! `dyad-bench ann`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use dyad_command::cancel_on_signal;

use crate::ann::{
    Deadlines, Job, Judge, Measured, Reuse, Workload, lock_cache, prepare, run, summary, write_engines, write_plots,
    write_points, write_results, write_table,
};
use crate::harness::{Programs, program_hash, scripts_hash};

/// Measure approximate search against its peers: recall, speed, build time, memory, each engine in a process of its own.
#[derive(Debug, Args)]
pub(super) struct Ann {
    /// What to measure; see benches/workloads/README.md.
    #[arg(long, value_name = "TOML")]
    workload: PathBuf,
    #[command(flatten)]
    how: How,
    /// Folder for points.csv, engines.csv, summary.json and the plots. Earlier files there are replaced.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// How a workload is measured.
#[derive(Debug, Args)]
pub(super) struct How {
    /// Engines between commas, in place of the workload's: dyad, `hnsw_rs`, and the peers that benches/peers/ann.py knows.
    /// `svs-lvq` stands for all LVQ variants, of which the best counts at each recall.
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Timed passes on one thread, in place of the workload's.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    repeats: Option<u16>,
    /// Values of one engine's sweep parameter, in place of its own: NAME=V1:V2:... May be given several times.
    #[arg(long, value_name = "ENGINE=VALUES", value_parser = parse_sweep)]
    sweep: Vec<(String, Vec<u32>)>,
    /// Python with the peers' packages.
    #[arg(long, default_value = ".venv-ann/bin/python", value_name = "FILE")]
    python: PathBuf,
    /// The peers' worker.
    #[arg(long, default_value = "benches/peers/ann.py", value_name = "FILE")]
    peers: PathBuf,
    /// Folder of prepared vectors, exact neighbours and built indexes.
    #[arg(long, default_value = "target/dyad-bench", value_name = "DIR")]
    cache: PathBuf,
    /// Where relative data paths are looked for, if not beside the workload.
    #[arg(long, env = "DYAD_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// Engines whose kept indexes are built anew, between commas.
    #[arg(long, value_delimiter = ',')]
    rebuild: Vec<String>,
    /// Take indexes from an earlier build of this program, or of earlier scripts of the peers: for changes that leave
    /// builders and formats as they are.
    #[arg(long)]
    keep_indexes: bool,
    /// Also write both tables to benches/records/ann, or to this folder, under the names of workload, day and revision.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "benches/records/ann")]
    record: Option<PathBuf>,
    /// Also write the results as ann-benchmarks does: OUT/results/WORKLOAD/K/ENGINE/*.hdf5.
    #[arg(long)]
    hdf5: bool,
    /// Time for one build, in seconds.
    #[arg(long, default_value_t = 14_400, value_parser = clap::value_parser!(u64).range(1..))]
    build_timeout_s: u64,
    /// Time for any other answer of an engine, in seconds.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_s: u64,
}

impl Ann {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let measured = self.how.measure(&self.workload, &self.out)?;
        write_table(&mut std::io::stdout().lock(), &measured)?;
        refuse_failures(&measured)
    }
}

impl How {
    /// Measures a workload and writes what was measured into `out`.
    pub(super) fn measure(&self, workload: &Path, out: &Path) -> anyhow::Result<Measured> {
        let cancel = cancel_on_signal()?;
        let mut workload = Workload::read(workload, self.data.as_deref())?;
        if let Some(repeats) = self.repeats {
            workload.repeats = usize::from(repeats);
        }
        workload.sweep.extend(self.sweep.iter().cloned());
        let engines = if self.engines.is_empty() { workload.engines.clone() } else { self.engines.clone() };
        plain_names(&engines)?;
        fs_err::create_dir_all(out)?;
        let _lock = lock_cache(&self.cache)?;
        let note = |text: &str| tracing::info!("{text}");
        let ready = prepare(&workload, &self.cache, &cancel, &note)?;
        let ours = std::env::current_exe()?;
        let job = Job {
            workload: &workload,
            engines,
            swept: self.sweep.iter().map(|(name, _)| name.clone()).collect(),
            reuse: Reuse {
                rebuild: self.rebuild.clone(),
                other_programs: self.keep_indexes,
                program: program_hash(&ours),
                peers_program: scripts_hash(&self.peers),
            },
            programs: Programs { ours, python: self.python.clone(), peers: self.peers.clone() },
            cache: self.cache.clone(),
            deadlines: Deadlines {
                build: Duration::from_secs(self.build_timeout_s),
                other: Duration::from_secs(self.timeout_s),
            },
            cancel,
        };
        let measured = run(&job, &ready, &note)?;
        self.write(&measured, out)?;
        if self.hdf5 {
            let judge = Judge::new(&ready.base, &ready.queries, &ready.truth, workload.k, workload.metric);
            write_results(out, &measured, &judge)?;
        }
        Ok(measured)
    }

    /// Where records go, if they are wanted.
    pub(super) fn records(&self) -> Option<&Path> {
        self.record.as_deref()
    }

    fn write(&self, measured: &Measured, out: &Path) -> anyhow::Result<()> {
        write_plots(out, measured)?;
        fs_err::write(out.join("summary.json"), format!("{:#}\n", summary(measured)))?;
        let (mut points, mut engines) = (Vec::new(), Vec::new());
        write_points(&mut points, measured)?;
        write_engines(&mut engines, measured)?;
        fs_err::write(out.join("points.csv"), &points)?;
        fs_err::write(out.join("engines.csv"), &engines)?;
        if let Some(records) = &self.record {
            fs_err::create_dir_all(records)?;
            let name = measured.stamp.record(&measured.workload);
            fs_err::write(records.join(format!("{name}-points.csv")), &points)?;
            fs_err::write(records.join(format!("{name}-engines.csv")), &engines)?;
        }
        Ok(())
    }
}

/// Names of engines become names of files.
pub(super) fn plain_names(engines: &[String]) -> anyhow::Result<()> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    for engine in engines {
        if engine.is_empty() || !engine.chars().all(plain) {
            bail!("--engines: expected names between commas, got `{engine}`");
        }
    }
    Ok(())
}

/// A run without some of its engines is written and printed, and still no success.
pub(super) fn refuse_failures(measured: &Measured) -> anyhow::Result<()> {
    let names: Vec<&str> = measured.failures.iter().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    std::io::stdout().flush()?;
    bail!("{} of {} engines failed: {}", names.len(), names.len() + measured.engines.len(), names.join(", "))
}

/// `NAME=V1:V2:...`.
fn parse_sweep(text: &str) -> Result<(String, Vec<u32>), String> {
    let wrong = || format!("expected ENGINE=VALUE:VALUE:... with ascending values above 0, got `{text}`");
    let (engine, values) = text.split_once('=').ok_or_else(wrong)?;
    let values: Vec<u32> = values.split(':').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
    if values.contains(&0) || !values.is_sorted_by(|left, right| left < right) {
        return Err(wrong());
    }
    Ok((engine.to_owned(), values))
}
