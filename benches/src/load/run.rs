//! A run: the loads that it puts on each engine in turn, and the figures of each pass.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dyad_command::Cancellation;
use serde_json::{Value, json};

use super::arrivals::{Mix, Times};
use super::drive::{Pass, Target};
use super::engines::{ENGINES, Engines, Place};
use super::overload::overload;
use super::peer::Peer;
use super::rate_search::RateSearch;
use super::server::cpu_seconds;
use super::tally::{ANSWERED, NOT_SENT, Tally, milliseconds};
use super::truth::ndcg;
use super::workload::Workload;
use crate::error::{Error, Result};
use crate::harness::{Machine, Programs, Row, RunInfo, median};

/// Highest share of requests without an answer at a rate that passes.
const FAILED_SHARE: f64 = 0.001;

/// What is put on the engines.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    /// Requests per second.
    Rate(f64),
    /// Rising rates, up to the highest with this p99, in milliseconds.
    Ramp(f64),
    /// Clients that wait for their replies.
    Closed(Vec<usize>),
    /// This many times the capacity, in answers per second, which is measured where none is given.
    Overload(f64, Option<f64>),
    /// As many clients as take all, then half of the rate that they got.
    Layers,
}

/// A run to be done.
#[derive(Debug)]
pub struct Job<'a> {
    /// What to ask.
    pub workload: &'a Workload,
    /// Engines, each of which meets the load in turn.
    pub engines: Vec<String>,
    /// What is put on them.
    pub load: Load,
    /// Measured time of a pass.
    pub seconds: f64,
    /// Where the server is.
    pub place: Place,
    /// Where the programs of peers are.
    pub programs: Programs,
    /// For any answer of a peer.
    pub deadline: Duration,
    /// What is made of corpora, and scratch files.
    pub cache: PathBuf,
    /// Ends the run.
    pub cancel: Cancellation,
}

/// What a run has measured.
#[derive(Debug)]
pub struct Measured {
    pub(super) workload: Workload,
    /// A row for each engine and load: medians over the repeats.
    pub(crate) points: Vec<Row>,
    /// By engine: the steps of a ramp, or what an overload did.
    pub(super) details: serde_json::Map<String, Value>,
    pub(super) machine: Machine,
    pub(crate) stamp: RunInfo,
}

/// Puts the load on all engines in turn. `note` hears what is being done.
pub fn run(job: &Job<'_>, note: &dyn Fn(&str)) -> Result<Measured> {
    let peers: Vec<&String> = job.engines.iter().filter(|name| !ENGINES.contains(&name.as_str())).collect();
    if let (Some(peer), true) = (peers.first(), job.load != Load::Closed(vec![1])) {
        let ours = ENGINES.join(", ");
        return Err(Error::Refused(format!("engines: expected {ours}, or with --closed 1 also peers, got `{peer}`")));
    }
    let engines = Engines::open(job.workload, &job.engines, &job.place, &job.cancel, note)?;
    let open = |name: &&String| {
        note(&format!("{name}: embedding the corpus, unless an earlier run has"));
        let place = (&job.programs, job.cache.as_path());
        Peer::open(name, job.workload, &engines.requests, place, (job.deadline, &job.cancel))
    };
    let peers = peers.iter().map(open).collect::<Result<Vec<_>>>()?;
    let details = peers.iter().map(|peer| (peer.name.clone(), json!(peer.described))).collect();
    let mut run = Run { job, engines: &engines, peers: RefCell::new(peers), note, details };
    let points = match &job.load {
        Load::Rate(rate) => run.repeat(|_| vec![Step::Rate(*rate)])?,
        Load::Closed(clients) => run.repeat(|_| clients.iter().map(|clients| Step::Clients(*clients)).collect())?,
        Load::Layers => run.layers()?,
        Load::Ramp(goal_ms) => run.each(|run, name, target| run.ramp(name, target, *goal_ms))?,
        Load::Overload(factor, capacity) => run.each(|run, name, target| {
            let (row, detail) = overload(run, name, target, *factor, *capacity)?;
            run.details.insert(name.to_owned(), detail);
            Ok(row)
        })?,
    };
    let details = run.details;
    let (workload, machine, stamp) = (job.workload.clone(), Machine::this(), RunInfo::now());
    Ok(Measured { workload, points: with_ratios(points), details, machine, stamp })
}

/// One load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Step {
    /// Requests per second.
    Rate(f64),
    /// Clients.
    Clients(usize),
}

pub(super) struct Run<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) engines: &'a Engines,
    peers: RefCell<Vec<Peer>>,
    pub(super) note: &'a dyn Fn(&str),
    details: serde_json::Map<String, Value>,
}

