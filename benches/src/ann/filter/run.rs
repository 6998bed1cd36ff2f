//! The order of a run under filters: indexes, the speed without filter, then cell by cell.
//!
//! In a cell every engine is swept upwards until it reaches the recall, untimed; then timed there, each engine in turn,
//! `repeats` times; then the same without filter, at the value that reaches the recall there. So both speeds see the
//! same machine.

use std::collections::BTreeMap;

use serde_json::Value;

use super::attributes::RowAttributes;
use super::judge::{CellJudge, JudgedHits};
use super::measured::{CellPoint, CellRun, FilterRun};
use crate::ann::cells::FilterCell;
use crate::ann::data::ReadyVectors;
use crate::ann::measured::AnnEngineRun;
use crate::ann::protocol::{AnnDescription, AnnRequest, NO_SWEEP, QueryFilter, SearchedQueries};
use crate::ann::session::{AnnRun, AnnSession, SearchPass};
use crate::ann::workload::{AnnJob, AnnWorkload};
use crate::error::{BenchResult, check};
use crate::harness::{EngineRunner, MachineInfo, RunInfo, in_scratch};

/// Runs the cells of a workload; `note` hears what is being done.
pub fn run_filter(job: &AnnJob<'_>, ready: &ReadyVectors, note: &dyn Fn(&str)) -> BenchResult<FilterRun> {
    let workload = job.workload;
    let AnnWorkload {
        metric, filter, seed, ..
    } = workload;
    let attributes = RowAttributes::derive(
        &ready.base,
        &ready.queries,
        *metric,
        filter.cells(),
        filter.groups,
        *seed,
    )?;
    let (cells, engines, failures) = in_scratch(&job.settings.cache, |scratch| {
        let path = scratch.join("attributes.jsonl");
        let hash = attributes.write(&path)?;
        check(&job.settings.cancel)?;
        let run = AnnRun {
            attributes: Some((path, hash)),
            ..AnnRun::new(job, ready, note, scratch)
        };
        let mut runner = EngineRunner::new(note);
        let names = run.open_engines(&mut runner)?;
        let engines: Vec<_> = runner
            .sessions
            .iter()
            .map(|session| session.run.described.clone())
            .collect();
        let sweeps = engines.iter().map(|described| {
            let values = run
                .sweep(&names, &described.engine)
                .unwrap_or_else(|| described.more.defaults.clone());
            (described.engine.clone(), values)
        });
        let cells = Cells {
            run: &run,
            attributes: &attributes,
            sweeps: sweeps.collect(),
            unfiltered: BTreeMap::new(),
        };
        let cells = cells.measure(&mut runner)?;
        let (_, failures) = runner.close();
        Ok((cells, engines, failures))
    })?;
    Ok(FilterRun {
        workload: workload.clone(),
        rows: ready.base.len(),
        dim: ready.base.dim(),
        queries: ready.queries.len(),
        machine: MachineInfo::this(),
        stamp: RunInfo::now(),
        cells,
        engines,
        failures,
    })
}

struct Cells<'a> {
    run: &'a AnnRun<'a>,
    attributes: &'a RowAttributes,
    /// Values by engine.
    sweeps: BTreeMap<String, Vec<u32>>,
    /// The value that reaches the recall without filter, by engine.
    unfiltered: BTreeMap<String, u32>,
}

