//! `dyad-bench ann`.

use std::io::stdout;
use std::time::Duration;

use clap::Args;
use dyad_command::cancel_on_signal;

use super::comparison::{Comparison, Shared, refuse_failures};
use crate::ann::{Job, Judge, Workload, lock_cache, prepare, run, write_plots, write_results};

/// Measure approximate search against its peers: recall, speed, build time, memory, each engine in a process of its own.
#[derive(Debug, Args)]
pub(super) struct Ann {
    #[command(flatten)]
    shared: Shared<Search>,
    /// Values of one engine's sweep parameter, in place of its own: NAME=V1:V2:... May be given several times.
    #[arg(long, value_name = "ENGINE=VALUES", value_parser = parse_sweep)]
    sweep: Vec<(String, Vec<u32>)>,
    /// Take indexes of an earlier run, where vectors and settings are the same: for changes that leave builders and formats as they
    /// are.
    #[arg(long)]
    keep_indexes: bool,
    /// Drop the files of an index from the page cache before it is opened, in place of reading them into it.
    #[arg(long)]
    cold: bool,
    /// MiB that each engine's process may take from opening on, pages of its files included: what a machine with less memory
    /// would answer. Implies --cold. Needs control groups that this user may make.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    memory_limit: Option<u64>,
    /// Also write the results as ann-benchmarks does: OUT/results/WORKLOAD/K/ENGINE/*.hdf5.
    #[arg(long)]
    hdf5: bool,
    /// Time for one build, in seconds.
    #[arg(long, default_value_t = 14_400, value_parser = clap::value_parser!(u64).range(1..))]
    build_timeout_s: u64,
}

/// Approximate search.
#[derive(Debug)]
struct Search;

impl Comparison for Search {
    const PEERS: &'static str = "benches/peers/ann.py";
    const RECORDS: &'static str = "benches/records/ann";
    const ENGINES: &'static str = "Engines between commas, in place of the workload's: dyad, hnsw_rs, and the peers that \
        benches/peers/ann.py knows. svs-lvq, svs-r64, rabitq, vsag, glass, faiss-refine and qdrant-edge-binary stand for several each";
    const PYTHON: &'static str = ".venv-ann/bin/python";
}

impl Ann {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let (cancel, shared) = (cancel_on_signal()?, &self.shared);
        let mut workload = Workload::read(&shared.workload, shared.data.as_deref())?;
        let engines = shared.apply(&mut workload.repeats, &workload.engines)?;
        workload.sweep.extend(self.sweep.iter().cloned());
        let _lock = lock_cache(&shared.cache)?;
        let note = |text: &str| tracing::info!("{text}");
        let ready = prepare(&workload, &shared.cache, &cancel, &note)?;
        let job = Job {
            workload: &workload,
            engines,
            swept: self.sweep.iter().map(|(name, _)| name.clone()).collect(),
            programs: shared.programs()?,
            cache: shared.cache.clone(),
            keep_indexes: self.keep_indexes,
            cold: self.cold || self.memory_limit.is_some(),
            memory_limit: self.memory_limit.map(|mebibytes| mebibytes << 20),
            build_deadline: Duration::from_secs(self.build_timeout_s),
            deadline: shared.timeout(),
            cancel,
        };
        let measured = run(&job, &ready, &note)?;
        let file = |name: &'static str, rows| (name, format!("{}-{name}", measured.stamp.record(&workload.name)), rows);
        let files = [file("points.csv", measured.points()), file("engines.csv", measured.rows())];
        shared.write(&measured.summary(), &files)?;
        write_plots(&shared.out, &measured)?;
        if self.hdf5 {
            let judge = Judge::new(&ready.base, &ready.queries, &ready.truth, workload.k, workload.metric);
            write_results(&shared.out, &measured, &judge)?;
        }
        measured.write_table(&mut stdout().lock())?;
        refuse_failures(&measured.failures.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>())
    }
}

/// `NAME=V1:V2:...`.
pub(super) fn parse_sweep(text: &str) -> Result<(String, Vec<u32>), String> {
    let wrong = || format!("expected ENGINE=VALUE:VALUE:... with ascending values above 0, got `{text}`");
    let (engine, values) = text.split_once('=').ok_or_else(wrong)?;
    let values: Vec<u32> = values.split(':').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
    let ascending = !values.contains(&0) && values.is_sorted_by(|left, right| left < right);
    if ascending { Ok((engine.to_owned(), values)) } else { Err(wrong()) }
}
