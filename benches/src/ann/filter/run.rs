//! The order of a run under filters: indexes, the speed without filter, then cell by cell.
//!
//! In a cell every engine is swept upwards until it reaches the recall, untimed; then timed there, each engine in turn, `repeats`
//! times; then the same without filter, at the value that reaches the recall there. So both speeds see the same machine.

use std::collections::BTreeMap;

use super::attributes::Attributes;
use super::judge::{CellJudge, Judged};
use super::measured::{CellRun, FilterRun, Point};
use crate::ann::cells::Cell;
use crate::ann::data::Ready;
use crate::ann::protocol::{Described, NO_SWEEP, Searched};
use crate::ann::recall::Judge;
use crate::ann::session::{Pass, Run, Session};
use crate::ann::workload::{Job, Workload};
use crate::error::{Result, check};
use crate::harness::{EngineSession as _, Machine, RunInfo, Runner, in_scratch};

/// Runs the cells of a workload; `note` hears what is being done.
pub fn run_filter(job: &Job<'_>, ready: &Ready, note: &dyn Fn(&str)) -> Result<FilterRun> {
    let workload = job.workload;
    let vectors = (&ready.base, &ready.queries, workload.metric);
    let attributes = Attributes::derive(vectors, workload.filter.cells(), workload.filter.groups, workload.seed)?;
    let (cells, engines, failures) = in_scratch(&job.cache, |scratch| {
        let path = scratch.join("attributes.jsonl");
        let hash = attributes.write(&path)?;
        check(&job.cancel)?;
        let judge = Judge::new(&ready.base, &ready.queries, &ready.truth, workload.k, workload.metric);
        let made = std::cell::RefCell::default();
        let run = Run { job, ready, key: ready.key(), attributes: Some((path, hash)), judge, made, note, scratch };
        let mut runner = Runner::new(note);
        let names = run.open_engines(&mut runner)?;
        let engines: Vec<_> = runner.sessions.iter().map(|session| session.run.described.clone()).collect();
        let sweeps = engines.iter().map(|described| {
            let values = run.sweep(&names, &described.engine).unwrap_or_else(|| described.more.defaults.clone());
            (described.engine.clone(), values)
        });
        let cells = Cells { run: &run, attributes: &attributes, sweeps: sweeps.collect(), unfiltered: BTreeMap::new() };
        let cells = cells.measure(&mut runner)?;
        let (_, failures) = runner.close(Session::close);
        Ok((cells, engines, failures))
    })?;
    Ok(FilterRun {
        workload: workload.clone(),
        rows: ready.base.len(),
        dim: ready.base.dim(),
        queries: ready.queries.len(),
        machine: Machine::this(),
        stamp: RunInfo::now(),
        cells,
        engines,
        failures,
    })
}

struct Cells<'a> {
    run: &'a Run<'a>,
    attributes: &'a Attributes,
    /// Values by engine.
    sweeps: BTreeMap<String, Vec<u32>>,
    /// The value that reaches the recall without filter, by engine.
    unfiltered: BTreeMap<String, u32>,
}

impl<'a> Cells<'a> {
    fn measure(mut self, runner: &mut Runner<'_, Session<'a>>) -> Result<Vec<CellRun>> {
        (self.run.note)("without filter");
        let mut unfiltered = BTreeMap::new();
        runner.each(0, |session| {
            if has_sweep(&session.run.described) {
                let judge = |ids: &[i64]| Ok(Judged { recall: self.run.judge.recall(ids), short: 0 });
                let point = self.sweep(session, judge)?;
                unfiltered.insert(point.engine, point.value);
            }
            Ok(())
        })?;
        self.unfiltered = unfiltered;
        let cells = self.run.job.workload.filter.cells();
        let all = cells.len();
        let one = |(at, cell): (usize, Cell)| {
            (self.run.note)(&format!("cell {} of {all}: {cell}", at + 1));
            self.cell(runner, at, cell)
        };
        cells.into_iter().enumerate().map(one).collect()
    }

    fn cell(&self, runner: &mut Runner<'_, Session<'a>>, turn: usize, cell: Cell) -> Result<CellRun> {
        let Run { job, ready, scratch, .. } = *self.run;
        let &Workload { repeats, least_ms, .. } = job.workload;
        let judge = CellJudge::new((ready, job.workload), self.attributes, cell, scratch, &job.cancel)?;
        let mut points: BTreeMap<String, Point> = BTreeMap::new();
        runner.each(turn, |session| {
            session.filter(&judge.filters)?;
            let point = self.sweep(session, |ids| judge.judge(ids))?;
            points.insert(point.engine.clone(), point);
            Ok(())
        })?;
        for pass in 0..repeats {
            runner.each(turn + pass, |session| {
                let Some(point) = points.get_mut(session.engine()) else { return Ok(()) };
                let (Searched { seconds, .. }, _) = session.search(point.value, Pass::Batch(least_ms))?;
                point.seconds.push(seconds);
                let judged = judged(session, &|ids| judge.judge(ids))?;
                point.short = point.short.max(judged.short);
                Ok(())
            })?;
        }
        runner.each(turn, |session| session.filter(&[]))?;
        for pass in 0..repeats {
            runner.each(turn + pass, |session| {
                let Some(point) = points.get_mut(session.engine()) else { return Ok(()) };
                if let Some(value) = point.unfiltered_value {
                    let (Searched { seconds, .. }, _) = session.search(value, Pass::Batch(least_ms))?;
                    point.unfiltered_seconds.push(seconds);
                }
                Ok(())
            })?;
        }
        // Of an engine that failed in this cell nothing is kept.
        let points = runner.sessions.iter().filter_map(|session| points.remove(session.engine())).collect();
        Ok(CellRun { cell, passing: cell.passing(ready.base.len()), lift: judge.lift, points })
    }

    /// Searches with ascending values until the recall is reached.
    fn sweep(&self, session: &mut Session<'_>, judge: impl Fn(&[i64]) -> Result<Judged, i64>) -> Result<Point> {
        let (engine, target) = (session.engine().to_owned(), self.run.job.workload.filter.recall);
        let unfiltered_value = self.unfiltered.get(&engine).copied();
        let (mut best, mut short) = ((0, f64::NEG_INFINITY), 0);
        for value in self.sweeps.get(&engine).into_iter().flatten() {
            session.search(*value, Pass::Batch(0))?;
            let judged = judged(session, &judge)?;
            short = short.max(judged.short);
            if judged.recall > best.1 {
                best = (*value, judged.recall);
            }
            if judged.recall >= target {
                break;
            }
        }
        let ((value, recall), reached) = (best, best.1 >= target);
        let (seconds, unfiltered_seconds) = (Vec::new(), Vec::new());
        Ok(Point { engine, value, recall, reached, short, seconds, unfiltered_value, unfiltered_seconds })
    }
}

fn has_sweep(described: &Described) -> bool {
    described.more.sweep != NO_SWEEP
}

/// Judges what a session's last search found; a hit that does not pass is no answer.
fn judged(session: &Session<'_>, judge: &dyn Fn(&[i64]) -> Result<Judged, i64>) -> Result<Judged> {
    let ids = session.ids()?;
    judge(&ids).map_err(|wrong| session.unexpected("rows that pass the filter", format!("row {wrong}")))
}
