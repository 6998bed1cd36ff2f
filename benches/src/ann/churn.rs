//! An index that changes: a tenth of its rows deleted and as many others added, again and again, with what each change
//! costs, and recall and speed after it, before and after the engine's own way to tidy up; at the end next to a fresh
//! index of the same rows.

use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::data::ReadyVectors;
use super::protocol::{AnnRequest, BuiltIndex};
use super::recall::RecallJudge;
use super::session::{SearchPass, load_queries, read_ids, search, start_worker};
use super::workload::AnnJob;
use crate::dataset::{Matrix, exact, npy};
use crate::error::{BenchError, BenchResult};
use crate::harness::{
    EngineSession, FigureFormat, FigureRow, Measurement, OpenedReply, RunInfo, ShownColumn, TextTable, in_scratch,
    join_figures, median,
};

/// A point in the life of an engine's index.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChurnMoment {
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
pub struct ChurnOptions {
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
    /// Takes out a tenth, by a fixed sequence of random numbers, and gives the rows taken out and those that take their
    /// place.
    fn change(&mut self, tenth: usize, rows: usize) -> (Vec<i32>, Vec<u32>) {
        let mut gone = Vec::with_capacity(tenth);
        for _ in 0..tenth {
            self.state = self
                .state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = (self.state >> 33) as usize % self.labels.len();
            gone.push(self.labels.swap_remove(at) as i32);
        }
        let new: Vec<u32> = (self.next..(self.next + tenth).min(rows))
            .map(|row| row as u32)
            .collect();
        self.next += new.len();
        self.labels.extend(&new);
        (gone, new)
    }
}

/// What is known of an index.
struct ChurnedIndex {
    moments: Vec<ChurnMoment>,
    /// It was built of the live rows alone, so that these are numbered by their place among them.
    is_fresh: bool,
}

type ChurnSession = EngineSession<ChurnedIndex>;

impl ChurnSession {
    /// Has the engine change or merge its index.
    fn act(&mut self, request: &AnnRequest, cycle: usize, stage: &'static str) -> BenchResult<()> {
        let Took { seconds } = self.worker.ask(request)?;
        self.begin_moment(cycle, stage, seconds);
        Ok(())
    }

    /// Begins a moment whose recall and speed are still to be measured.
    fn begin_moment(&mut self, cycle: usize, stage: &'static str, seconds: f64) {
        let engine = self.engine().to_owned();
        self.run.moments.push(ChurnMoment {
            engine,
            cycle,
            stage,
            recall: 0.0,
            qps: 0.0,
            seconds,
        });
    }
}

/// What a run has measured.
#[derive(Debug)]
pub struct ChurnMeasurement {
    workload: String,
    ef: u32,
    stamp: RunInfo,
    /// The moments of all engines, engine by engine.
    pub moments: Vec<ChurnMoment>,
}

/// Figures of the table.
const TABLE: [ShownColumn<'static>; 5] = [
    ShownColumn::new("cycle", "cycle", FigureFormat::Decimals(0)),
    ShownColumn::new("stage", "stage", FigureFormat::Decimals(0)),
    ShownColumn::new("recall", "recall", FigureFormat::Decimals(4)),
    ShownColumn::new("qps", "QPS", FigureFormat::Decimals(0)),
    ShownColumn::new("seconds", "seconds", FigureFormat::Decimals(2)),
];

impl Measurement for ChurnMeasurement {
    fn record_name(&self) -> String {
        self.stamp.record(&self.workload)
    }

    fn summary(&self) -> Value {
        json!({ "workload": self.workload, "ef": self.ef, "moments": self.moments })
    }

    fn files(&self) -> Vec<(&'static str, Vec<FigureRow>)> {
        vec![(
            "churn.csv",
            self.moments
                .iter()
                .map(|moment| join_figures([json!(moment)]))
                .collect(),
        )]
    }

    fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = TextTable::of_columns("engine", &TABLE);
        for moment in &self.moments {
            table.push_row(&moment.engine, &TABLE, &join_figures([json!(moment)]));
        }
        table.write(out)
    }
}

/// Runs all engines, one change of each in turn. `note` hears what is being done.
pub fn churn(
    job: &AnnJob<'_>,
    ready: &ReadyVectors,
    churn: ChurnOptions,
    note: &dyn Fn(&str),
) -> BenchResult<ChurnMeasurement> {
    let moments = in_scratch(&job.settings.cache, |scratch| {
        ChurnRun {
            job,
            ready,
            churn,
            note,
            scratch,
        }
        .measure_all()
    })?;
    Ok(ChurnMeasurement {
        workload: job.workload.name.clone(),
        ef: churn.ef,
        stamp: RunInfo::now(),
        moments,
    })
}

struct ChurnRun<'a> {
    job: &'a AnnJob<'a>,
    ready: &'a ReadyVectors,
    churn: ChurnOptions,
    note: &'a dyn Fn(&str),
    scratch: &'a Path,
}

