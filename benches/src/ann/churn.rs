//! An index that changes: a tenth of its rows deleted and as many others added, again and again, with what each change costs, and
//! recall and speed after it, before and after the engine's own way to tidy up; at the end next to a fresh index of the same rows.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::data::Ready;
use super::protocol::{Build, Mode, Prepared, Request, Searched};
use super::recall::Judge;
use super::worker;
use super::workload::Job;
use crate::dataset::{Matrix, exact, npy};
use crate::error::{Error, Result};
use crate::harness::{Opened, Worker, in_scratch};

/// A point in the life of an engine's index.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moment {
    /// Name.
    pub engine: String,
    /// Changes so far.
    pub cycle: usize,
    /// `changed`, `merged`, `all merged` or `fresh`.
    pub stage: &'static str,
    /// Mean share of the nearest rows that is found.
    pub recall: f64,
    /// Questions per second on one thread: the median of the passes.
    pub qps: f64,
    /// Seconds of the change or merge before it; of the build where it is fresh.
    pub seconds: f64,
}

/// What a change or a merge took.
#[derive(Debug, Serialize, Deserialize)]
struct Took {
    seconds: f64,
}

/// How often, and with which width.
#[derive(Debug, Clone, Copy)]
pub struct Churn {
    /// Changes.
    pub cycles: usize,
    /// Value of the sweep parameter for all engines.
    pub ef: u32,
}

/// The rows that there are, by their numbers in the base.
struct Live {
    labels: Vec<u32>,
    /// The next row of the base to be added.
    next: usize,
    state: u64,
}

impl Live {
    /// Takes out a tenth, by a fixed sequence of random numbers, and gives the rows taken out and those that take their place.
    fn change(&mut self, tenth: usize, rows: usize) -> (Vec<i32>, Vec<u32>) {
        let mut gone = Vec::with_capacity(tenth);
        for _ in 0..tenth {
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (self.state >> 33) as usize % self.labels.len();
            gone.push(self.labels.swap_remove(at) as i32);
        }
        let new: Vec<u32> = (self.next..(self.next + tenth).min(rows)).map(|row| row as u32).collect();
        self.next += new.len();
        self.labels.extend(&new);
        (gone, new)
    }
}

/// One engine and its index.
struct Engine {
    worker: Worker,
    name: String,
    moments: Vec<Moment>,
}

/// Runs all engines, one change of each in turn. `note` hears what is being done.
pub fn churn(job: &Job<'_>, ready: &Ready, churn: Churn, note: &dyn Fn(&str)) -> Result<Vec<Moment>> {
    in_scratch(&job.cache, |scratch| Run { job, ready, churn, note, scratch }.all())
}

struct Run<'a> {
    job: &'a Job<'a>,
    ready: &'a Ready,
    churn: Churn,
    note: &'a dyn Fn(&str),
    scratch: &'a Path,
}

