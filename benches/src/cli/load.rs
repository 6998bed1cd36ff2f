//! `dyad-bench load`.

use std::path::PathBuf;

use clap::Args;

use super::comparison::{BenchComparison, ComparisonArguments, note, print_table};
use crate::load::{LoadJob, LoadPlan, LoadWorkload, ServerPlace, run};

/// Put load on a served index, and on the layers below it: latency from the intended start of each request, and quality
/// next to it.
///
/// Without --rate, --ramp, --closed or --overload: as many clients as take all that an engine has, then half of the
/// rate that they got.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("load").args(["rate", "ramp", "closed", "overload"]))]
pub(super) struct LoadCommand {
    #[command(flatten)]
    shared: ComparisonArguments<Self>,
    /// Requests per second, sent whatever the engine does.
    #[arg(long, value_name = "R", value_parser = above_zero)]
    rate: Option<f64>,
    /// Find the highest rate whose p99 is at most --goal-ms with at most 0.1 % of the requests unanswered.
    #[arg(long)]
    ramp: bool,
    /// Clients that each wait for one reply before they send the next request; several numbers between commas are
    /// measured in turn.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    closed: Vec<u16>,
    /// This many times the capacity; before and after it half of the capacity.
    #[arg(long, value_name = "FACTOR", value_parser = above_zero)]
    overload: Option<f64>,
    /// Answers per second for --overload; else measured with as many clients as take all.
    #[arg(long, value_name = "R", value_parser = above_zero, requires = "overload")]
    capacity: Option<f64>,
    /// Highest p99 of --ramp, in milliseconds.
    #[arg(long, default_value_t = 10.0, value_parser = above_zero)]
    goal_ms: f64,
    /// Measured time of a pass, in seconds.
    #[arg(long, default_value_t = 10.0, value_parser = above_zero)]
    seconds: f64,
    /// URL of a running server, in place of one that is started here.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Index, in place of the workload's.
    #[arg(long, value_name = "DIR")]
    index: Option<PathBuf>,
    /// Question tower of the server that is started, in place of the workload's.
    #[arg(long, value_name = "DIR|URL|none")]
    question_tower: Option<String>,
    /// Connections, in place of the workload's.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    connections: Option<u16>,
    /// The program that serves; by default dyad-searcher in the folder of this one.
    #[arg(long, value_name = "FILE")]
    searcher: Option<PathBuf>,
}

impl BenchComparison for LoadCommand {
    const PEERS: &'static str = "benches/peers/load.py";
    const RECORDS: &'static str = "benches/records/load";
    const ENGINES: &'static str = "Engines between commas, in place of the workload's: library, engine (the searcher's, without its \
        protocol), grpc-vectors, grpc-vectors-batch, grpc-text; and with --closed 1 the peers that benches/peers/load.py knows";
    const PYTHON: &'static str = ".venv-encode/bin/python";
}

impl LoadCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let shared = &self.shared;
        let mut workload = LoadWorkload::read(&shared.workload, shared.data.as_deref())?;
        let settings = shared.settings(&mut workload.repeats, &workload.engines)?;
        workload.connections = self.connections.map_or(workload.connections, usize::from);
        workload.server.index = self.index.clone().or(workload.server.index);
        workload.server.question_tower = self.question_tower.clone().or(workload.server.question_tower);
        let load = match (self.rate, self.ramp, self.closed.as_slice(), self.overload) {
            (Some(rate), ..) => LoadPlan::Rate(rate),
            (_, true, ..) => LoadPlan::Ramp(self.goal_ms),
            (.., Some(factor)) => LoadPlan::Overload(factor, self.capacity),
            (_, _, [], None) => LoadPlan::Layers,
            (_, _, clients, None) => LoadPlan::Closed(clients.iter().copied().map(usize::from).collect()),
        };
        let beside = std::env::current_exe()?.with_file_name("dyad-searcher");
        let place = ServerPlace {
            url: self.server.clone(),
            searcher: self.searcher.clone().unwrap_or(beside),
            log: shared.out.join("server.log"),
        };
        let job = LoadJob {
            workload: &workload,
            settings,
            load,
            seconds: self.seconds,
            place,
        };
        let measured = run(&job, &note)?;
        shared.write(&measured)?;
        print_table(&measured)
    }
}

fn above_zero(text: &str) -> Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("expected a number above 0, got `{text}`"))
}