impl Run<'_> {
    pub(super) fn pass(&self, warm_up: Duration, seconds: f64) -> Pass {
        let (workload, requests) = (self.job.workload, &self.engines.requests);
        Pass {
            warm_up,
            measured: Duration::from_secs_f64(seconds),
            deadline: workload.deadline(),
            max_in_flight: workload.max_in_flight,
            kinds: requests.kinds.len(),
            questions: requests.questions.queries.len(),
            cancel: self.job.cancel.clone(),
        }
    }

    pub(super) fn warm_up(&self) -> Duration {
        Duration::from_millis(self.job.workload.warm_up_ms)
    }

    pub(super) fn times(&self, rate: f64, turn: usize) -> Times {
        Times::new(self.job.workload.arrivals, rate, self.job.workload.seed ^ (turn as u64) << 32)
    }

    pub(super) fn mix(&self) -> Mix {
        let weights: Vec<f64> = self.engines.requests.kinds.iter().map(|kind| kind.weight).collect();
        Mix::new(&weights, self.engines.requests.questions.queries.len(), self.job.workload.seed)
    }

    /// One pass of one engine.
    pub(super) fn measure(&self, target: &Arc<dyn Target>, step: Step, turn: usize) -> Result<Tally> {
        let pass = self.pass(self.warm_up(), self.job.seconds);
        let processes = [Some(std::process::id()), self.engines.server_process];
        let used = || processes.map(|process| process.and_then(cpu_seconds));
        thread::scope(|scope| {
            let warm = scope.spawn(|| {
                thread::sleep(pass.warm_up);
                used()
            });
            let mut tally = match step {
                Step::Rate(rate) => pass.open(target.as_ref(), self.times(rate, turn), self.mix()),
                Step::Clients(clients) => pass.closed(target, clients, self.mix()),
            }?;
            let warm = warm.join().unwrap_or_default();
            tally.cpu_seconds = used().into_iter().zip(warm).map(|(now, warm)| Some(now? - warm?)).collect();
            Ok(tally)
        })
    }

    /// All loads on all engines, one after the other, again and again: medians.
    fn repeat(&self, steps: impl Fn(usize) -> Vec<Step>) -> Result<Vec<Row>> {
        let (ours, mut peers) = (&self.engines.ours, self.peers.borrow_mut());
        let engines = ours.len() + peers.len();
        let mut rows: Vec<Vec<Vec<Row>>> = (0..engines).map(|at| vec![Vec::new(); steps(at).len()]).collect();
        for turn in 0..self.job.workload.repeats {
            // Another engine begins each turn, so that none always follows the same one.
            for at in (0..engines).map(|at| (at + turn) % engines) {
                for (step, rows) in steps(at).into_iter().zip(rows.get_mut(at).into_iter().flatten()) {
                    let (name, tally) = match (ours.get(at), peers.get_mut(at.saturating_sub(ours.len()))) {
                        (Some((name, target)), _) => (name, self.measure(target, step, turn)?),
                        (None, Some(peer)) => {
                            let empty = self.pass(self.warm_up(), self.job.seconds).tally()?;
                            let tally = peer.measure(self.warm_up(), self.job.seconds, empty)?;
                            (&peer.name, tally)
                        }
                        (None, None) => continue,
                    };
                    (self.note)(&format!("{name}: {}, pass {} of {}", words(step), turn + 1, self.job.workload.repeats));
                    rows.push(self.row(name, step, &tally, self.job.seconds));
                }
            }
        }
        Ok(rows.iter().flatten().map(|repeats| medians(repeats)).collect())
    }

    fn layers(&self) -> Result<Vec<Row>> {
        let all = self.repeat(|_| vec![Step::Clients(self.job.workload.clients)])?;
        let half = |at: usize| all.get(at).and_then(|row| row.get("qps")?.as_f64()).unwrap_or(0.0) / 2.0;
        if let Some(none) = (0..all.len()).find(|at| half(*at) <= 0.0) {
            let name = self.engines.ours.get(none).map_or("", |(name, _)| name);
            return Err(Error::Refused(format!("{name} answered nothing in the first pass. Use a longer deadline")));
        }
        let halves = self.repeat(|at| vec![Step::Rate(half(at))])?;
        Ok(all.into_iter().chain(halves).collect())
    }

    fn each(
        &mut self,
        mut one: impl FnMut(&mut Self, &str, &Arc<dyn Target>) -> Result<Row>,
    ) -> Result<Vec<Row>> {
        let engines = self.engines;
        engines.ours.iter().map(|(name, target)| one(self, name, target)).collect()
    }

    /// The highest rate whose p99 is at most `goal_ms`, from an eighth of what all clients get on.
    fn ramp(&mut self, name: &str, target: &Arc<dyn Target>, goal_ms: f64) -> Result<Row> {
        let all = self.measure(target, Step::Clients(self.job.workload.clients), 0)?;
        let mut search = RateSearch::new(all.count(ANSWERED) as f64 / self.job.seconds / 8.0);
        let (mut steps, mut best) = (Vec::new(), Row::new());
        while let Some(rate) = search.next() {
            let tally = self.measure(target, Step::Rate(rate), steps.len())?;
            let has_passed =
                tally.failed_share() <= FAILED_SHARE && tally.milliseconds(0.99).is_some_and(|p99| p99 <= goal_ms);
            (self.note)(&format!("{name}: {rate:.0} per second {}", if has_passed { "passed" } else { "failed" }));
            search.tell(has_passed);
            let mut row = self.row(name, Step::Rate(rate), &tally, self.job.seconds);
            if has_passed {
                best.clone_from(&row);
            }
            row.insert("passed".to_owned(), has_passed.into());
            steps.push(Value::Object(row));
        }
        if search.highest().is_none() {
            let problem = format!("no rate has a p99 of {goal_ms} ms. Give a higher --goal-ms");
            return Err(Error::Engine { engine: name.to_owned(), problem });
        }
        self.details.insert(name.to_owned(), Value::Array(steps));
        Ok(best)
    }

    /// The figures of a pass.
    pub(super) fn row(&self, name: &str, step: Step, tally: &Tally, seconds: f64) -> Row {
        let (rate, clients) = match step {
            Step::Rate(rate) => (Some(rate), None),
            Step::Clients(clients) => (None, Some(clients)),
        };
        let requests = &self.engines.requests;
        let cpu_us = |of: usize| Some(tally.cpu_seconds.get(of).copied()?? * 1e6 / tally.count(ANSWERED) as f64);
        let service = |quantile| tally.classes.get(ANSWERED).map(|class| milliseconds(&class.service, quantile));
        let figures = json!({
            "engine": name,
            "clients": clients,
            "rate": rate,
            "qps": tally.count(ANSWERED) as f64 / seconds,
            "goodput": tally.in_time as f64 / seconds,
            "p50_ms": tally.milliseconds(0.5),
            "p90_ms": tally.milliseconds(0.9),
            "p99_ms": tally.milliseconds(0.99),
            "p999_ms": tally.milliseconds(0.999),
            "max_ms": tally.milliseconds(1.0),
            "service_p50_ms": service(0.5),
            "service_p99_ms": service(0.99),
            "cpu_us": cpu_us(0),
            "server_cpu_us": cpu_us(1),
            "failed_share": tally.failed_share(),
            "not_sent": tally.count(NOT_SENT),
            "recall": self.engines.truth.recall(requests, tally),
            "ndcg_10": ndcg(requests, tally),
        });
        match figures {
            Value::Object(row) => row,
            _ => Row::new(),
        }
    }
}

