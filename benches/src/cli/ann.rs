//! `dyad-bench ann` and `growth`.

use std::io::{Write as _, stdout};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use dyad_command::cancel_on_signal;
use serde_json::Value;

use super::comparison::{Comparison, Shared};
use crate::ann::{
    Growth, Job, Judge, Measured, Reuse, Workload, lock_cache, prepare, run, summary, write_engines, write_growth,
    write_plots, write_points, write_results, write_table,
};
use crate::harness::program_hash;

/// Measure approximate search against its peers: recall, speed, build time, memory, each engine in a process of its own.
#[derive(Debug, Args)]
pub(super) struct Ann {
    /// What to measure; see benches/workloads/README.md.
    #[arg(long, value_name = "TOML")]
    workload: PathBuf,
    #[command(flatten)]
    shared: Shared<Search>,
    /// Values of one engine's sweep parameter, in place of its own: NAME=V1:V2:... May be given several times.
    #[arg(long, value_name = "ENGINE=VALUES", value_parser = parse_sweep)]
    sweep: Vec<(String, Vec<u32>)>,
    /// Engines whose kept indexes are built again, between commas.
    #[arg(long, value_delimiter = ',')]
    rebuild: Vec<String>,
    /// Take indexes from an earlier build of this program, or of earlier scripts of the peers: for changes that leave
    /// builders and formats as they are.
    #[arg(long)]
    keep_indexes: bool,
    /// Also write the results as ann-benchmarks does: OUT/results/WORKLOAD/K/ENGINE/*.hdf5.
    #[arg(long)]
    hdf5: bool,
    /// Time for one build, in seconds.
    #[arg(long, default_value_t = 14_400, value_parser = clap::value_parser!(u64).range(1..))]
    build_timeout_s: u64,
    /// Folder for points.csv, engines.csv, summary.json and the plots. Earlier files there are replaced.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Fit how speed, build time and memory grow with the number of vectors.
#[derive(Debug, Args)]
pub(super) struct GrowthCommand {
    /// summary.json of runs of `ann` with one kind of data and different sizes.
    #[arg(value_name = "SUMMARY", num_args = 2.., required = true)]
    summaries: Vec<PathBuf>,
    /// Also write the fits to this file, as JSON and unrounded.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Approximate search.
#[derive(Debug)]
struct Search;

impl Comparison for Search {
    const ENGINES: &'static str = "dyad, `hnsw_rs`, and the peers that benches/peers/ann.py knows. `svs-lvq` stands for all LVQ \
         variants";
    const PYTHON: &'static str = ".venv-ann/bin/python";
    const PEERS: &'static str = "benches/peers/ann.py";
    const RECORDS: &'static str = "benches/records/ann";
    const CACHE: &'static str = "prepared vectors, exact neighbours and built indexes";
    const TIMEOUT_S: &'static str = "600";
}

impl Ann {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let (cancel, shared, out) = (cancel_on_signal()?, &self.shared, &self.out);
        let mut workload = Workload::read(&self.workload, shared.data.as_deref())?;
        let engines = shared.apply(&mut workload.repeats, &workload.engines)?;
        workload.sweep.extend(self.sweep.iter().cloned());
        fs_err::create_dir_all(out)?;
        let _lock = lock_cache(&shared.cache)?;
        let note = |text: &str| tracing::info!("{text}");
        let ready = prepare(&workload, &shared.cache, &cancel, &note)?;
        let programs = shared.programs()?;
        let job = Job {
            workload: &workload,
            engines,
            swept: self.sweep.iter().map(|(name, _)| name.clone()).collect(),
            reuse: Reuse {
                rebuild: self.rebuild.clone(),
                other_programs: self.keep_indexes,
                program: program_hash(&programs.ours),
                peers_program: program_hash(&programs.peers),
            },
            programs,
            cache: shared.cache.clone(),
            build_deadline: Duration::from_secs(self.build_timeout_s),
            deadline: shared.timeout(),
            cancel,
        };
        let measured = run(&job, &ready, &note)?;
        write_plots(out, &measured)?;
        fs_err::write(out.join("summary.json"), format!("{:#}\n", summary(&measured)))?;
        let (mut points, mut engines) = (Vec::new(), Vec::new());
        write_points(&mut points, &measured)?;
        write_engines(&mut engines, &measured)?;
        for (kind, rows) in [("points.csv", points), ("engines.csv", engines)] {
            let record = format!("{}-{kind}", measured.stamp.record(&measured.workload));
            shared.write(&out.join(kind), &record, &rows)?;
        }
        if self.hdf5 {
            let judge = Judge::new(&ready.base, &ready.queries, &ready.truth, workload.k, workload.metric);
            write_results(out, &measured, &judge)?;
        }
        write_table(&mut stdout().lock(), &measured)?;
        refuse_failures(&measured)
    }
}

impl GrowthCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let read = |path: &PathBuf| -> anyhow::Result<Value> {
            let value = serde_json::from_slice(&fs_err::read(path)?);
            value.with_context(|| format!("`{}`: expected the summary.json of a run of `ann`", path.display()))
        };
        let growth = Growth::of(&self.summaries.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?);
        if let Some(path) = &self.json {
            fs_err::write(path, format!("{:#}\n", growth.to_json()))?;
        }
        Ok(write_growth(&mut stdout().lock(), &growth)?)
    }
}

/// A run without some of its engines is written and printed, and still no success.
fn refuse_failures(measured: &Measured) -> anyhow::Result<()> {
    let names: Vec<&str> = measured.failures.iter().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    stdout().flush()?;
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