impl Run<'_> {
    fn all(&self) -> Result<Vec<Moment>> {
        let rows = self.ready.base.len();
        let half = rows / 2;
        let tenth = half.div_ceil(10);
        if rows < 20 || half + tenth * self.churn.cycles > rows {
            let problem = format!(
                "expected rows for {} changes of {tenth} after the first {half}, got {rows}",
                self.churn.cycles
            );
            return Err(Error::Refused(format!("--cycles: {problem}")));
        }
        let mut live = Live { labels: (0..half as u32).collect(), next: half, state: 7 };
        let mut engines = Vec::new();
        for name in &self.job.engines {
            engines.push(self.open(name, &live, "first")?);
        }
        self.measure(engines.iter_mut().map(|engine| (engine, false)).collect(), &live, 0)?;
        for cycle in 1..=self.churn.cycles {
            (self.note)(&format!("change {cycle} of {}", self.churn.cycles));
            let (gone, new) = live.change(tenth, rows);
            let path = |name: &str| self.scratch.join(format!("{name}-{cycle}.npy"));
            let (delete, base, labels) = (path("delete"), path("base"), path("labels"));
            npy::write_ids(&delete, 1, &gone)?;
            npy::write_ids(&labels, 1, &new.iter().map(|row| *row as i32).collect::<Vec<_>>())?;
            npy::write_vectors(&base, &self.rows(&new))?;
            let threads = self.job.workload.threads;
            for engine in &mut engines {
                let (delete, base, labels) = (delete.clone(), base.clone(), labels.clone());
                engine.act(&Request::Change { delete, base, labels, threads }, cycle, "changed")?;
            }
            self.measure(engines.iter_mut().map(|engine| (engine, false)).collect(), &live, cycle)?;
            for engine in &mut engines {
                engine.act(&Request::Merge { all: false, threads }, cycle, "merged")?;
            }
            self.measure(engines.iter_mut().map(|engine| (engine, false)).collect(), &live, cycle)?;
        }
        let (cycle, threads) = (self.churn.cycles, self.job.workload.threads);
        let mut fresh = Vec::new();
        for engine in &mut engines {
            engine.act(&Request::Merge { all: true, threads }, cycle, "all merged")?;
            (self.note)(&format!("{}: a fresh index of the same rows", engine.name));
            fresh.push(self.open(&engine.name, &live, "last")?);
        }
        // In turns, so that both see the same machine.
        let both =
            engines.iter_mut().map(|engine| (engine, false)).chain(fresh.iter_mut().map(|engine| (engine, true)));
        self.measure(both.collect(), &live, cycle)?;
        let finished = engines.into_iter().zip(fresh).flat_map(|(engine, fresh)| {
            engine.worker.quit();
            fresh.worker.quit();
            engine.moments.into_iter().chain(fresh.moments)
        });
        Ok(finished.collect())
    }

    fn rows(&self, labels: &[u32]) -> Matrix {
        let base = &self.ready.base;
        Matrix::new(base.dim(), labels.iter().flat_map(|row| base.row(*row as usize)).copied().collect())
    }

    /// Builds an index of the live rows and opens it, with the queries loaded.
    fn open(&self, name: &str, live: &Live, which: &str) -> Result<Engine> {
        (self.note)(&format!("{name}: index"));
        let own = worker::ENGINES.contains(&name).then_some("ann");
        let command = self.job.programs.command(name, own);
        let mut worker = Worker::start(name, command, self.job.build_deadline, self.job.cancel.clone())?;
        let workload = self.job.workload;
        let base = self.scratch.join(format!("{which}.npy"));
        npy::write_vectors(&base, &self.rows(&live.labels))?;
        let dir = self.scratch.join(format!("{name}-{which}"));
        let build = Build {
            base,
            attributes: None,
            metric: workload.metric,
            m: workload.m,
            ef_construction: workload.ef_construction,
            threads: workload.threads,
            seed: workload.seed,
            dir: dir.clone(),
        };
        let super::protocol::Built { build_s, .. } = worker.ask(&Request::Build(build))?;
        let _: Opened = worker.ask(&Request::Open { dir })?;
        let prepare = Request::Prepare { queries: self.ready.queries_path.clone(), k: workload.k };
        let _: Prepared = worker.ask(&prepare)?;
        let moment =
            Moment { engine: name.to_owned(), cycle: 0, stage: "fresh", recall: 0.0, qps: 0.0, seconds: build_s };
        Ok(Engine { worker, name: name.to_owned(), moments: vec![moment] })
    }

    /// Recall and speed of engines now, in turns. Rows of a fresh index, which the flag marks, are numbered by their place among
    /// the live ones.
    fn measure(&self, mut engines: Vec<(&mut Engine, bool)>, live: &Live, cycle: usize) -> Result<()> {
        let workload = self.job.workload;
        let base = self.rows(&live.labels);
        let (truth, _) = exact(&base, &self.ready.queries, workload.k, workload.metric, &self.job.cancel)?;
        let judge = Judge::new(&base, &self.ready.queries, &truth, workload.k, workload.metric);
        let mut place = vec![None; self.ready.base.len()];
        for (at, label) in live.labels.iter().enumerate() {
            if let Some(place) = place.get_mut(*label as usize) {
                *place = Some(at as i64);
            }
        }
        let mut seconds = vec![Vec::new(); engines.len()];
        for _ in 0..workload.repeats {
            for ((engine, is_fresh), seconds) in engines.iter_mut().zip(&mut seconds) {
                let out = self.scratch.join("ids.npy");
                let (value, threads, mode, least_ms) = (self.churn.ef, 1, Mode::Batch, workload.least_ms);
                let request = Request::Search { value, threads, mode, least_ms, out: out.clone(), latencies: None };
                let searched: Searched = engine.worker.ask(&request)?;
                seconds.push(engine.worker.above_zero("search", "a time above 0", searched.seconds)?);
                let (_, mut ids) = npy::read_ids(&out)?;
                for id in ids.iter_mut().filter(|id| **id >= 0 && !*is_fresh) {
                    let found = place.get(*id as usize).copied().flatten();
                    // A row that was deleted, or never there.
                    *id = found.ok_or_else(|| engine.worker.unexpected("search", "rows that are there", *id))?;
                }
                if let Some(moment) = engine.moments.last_mut() {
                    moment.cycle = cycle;
                    moment.recall = judge.recall(&ids);
                }
            }
        }
        for ((engine, _), mut seconds) in engines.iter_mut().zip(seconds) {
            seconds.sort_unstable_by(f64::total_cmp);
            let median = seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN);
            if let Some(moment) = engine.moments.last_mut() {
                moment.qps = self.ready.queries.len() as f64 / median;
            }
        }
        Ok(())
    }
}

impl Engine {
    fn act(&mut self, request: &Request, cycle: usize, stage: &'static str) -> Result<()> {
        let Took { seconds } = self.worker.ask(request)?;
        self.moments.push(Moment { engine: self.name.clone(), cycle, stage, recall: 0.0, qps: 0.0, seconds });
        Ok(())
    }
}
