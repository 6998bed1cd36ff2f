//! A run: the loads that it puts on each engine in turn.

use std::cell::RefCell;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::drive::Target;
use super::engines::{ENGINES, Engines};
use super::overload::overload;
use super::passes::{Job, Load, Passes, Step};
use super::peer::Peer;
use super::rate_search::{RateSearch, most};
use super::tally::{ANSWERED, FAILED_SHARE};
use super::workload::Workload;
use crate::error::{Error, Result};
use crate::harness::{Machine, Row, RunInfo, median};

/// What a run has measured.
#[derive(Debug)]
pub struct Measured {
    pub(super) workload: Workload,
    /// A row for each engine and load: medians over the repeats.
    pub(crate) points: Vec<Row>,
    /// By engine: the steps of a ramp, or what an overload did.
    pub(super) details: Map<String, Value>,
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
    let mut run = Run { passes: Passes { job, engines: &engines, note }, peers: RefCell::new(peers), details };
    let points = match &job.load {
        Load::Rate(rate) => run.repeat(|_| vec![Step::Rate(*rate)])?,
        Load::Closed(clients) => run.repeat(|_| clients.iter().map(|clients| Step::Clients(*clients)).collect())?,
        Load::Layers => run.layers()?,
        Load::Ramp(goal_ms) => run.each(|run, name, target| run.ramp(name, target, *goal_ms))?,
        Load::Overload(factor, capacity) => run.each(|run, name, target| {
            let (row, detail) = overload(&run.passes, name, target, *factor, *capacity)?;
            run.details.insert(name.to_owned(), detail);
            Ok(row)
        })?,
    };
    let details = run.details;
    let (workload, machine, stamp) = (job.workload.clone(), Machine::this(), RunInfo::now());
    Ok(Measured { workload, points: with_ratios(points), details, machine, stamp })
}

struct Run<'a> {
    passes: Passes<'a>,
    peers: RefCell<Vec<Peer>>,
    details: Map<String, Value>,
}

impl Run<'_> {
    /// All loads on all engines, one after the other, again and again: medians.
    fn repeat(&self, steps: impl Fn(usize) -> Vec<Step>) -> Result<Vec<Row>> {
        let (ours, mut peers) = (&self.passes.engines.ours, self.peers.borrow_mut());
        let engines = ours.len() + peers.len();
        let mut rows: Vec<Vec<Vec<Row>>> = (0..engines).map(|at| vec![Vec::new(); steps(at).len()]).collect();
        for turn in 0..self.passes.job.workload.repeats {
            // Another engine begins each turn, so that none always follows the same one.
            for at in (0..engines).map(|at| (at + turn) % engines) {
                for (step, rows) in steps(at).into_iter().zip(rows.get_mut(at).into_iter().flatten()) {
                    let (name, tally) = match (ours.get(at), peers.get_mut(at.saturating_sub(ours.len()))) {
                        (Some((name, target)), _) => (name, self.passes.measure(target, step, turn)?),
                        (None, Some(peer)) => {
                            let empty = self.passes.pass(self.passes.warm_up(), self.passes.job.seconds).tally()?;
                            let tally = peer.measure(self.passes.warm_up(), self.passes.job.seconds, empty)?;
                            (&peer.name, tally)
                        }
                        (None, None) => continue,
                    };
                    (self.passes.note)(&format!(
                        "{name}: {}, pass {} of {}",
                        words(step),
                        turn + 1,
                        self.passes.job.workload.repeats
                    ));
                    rows.push(self.passes.row(name, step, &tally, self.passes.job.seconds));
                }
            }
        }
        Ok(rows.iter().flatten().map(|repeats| medians(repeats)).collect())
    }

    fn layers(&self) -> Result<Vec<Row>> {
        let all = self.repeat(|_| vec![Step::Clients(self.passes.job.workload.clients)])?;
        let half = |at: usize| all.get(at).and_then(|row| row.get("qps")?.as_f64()).unwrap_or(0.0) / 2.0;
        if let Some(none) = (0..all.len()).find(|at| half(*at) <= 0.0) {
            let name = self.passes.engines.ours.get(none).map_or("", |(name, _)| name);
            return Err(Error::Refused(format!("{name} answered nothing in the first pass. Use a longer deadline")));
        }
        let halves = self.repeat(|at| vec![Step::Rate(half(at))])?;
        Ok(all.into_iter().chain(halves).collect())
    }

    fn each(&mut self, mut one: impl FnMut(&mut Self, &str, &Arc<dyn Target>) -> Result<Row>) -> Result<Vec<Row>> {
        let engines = self.passes.engines;
        engines.ours.iter().map(|(name, target)| one(self, name, target)).collect()
    }

    /// The highest rate at which p99 is at most `goal_ms` in most passes, from an eighth of what all clients get on.
    fn ramp(&mut self, name: &str, target: &Arc<dyn Target>, goal_ms: f64) -> Result<Row> {
        let all = self.passes.measure(target, Step::Clients(self.passes.job.workload.clients), 0)?;
        let mut search = RateSearch::new(all.count(ANSWERED) as f64 / self.passes.job.seconds / 8.0);
        let (mut steps, mut best) = (Vec::new(), Row::new());
        while let Some(rate) = search.next() {
            let (mut rows, mut met) = (Vec::new(), 0);
            let has_passed = loop {
                let tally = self.passes.measure(target, Step::Rate(rate), rows.len())?;
                let is_met =
                    tally.failed_share() <= FAILED_SHARE && tally.milliseconds(0.99).is_some_and(|p99| p99 <= goal_ms);
                met += usize::from(is_met);
                rows.push(self.passes.row(name, Step::Rate(rate), &tally, self.passes.job.seconds));
                if let Some(has_passed) = most(self.passes.job.workload.repeats, met, rows.len() - met) {
                    break has_passed;
                }
            };
            (self.passes.note)(&format!(
                "{name}: {rate:.0} per second {}",
                if has_passed { "passed" } else { "failed" }
            ));
            search.tell(has_passed);
            let mut row = medians(&rows);
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

/// Adds the answers per second of clients as ratios: to those that the first engine gave as many, and to those that the same engine gave
/// the first number of them. At a rate they are the rate.
fn with_ratios(mut points: Vec<Row>) -> Vec<Row> {
    let all = points.clone();
    let (engine, clients) = (|row: &Row| row.get("engine").cloned(), |row: &Row| row.get("clients")?.as_u64());
    for row in &mut points {
        let ratio = |to: Option<&Row>| {
            let qps = |row: &Row| row.get("qps")?.as_f64().filter(|qps| *qps > 0.0);
            clients(row).and_then(|_| Some(qps(row)? / qps(to?)?))
        };
        let as_many = ratio(all.iter().find(|other| clients(other) == clients(row)));
        let same_engine = ratio(all.iter().find(|other| engine(other) == engine(row)));
        row.insert("of_first_engine".to_owned(), json!(as_many));
        row.insert("of_first_load".to_owned(), json!(same_engine));
    }
    points
}