/// `16 clients`, `5000 per second`.
fn words(step: Step) -> String {
    match step {
        Step::Rate(rate) => format!("{rate:.0} per second"),
        Step::Clients(1) => "1 client".to_owned(),
        Step::Clients(clients) => format!("{clients} clients"),
    }
}

/// Each figure's median over passes of the same engine and load.
fn medians(passes: &[Row]) -> Row {
    let mut row = passes.first().cloned().unwrap_or_default();
    for (name, figure) in &mut row {
        let values: Vec<f64> = passes.iter().filter_map(|pass| pass.get(name)?.as_f64()).collect();
        if let (false, Some(middle)) = (name == "clients", median(&values)) {
            *figure = middle.into();
        }
    }
    row
}

/// Adds the answers per second as ratios: to those of the first engine at the same place, and to those of the same engine's first load.
fn with_ratios(mut points: Vec<Row>) -> Vec<Row> {
    let figure = |row: &Row, name: &str| row.get(name).and_then(Value::as_f64);
    let firsts: Vec<Row> = points.clone();
    let name = |row: &Row| row.get("engine").cloned();
    for (at, row) in points.iter_mut().enumerate() {
        let first_engine = firsts.first().and_then(name);
        let is_alike = |other: &&Row| other.get("clients") == row.get("clients") && name(other) == first_engine;
        let of_engine = firsts.iter().find(is_alike).and_then(|first| figure(first, "qps"));
        let of_load = firsts.iter().find(|other| name(other) == name(row)).and_then(|first| figure(first, "qps"));
        let qps = firsts.get(at).and_then(|row| figure(row, "qps"));
        let ratio = |to: Option<f64>| Some(qps? / to.filter(|to| *to > 0.0)?);
        row.insert("of_first_engine".to_owned(), json!(ratio(of_engine)));
        row.insert("of_first_load".to_owned(), json!(ratio(of_load)));
    }
    points
}
