//! `dyad-bench ann`.

use std::io::stdout;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::comparison::{BenchComparison, ComparisonArguments, note, print_table};
use crate::ann::{
    AnnJob, AnnWorkload, FrameworkResults, RecallJudge, lock_cache, prepare, run, write_plots, write_results,
};

/// Measure approximate search against its peers: recall, speed, build time, memory, each engine in a process of its
/// own.
#[derive(Debug, Args)]
pub(super) struct AnnCommand {
    #[command(flatten)]
    shared: ComparisonArguments<Self>,
    /// Values of one engine's sweep parameter, in place of its own: NAME=V1:V2:... May be given several times.
    #[arg(long, value_name = "ENGINE=VALUES", value_parser = parse_sweep)]
    sweep: Vec<(String, Vec<u32>)>,
    /// Take indexes of an earlier run, where vectors and settings are the same: for changes that leave builders and
    /// formats as they are.
    #[arg(long)]
    keep_indexes: bool,
    /// Drop the files of an index from the page cache before it is opened, in place of reading them into it.
    #[arg(long)]
    cold: bool,
    /// MiB that each engine's process may take from opening on, pages of its files included: what a machine with less
    /// memory would answer. Implies --cold. Needs control groups that this user may make.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    memory_limit: Option<u64>,
    /// Also write the results as ann-benchmarks does: OUT/results/WORKLOAD/K/ENGINE/*.hdf5.
    #[arg(long)]
    hdf5: bool,
    /// Also show what ann-benchmarks or VIBE have measured on the same data, queries and k, next to this run: their
    /// result files, or folders of them. May be given several times.
    #[arg(long, value_name = "PATH")]
    framework_results: Vec<PathBuf>,
    /// Time for one build, in seconds.
    #[arg(long, default_value_t = 14_400, value_parser = clap::value_parser!(u64).range(1..))]
    build_timeout_s: u64,
}

impl BenchComparison for AnnCommand {
    const RECORDS: &'static str = "benches/records/ann";
    const ENGINES: &'static str = "Engines between commas, in place of the workload's: dyad, hnsw_rs, and the peers that \
        benches/peers/ann.py knows. svs-lvq, svs-r64, rabitq, vsag, glass, faiss-refine and qdrant-edge-binary stand for several each";
}

impl AnnCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let shared = &self.shared;
        let mut workload = AnnWorkload::read(&shared.workload, shared.data.as_deref())?;
        let settings = shared.settings(&mut workload.repeats, &workload.engines)?;
        workload.sweep.extend(self.sweep.iter().cloned());
        let _lock = lock_cache(&settings.cache)?;
        let ready = prepare(&workload, &settings.cache, &settings.cancel, &note)?;
        let judge = RecallJudge::new(&ready.base, &ready.queries, &ready.truth, workload.k, workload.metric);
        // Before the run, which is long: so that wrong files are told at once.
        let frameworks = match &*self.framework_results {
            [] => None,
            paths => Some(FrameworkResults::read(paths, &judge)?),
        };
        let job = AnnJob {
            swept: self.sweep.iter().map(|(name, _)| name.clone()).collect(),
            keep_indexes: self.keep_indexes,
            cold: self.cold || self.memory_limit.is_some(),
            memory_limit: self.memory_limit.map(|mebibytes| mebibytes << 20),
            ..AnnJob::new(&workload, settings, Duration::from_secs(self.build_timeout_s))
        };
        let measured = run(&job, &ready, &note)?;
        shared.write(&measured)?;
        write_plots(&shared.out, &measured)?;
        if self.hdf5 {
            write_results(&shared.out, &measured, &judge)?;
        }
        print_table(&measured)?;
        if let Some(results) = frameworks {
            results.write_table(&measured, &mut stdout().lock())?;
        }
        Ok(())
    }
}

/// `NAME=V1:V2:...`.
pub(super) fn parse_sweep(text: &str) -> Result<(String, Vec<u32>), String> {
    let wrong = || format!("expected ENGINE=VALUE:VALUE:... with ascending values above 0, got `{text}`");
    let (engine, values) = text.split_once('=').ok_or_else(wrong)?;
    let values: Vec<u32> = values
        .split(':')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(|_| wrong())?;
    let ascending = !values.contains(&0) && values.is_sorted_by(|left, right| left < right);
    if ascending {
        Ok((engine.to_owned(), values))
    } else {
        Err(wrong())
    }
}
