//! What a run under filters measured: recall and speed by cell and engine, ratios of speeds, and whether the goals are
//! met.

use serde::Serialize;

use crate::ann::cells::FilterCell;
use crate::ann::protocol::AnnDescription;
use crate::ann::workload::AnnWorkload;
use crate::harness::{MachineInfo, OURS, RunInfo, median, per_second};

/// Ours, each with the engine that compares with all rows that pass: the graph with these rows given as a set; and a
/// whole index, which evaluates the condition.
pub(super) const OWN: [(&str, &str); 2] = [(OURS, EXACT), ("dyad-index", "dyad-index-exact")];
/// The exact scan that others are compared with.
const EXACT: &str = "dyad-exact";
/// A scan may be measured this much slower than the same scan by another engine.
const NOISE: f64 = 0.05;
/// What the name of every variant of the rival begins with.
const RIVAL: &str = "qdrant-edge";
/// Percent of the rows from which on a search under a filter is compared with one without.
const DENSE: f64 = 4.0;

/// One engine in one cell, at the smallest value of its sweep parameter that reaches the recall; or at that of the best
/// recall.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellPoint {
    /// The name of the engine.
    pub engine: String,
    /// The value of the sweep parameter.
    pub value: u32,
    /// Mean share of the nearest rows that pass and were found.
    pub recall: f64,
    /// Whether that is the recall at which engines are compared.
    pub reached: bool,
    /// Queries with fewer hits than `k` and than rows that pass: the most of all searches in the cell.
    pub short: usize,
    /// Seconds per pass.
    pub(super) seconds: Vec<f64>,
    /// The sweep parameter of passes without filter, where there were such.
    pub(super) unfiltered_value: Option<u32>,
    /// Seconds per pass without filter, right after those with it.
    pub(super) unfiltered_seconds: Vec<f64>,
}

impl CellPoint {
    /// Queries per second: the median of the passes.
    pub fn qps(&self, queries: usize) -> f64 {
        per_second(queries, median(&self.seconds).unwrap_or(0.0))
    }

    pub(super) fn unfiltered_qps(&self, queries: usize) -> Option<f64> {
        median(&self.unfiltered_seconds).map(|seconds| per_second(queries, seconds))
    }

    /// Orders points: above 1 the faster ones of those that reach the recall, below it the others by their recall.
    fn rank(&self) -> f64 {
        let speed = median(&self.seconds).map_or(0.0, |seconds| 1.0 / seconds);
        if self.reached { 1.0 + speed } else { self.recall }
    }

    /// Speed over that without filter.
    pub(super) fn over_unfiltered(&self) -> Option<f64> {
        Some(median(&self.unfiltered_seconds)? / median(&self.seconds)?)
    }
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellRun {
    /// The filters of the cell.
    pub cell: FilterCell,
    /// Rows that pass.
    pub passing: usize,
    /// Share of the questions' nearest rows that pass over the share of all rows.
    pub lift: f64,
    /// Engines that were measured, in the order asked.
    pub points: Vec<CellPoint>,
}

impl CellRun {
    /// One engine's point.
    pub fn point(&self, engine: &str) -> Option<&CellPoint> {
        self.points.iter().find(|point| point.engine == engine)
    }

    /// The exact scan that an engine is compared with.
    pub(super) fn exact(&self, engine: &str) -> Option<&CellPoint> {
        let own = OWN.iter().find(|(own, _)| *own == engine);
        self.point(own.map_or(EXACT, |(_, exact)| exact))
    }
}

/// The speed of one point over another's.
pub(super) fn ratio(point: &CellPoint, other: &CellPoint) -> Option<f64> {
    Some(median(&other.seconds)? / median(&point.seconds)?)
}

/// A goal, and how many cells meet it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FilterGoal {
    /// The goal of the comparison in words.
    pub goal: String,
    /// Cells that it is about.
    pub cells: usize,
    /// Cells that meet it.
    pub met: usize,
    /// The cell of the smallest figure, and the figure.
    pub worst: Option<(String, f64)>,
}

