//! A run: the loads that it puts on each engine in turn.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::drive::LoadTarget;
use super::engines::{ENGINES, LoadEngines};
use super::overload::overload;
use super::passes::{LoadJob, LoadPasses, LoadPlan, LoadStep};
use super::peer::LoadPeer;
use super::rate_search::{RateSearch, most};
use super::tally::{ANSWERED, FAILED_SHARE};
use super::workload::LoadWorkload;
use crate::error::{BenchError, BenchResult};
use crate::harness::{FigureRow, MachineInfo, RunInfo, median};

/// What a run has measured.
#[derive(Debug)]
pub struct LoadMeasurement {
    pub(super) workload: LoadWorkload,
    /// A row for each engine and load: medians over the repeats.
    pub(crate) points: Vec<FigureRow>,
    /// Details of each engine: the steps of a ramp, or what an overload did.
    pub(super) details: Map<String, Value>,
    pub(super) machine: MachineInfo,
    pub(crate) stamp: RunInfo,
}

/// Puts the load on all engines in turn. `note` hears what is being done.
pub fn run(job: &LoadJob<'_>, note: &dyn Fn(&str)) -> BenchResult<LoadMeasurement> {
    let peers: Vec<&String> = job
        .settings
        .engines
        .iter()
        .filter(|name| !ENGINES.contains(&name.as_str()))
        .collect();
    if let (Some(peer), true) = (peers.first(), job.load != LoadPlan::Closed(vec![1])) {
        let ours = ENGINES.join(", ");
        return Err(BenchError::Refused(format!(
            "engines: expected {ours}, or with --closed 1 also peers, got `{peer}`"
        )));
    }
    let engines = LoadEngines::open(
        job.workload,
        &job.settings.engines,
        &job.place,
        &job.settings.cancel,
        note,
    )?;
    let mut opened = Vec::new();
    for name in peers {
        note(&format!("{name}: embedding the corpus, unless an earlier run has"));
        opened.push(LoadPeer::open(name, job.workload, &engines.requests, &job.settings)?);
    }
    let details = opened
        .iter()
        .map(|peer| (peer.name().to_owned(), json!(peer.described)))
        .collect();
    let mut run = LoadRun {
        passes: LoadPasses {
            job,
            engines: &engines,
            note,
        },
        peers: opened,
        details,
    };
    let points = match &job.load {
        LoadPlan::Rate(rate) => run.repeat(|_| vec![LoadStep::Rate(*rate)])?,
        LoadPlan::Closed(clients) => {
            run.repeat(|_| clients.iter().map(|clients| LoadStep::Clients(*clients)).collect())?
        }
        LoadPlan::Layers => run.layers()?,
        LoadPlan::Ramp(goal_ms) => run.each(|run, name, target| run.ramp(name, target, *goal_ms))?,
        LoadPlan::Overload(factor, capacity) => run.each(|run, name, target| {
            let (row, detail) = overload(&run.passes, name, target, *factor, *capacity)?;
            run.details.insert(name.to_owned(), detail);
            Ok(row)
        })?,
    };
    let details = run.details;
    let (workload, machine, stamp) = (job.workload.clone(), MachineInfo::this(), RunInfo::now());
    Ok(LoadMeasurement {
        workload,
        points: with_ratios(points),
        details,
        machine,
        stamp,
    })
}

struct LoadRun<'a> {
    passes: LoadPasses<'a>,
    peers: Vec<LoadPeer>,
    details: Map<String, Value>,
}