impl ChurnRun<'_> {
    fn measure_all(&self) -> BenchResult<Vec<ChurnMoment>> {
        let rows = self.ready.base.len();
        let half = rows / 2;
        let tenth = half.div_ceil(10);
        let cycles = self.churn.cycles;
        if rows < 20 || half + tenth * cycles > rows {
            let problem = format!("expected rows for {cycles} changes of {tenth} after the first {half}, got {rows}");
            return Err(BenchError::Refused(format!("--cycles: {problem}")));
        }
        let threads = self.job.workload.threads;
        let mut live = Live {
            labels: (0..half as u32).collect(),
            next: half,
            state: 7,
        };
        let mut sessions = Vec::new();
        for name in &self.job.settings.engines {
            sessions.push(self.open(name, &live, "first", false)?);
        }
        self.measure(&mut sessions, &live, 0)?;
        for cycle in 1..=cycles {
            (self.note)(&format!("change {cycle} of {cycles}"));
            let change = self.write_change(&mut live, tenth, cycle)?;
            for session in &mut sessions {
                session.act(&change, cycle, "changed")?;
            }
            self.measure(&mut sessions, &live, cycle)?;
            for session in &mut sessions {
                session.act(&AnnRequest::Merge { all: false, threads }, cycle, "merged")?;
            }
            self.measure(&mut sessions, &live, cycle)?;
        }
        let mut both = Vec::new();
        for mut session in sessions {
            session.act(&AnnRequest::Merge { all: true, threads }, cycles, "all merged")?;
            (self.note)(&format!("{}: a fresh index of the same rows", session.engine()));
            let fresh = self.open(session.engine(), &live, "last", true)?;
            both.extend([session, fresh]);
        }
        // In turns, so that both see the same machine.
        self.measure(&mut both, &live, cycles)?;
        Ok(both.into_iter().flat_map(|session| session.close().moments).collect())
    }

    /// Changes the live rows, and writes the files of the request that has an engine do the same.
    fn write_change(&self, live: &mut Live, tenth: usize, cycle: usize) -> BenchResult<AnnRequest> {
        let (gone, new) = live.change(tenth, self.ready.base.len());
        let path = |name: &str| self.scratch.join(format!("{name}-{cycle}.npy"));
        let (delete, base, labels) = (path("delete"), path("base"), path("labels"));
        npy::write_ids(&delete, 1, &gone)?;
        npy::write_ids(&labels, 1, &new.iter().map(|row| *row as i32).collect::<Vec<_>>())?;
        npy::write_vectors(&base, &self.rows(&new))?;
        Ok(AnnRequest::Change {
            delete,
            base,
            labels,
            threads: self.job.workload.threads,
        })
    }

    fn rows(&self, labels: &[u32]) -> Matrix {
        let base = &self.ready.base;
        Matrix::new(
            base.dim(),
            labels.iter().flat_map(|row| base.row(*row as usize)).copied().collect(),
        )
    }

    /// Builds an index of the live rows and opens it, with the queries loaded.
    fn open(&self, name: &str, live: &Live, which: &str, is_fresh: bool) -> BenchResult<ChurnSession> {
        (self.note)(&format!("{name}: index"));
        let mut worker = start_worker(self.job, name, self.job.build_deadline)?;
        let base = self.scratch.join(format!("{which}.npy"));
        npy::write_vectors(&base, &self.rows(&live.labels))?;
        let dir = self.scratch.join(format!("{name}-{which}"));
        let build = self.job.workload.index_build(base, dir.clone());
        let BuiltIndex { build_s, .. } = worker.ask(&AnnRequest::Build(build))?;
        let _: OpenedReply = worker.ask(&AnnRequest::Open { dir })?;
        load_queries(&mut worker, self.ready, self.job.workload.k)?;
        let mut session = ChurnSession {
            worker,
            run: ChurnedIndex {
                moments: Vec::new(),
                is_fresh,
            },
        };
        session.begin_moment(0, "fresh", build_s);
        Ok(session)
    }

    /// Recall and speed of engines now, in turns.
    fn measure(&self, sessions: &mut [ChurnSession], live: &Live, cycle: usize) -> BenchResult<()> {
        let workload = self.job.workload;
        let base = self.rows(&live.labels);
        let (truth, _) = exact(
            &base,
            &self.ready.queries,
            workload.k,
            workload.metric,
            &self.job.settings.cancel,
        )?;
        let judge = RecallJudge::new(&base, &self.ready.queries, &truth, workload.k, workload.metric);
        let mut place = vec![None; self.ready.base.len()];
        for (at, label) in live.labels.iter().enumerate() {
            place[*label as usize] = Some(at as i64);
        }
        let mut seconds = vec![Vec::new(); sessions.len()];
        for _ in 0..workload.repeats {
            for (session, seconds) in sessions.iter_mut().zip(&mut seconds) {
                let pass = SearchPass::Batch(workload.least_ms);
                let (searched, _) = search(&mut session.worker, self.scratch, self.churn.ef, pass)?;
                seconds.push(searched.seconds);
                let (_, mut ids) = read_ids(&session.worker, self.scratch)?;
                for id in ids.iter_mut().filter(|id| **id >= 0 && !session.run.is_fresh) {
                    let found = place.get(*id as usize).copied().flatten();
                    // A row that was deleted, or never there.
                    *id = found.ok_or_else(|| session.worker.unexpected("search", "rows that are there", *id))?;
                }
                if let Some(moment) = session.run.moments.last_mut() {
                    moment.cycle = cycle;
                    moment.recall = judge.recall(&ids);
                }
            }
        }
        for (session, seconds) in sessions.iter_mut().zip(seconds) {
            if let (Some(moment), Some(seconds)) = (session.run.moments.last_mut(), median(&seconds)) {
                moment.qps = self.ready.queries.len() as f64 / seconds;
            }
        }
        Ok(())
    }
}