impl Cells<'_> {
    fn measure(mut self, runner: &mut EngineRunner<'_, AnnEngineRun>) -> BenchResult<Vec<CellRun>> {
        (self.run.note)("without filter");
        let mut unfiltered = BTreeMap::new();
        runner.each(0, |session| {
            if has_sweep(&session.run.described) {
                let judge = |ids: &[i64]| {
                    Ok(JudgedHits {
                        recall: self.run.judge.recall(ids),
                        short: 0,
                    })
                };
                let point = self.sweep(session, judge)?;
                unfiltered.insert(point.engine, point.value);
            }
            Ok(())
        })?;
        self.unfiltered = unfiltered;
        let cells = self.run.job.workload.filter.cells();
        let all = cells.len();
        let mut runs = Vec::new();
        for (at, cell) in cells.into_iter().enumerate() {
            (self.run.note)(&format!("cell {} of {all}: {cell}", at + 1));
            runs.push(self.measure_cell(runner, at, cell)?);
        }
        Ok(runs)
    }

    fn measure_cell(
        &self,
        runner: &mut EngineRunner<'_, AnnEngineRun>,
        turn: usize,
        cell: FilterCell,
    ) -> BenchResult<CellRun> {
        let &AnnWorkload { repeats, least_ms, .. } = self.run.job.workload;
        let judge = CellJudge::new(self.run, self.attributes, cell)?;
        let mut points: BTreeMap<String, CellPoint> = BTreeMap::new();
        runner.each(turn, |session| {
            choose_filters(session, &judge.filters)?;
            let point = self.sweep(session, |ids| judge.judge(ids))?;
            points.insert(point.engine.clone(), point);
            Ok(())
        })?;
        for pass in 0..repeats {
            runner.each(turn + pass, |session| {
                let Some(point) = points.get_mut(session.engine()) else {
                    return Ok(());
                };
                let (SearchedQueries { seconds, .. }, _) =
                    self.run.search(session, point.value, SearchPass::Batch(least_ms))?;
                point.seconds.push(seconds);
                let judged = self.judge_hits(session, &|ids| judge.judge(ids))?;
                point.short = point.short.max(judged.short);
                Ok(())
            })?;
        }
        runner.each(turn, |session| choose_filters(session, &[]))?;
        for pass in 0..repeats {
            runner.each(turn + pass, |session| {
                let Some(point) = points.get_mut(session.engine()) else {
                    return Ok(());
                };
                if let Some(value) = point.unfiltered_value {
                    let (SearchedQueries { seconds, .. }, _) =
                        self.run.search(session, value, SearchPass::Batch(least_ms))?;
                    point.unfiltered_seconds.push(seconds);
                }
                Ok(())
            })?;
        }
        // Of an engine that failed in this cell nothing is kept.
        let points = runner
            .sessions
            .iter()
            .filter_map(|session| points.remove(session.engine()))
            .collect();
        Ok(CellRun {
            cell,
            passing: cell.passing(self.run.ready.base.len()),
            lift: judge.lift,
            points,
        })
    }

    /// Searches with ascending values until the recall is reached.
    fn sweep(
        &self,
        session: &mut AnnSession,
        judge: impl Fn(&[i64]) -> Result<JudgedHits, i64>,
    ) -> BenchResult<CellPoint> {
        let (engine, target) = (session.engine().to_owned(), self.run.job.workload.filter.recall);
        let unfiltered_value = self.unfiltered.get(&engine).copied();
        let (mut best, mut short) = ((0, f64::NEG_INFINITY), 0);
        for value in self.sweeps.get(&engine).into_iter().flatten() {
            self.run.search(session, *value, SearchPass::Batch(0))?;
            let judged = self.judge_hits(session, &judge)?;
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
        Ok(CellPoint {
            engine,
            value,
            recall,
            reached,
            short,
            seconds,
            unfiltered_value,
            unfiltered_seconds,
        })
    }

    /// Judges what an engine's last search found; a hit that does not pass is no answer.
    fn judge_hits(
        &self,
        session: &AnnSession,
        judge: &dyn Fn(&[i64]) -> Result<JudgedHits, i64>,
    ) -> BenchResult<JudgedHits> {
        let ids = self.run.read_ids(session)?;
        judge(&ids).map_err(|row| {
            session
                .worker
                .unexpected("search", "rows that pass the filter", format!("row {row}"))
        })
    }
}

fn has_sweep(described: &AnnDescription) -> bool {
    described.more.sweep != NO_SWEEP
}

/// Has an engine search under these filters from here on.
fn choose_filters(session: &mut AnnSession, filters: &[QueryFilter]) -> BenchResult<()> {
    let _: Value = session.worker.ask(&AnnRequest::Filter {
        filters: filters.to_vec(),
    })?;
    Ok(())
}