impl LoadRun<'_> {
    /// All loads on all engines, one after the other, again and again: medians.
    fn repeat(&mut self, steps: impl Fn(usize) -> Vec<LoadStep>) -> BenchResult<Vec<FigureRow>> {
        let LoadPasses { job, note, engines } = self.passes;
        let count = engines.ours.len() + self.peers.len();
        let repeats = job.workload.repeats;
        let mut rows: Vec<Vec<Vec<FigureRow>>> = (0..count).map(|at| vec![Vec::new(); steps(at).len()]).collect();
        for turn in 0..repeats {
            // Another engine begins each turn, so that none always follows the same one.
            for at in (0..count).map(|at| (at + turn) % count) {
                for (step, rows) in steps(at).into_iter().zip(&mut rows[at]) {
                    let row = self.measure(at, step, turn)?;
                    let name = row.get("engine").and_then(Value::as_str).unwrap_or_default();
                    note(&format!("{name}: {step}, pass {} of {repeats}", turn + 1));
                    rows.push(row);
                }
            }
        }
        Ok(rows.iter().flatten().map(|repeats| medians(repeats)).collect())
    }

    /// One pass of one engine, ours before the peers.
    fn measure(&mut self, at: usize, step: LoadStep, turn: usize) -> BenchResult<FigureRow> {
        let passes = self.passes;
        let ours = &passes.engines.ours;
        if let Some((name, target)) = ours.get(at) {
            return Ok(passes.row(name, step, &passes.measure(target, step, turn)?));
        }
        let peer = &mut self.peers[at - ours.len()];
        let (warm_up, seconds) = (passes.warm_up(), passes.job.seconds);
        let tally = peer.measure(warm_up, seconds, passes.pass(warm_up, seconds).tally()?)?;
        Ok(passes.row(peer.name(), step, &tally))
    }

    /// As many clients as take all, then half of the rate that they got.
    fn layers(&mut self) -> BenchResult<Vec<FigureRow>> {
        let clients = self.passes.job.workload.clients;
        let all = self.repeat(|_| vec![LoadStep::Clients(clients)])?;
        let half = |at: usize| all.get(at).and_then(|row| row.get("qps")?.as_f64()).unwrap_or(0.0) / 2.0;
        if let Some(none) = (0..all.len()).find(|at| half(*at) <= 0.0) {
            let name = self.passes.engines.ours.get(none).map_or("", |(name, _)| name);
            return Err(BenchError::Refused(format!(
                "{name} answered nothing in the first pass. Use a longer deadline"
            )));
        }
        let halves = self.repeat(|at| vec![LoadStep::Rate(half(at))])?;
        Ok(all.into_iter().chain(halves).collect())
    }

    fn each(
        &mut self,
        mut one: impl FnMut(&mut Self, &str, &Arc<dyn LoadTarget>) -> BenchResult<FigureRow>,
    ) -> BenchResult<Vec<FigureRow>> {
        let engines = self.passes.engines;
        engines
            .ours
            .iter()
            .map(|(name, target)| one(self, name, target))
            .collect()
    }

    /// The highest rate at which p99 is at most `goal_ms` in most passes, from an eighth of what all clients get on.
    fn ramp(&mut self, name: &str, target: &Arc<dyn LoadTarget>, goal_ms: f64) -> BenchResult<FigureRow> {
        let passes = self.passes;
        let LoadJob { workload, seconds, .. } = passes.job;
        let all = passes.measure(target, LoadStep::Clients(workload.clients), 0)?;
        let mut search = RateSearch::new(all.count(ANSWERED) as f64 / seconds / 8.0);
        let (mut steps, mut best) = (Vec::new(), FigureRow::new());
        while let Some(rate) = search.next() {
            let (mut rows, mut met) = (Vec::new(), 0);
            let has_passed = loop {
                let tally = passes.measure(target, LoadStep::Rate(rate), rows.len())?;
                let is_fast = tally.milliseconds(0.99).is_some_and(|p99| p99 <= goal_ms);
                met += usize::from(is_fast && tally.failed_share() <= FAILED_SHARE);
                rows.push(passes.row(name, LoadStep::Rate(rate), &tally));
                if let Some(has_passed) = most(workload.repeats, met, rows.len() - met) {
                    break has_passed;
                }
            };
            let outcome = if has_passed { "passed" } else { "failed" };
            (passes.note)(&format!("{name}: {rate:.0} per second {outcome}"));
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
            return Err(BenchError::Engine {
                engine: name.to_owned(),
                problem,
            });
        }
        self.details.insert(name.to_owned(), Value::Array(steps));
        Ok(best)
    }
}

/// Each figure's median over passes of the same engine and load.
fn medians(passes: &[FigureRow]) -> FigureRow {
    let mut row = passes.first().cloned().unwrap_or_default();
    for (name, figure) in &mut row {
        let values: Vec<f64> = passes.iter().filter_map(|pass| pass.get(name)?.as_f64()).collect();
        if let (false, Some(middle)) = (name == "clients", median(&values)) {
            *figure = middle.into();
        }
    }
    row
}

/// Adds the answers per second of clients as ratios: to those that the first engine gave as many, and to those that the
/// same engine gave the first number of them. At a rate they are the rate.
fn with_ratios(mut points: Vec<FigureRow>) -> Vec<FigureRow> {
    let all = points.clone();
    let (engine, clients) = (
        |row: &FigureRow| row.get("engine").cloned(),
        |row: &FigureRow| row.get("clients")?.as_u64(),
    );
    for row in &mut points {
        let ratio = |to: Option<&FigureRow>| {
            let qps = |row: &FigureRow| row.get("qps")?.as_f64().filter(|qps| *qps > 0.0);
            clients(row).and_then(|_| Some(qps(row)? / qps(to?)?))
        };
        let as_many = ratio(all.iter().find(|other| clients(other) == clients(row)));
        let same_engine = ratio(all.iter().find(|other| engine(other) == engine(row)));
        row.insert("of_first_engine".to_owned(), json!(as_many));
        row.insert("of_first_load".to_owned(), json!(same_engine));
    }
    points
}