/// A goal in words, by what it is about.
enum About {
    Quality(String),
    /// Counts only where the recall is reached.
    Speed(String),
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FilterRun {
    pub(crate) workload: AnnWorkload,
    pub(super) rows: usize,
    pub(super) dim: usize,
    pub(super) queries: usize,
    pub(super) machine: MachineInfo,
    pub(crate) stamp: RunInfo,
    /// All cells in the order in which they were measured.
    #[serde(skip)]
    pub cells: Vec<CellRun>,
    /// Engines that were opened, in the order asked.
    #[serde(skip)]
    pub engines: Vec<AnnDescription>,
    /// Engines that failed, and why.
    #[serde(skip)]
    pub failures: Vec<(String, String)>,
}

impl FilterRun {
    /// The goals of one of our engines. A speed counts only at the recall at which engines are compared; a rival's does
    /// at its best.
    pub fn goals(&self, engine: &str) -> Vec<FilterGoal> {
        let (recall, k) = (self.workload.filter.recall, self.workload.k);
        let queries = self.queries.max(1) as f64;
        let all = |_: &CellRun| true;
        let dense = |run: &CellRun| run.cell.selectivity >= DENSE;
        let found = About::Quality(format!("recall@{k} at least {recall}"));
        let full = About::Quality(format!("share of queries with min({k}, passing) hits: 1"));
        let fast = About::Speed(format!("QPS at least 0.333 of that without filter, down to {DENSE} %"));
        let mut goals = vec![
            self.goal(engine, found, recall, all, |_, point| Some(point.recall)),
            self.goal(engine, full, 1.0, all, |_, point| {
                Some(1.0 - point.short as f64 / queries)
            }),
            self.goal(engine, fast, 1.0 / 3.0, dense, |_, point| point.over_unfiltered()),
        ];
        if self.cells.iter().any(|run| run.exact(engine).is_some()) {
            let over = |run: &CellRun, point: &CellPoint| ratio(point, run.exact(engine)?);
            let text = format!(
                "QPS at least that of the exact scan, less {:.0} % of noise",
                NOISE * 100.0
            );
            goals.push(self.goal(engine, About::Speed(text), 1.0 - NOISE, all, over));
        }
        if self.cells.iter().any(|run| self.rival(engine, run).is_some()) {
            let over = |run: &CellRun, point: &CellPoint| ratio(point, self.rival(engine, run)?);
            goals.push(self.goal(
                engine,
                About::Speed(format!("QPS at least twice that of {RIVAL}")),
                2.0,
                all,
                over,
            ));
        }
        goals
    }

    fn goal(
        &self,
        engine: &str,
        about: About,
        least: f64,
        is_meant: impl Fn(&CellRun) -> bool,
        figure: impl Fn(&CellRun, &CellPoint) -> Option<f64>,
    ) -> FilterGoal {
        let (mut cells, mut met) = (0, 0);
        let mut worst: Option<(String, f64)> = None;
        let (goal, is_speed) = match about {
            About::Quality(goal) => (goal, false),
            About::Speed(goal) => (goal, true),
        };
        for run in self.cells.iter().filter(|run| is_meant(run)) {
            let Some(point) = run.point(engine) else { continue };
            let Some(figure) = figure(run, point) else { continue };
            cells += 1;
            met += usize::from(figure >= least && (point.reached || !is_speed));
            if worst.as_ref().is_none_or(|(_, smallest)| figure < *smallest) {
                worst = Some((run.cell.to_string(), figure));
            }
        }
        FilterGoal {
            goal,
            cells,
            met,
            worst,
        }
    }

    pub(super) fn described(&self, engine: &str) -> Option<&AnnDescription> {
        self.engines.iter().find(|described| described.engine == engine)
    }

    /// Whether the speeds of two engines may be compared: both evaluate conditions while the clock runs, or both are
    /// given the rows that pass.
    pub(super) fn compares(&self, engine: &str, other: &str) -> bool {
        let evaluates = |engine| Some(self.described(engine)?.more.reads_attributes);
        evaluates(engine) == evaluates(other)
    }

    /// The fastest variant of the rival that reaches the recall; where none does, the one of the best recall. None for
    /// engines whose speeds may not be compared with it.
    pub(super) fn rival<'a>(&self, engine: &str, run: &'a CellRun) -> Option<&'a CellPoint> {
        let is_rival = |point: &&CellPoint| point.engine.starts_with(RIVAL) && self.compares(engine, &point.engine);
        run.points
            .iter()
            .filter(is_rival)
            .max_by(|left, right| left.rank().total_cmp(&right.rank()))
    }

    /// Our engines that were measured.
    pub(super) fn own(&self) -> impl Iterator<Item = &'static str> {
        let names = OWN.iter().map(|(own, _)| *own);
        names.filter(|own| self.engines.iter().any(|described| described.engine == *own))
    }

    /// Smallest, middle and largest of our speed over another engine's, and in how many cells: those where both reach
    /// the recall.
    pub(super) fn over(&self, ours: &str, other: &str) -> Option<(usize, [f64; 3])> {
        let mut ratios = Vec::new();
        for run in &self.cells {
            let (Some(ours), Some(other)) = (run.point(ours), run.point(other)) else {
                continue;
            };
            if ours.reached && other.reached {
                ratios.extend(ratio(ours, other));
            }
        }
        ratios.sort_by(f64::total_cmp);
        Some((ratios.len(), [*ratios.first()?, median(&ratios)?, *ratios.last()?]))
    }
}
