//! What a run measured.

use serde::Serialize;

use super::curve::{Curve, CurvePoint};
use super::index_cache::Record;
use super::protocol::{Described, Memory};
use crate::harness::{Machine, Stamp, extremes, median};

/// One value of an engine's sweep parameter.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Point {
    /// The sweep parameter.
    pub value: u32,
    /// Mean recall@k over the repeats.
    pub recall: f64,
    /// Seconds per pass on one thread.
    pub seconds: Vec<f64>,
    /// Seconds per pass on all threads.
    pub threaded_seconds: Vec<f64>,
    /// Median microseconds of one query, asked for alone.
    pub p50_us: f64,
    /// 99th percentile of the same.
    pub p99_us: f64,
    /// Fewest times that a timed pass on one thread went over all queries; `seconds` are of one time.
    pub rounds: u32,
    /// Microseconds of each query of that pass.
    #[serde(skip)]
    pub latencies_us: Vec<f64>,
    /// What that pass found: k per query, -1 pads.
    #[serde(skip)]
    pub ids: Vec<i64>,
}

impl Point {
    /// Queries per second on one thread: the median over the repeats.
    pub fn qps(&self, queries: usize) -> f64 {
        median(&self.seconds).map_or(0.0, |seconds| queries as f64 / seconds)
    }

    /// Queries per second on one thread in the fastest pass: what is left of it on a machine that others use as well.
    pub fn fastest_qps(&self, queries: usize) -> f64 {
        let (fastest, _) = extremes(&self.seconds);
        if fastest > 0.0 { queries as f64 / fastest } else { 0.0 }
    }

    /// Queries per second on all threads.
    pub fn threaded_qps(&self, queries: usize) -> f64 {
        median(&self.threaded_seconds).map_or(0.0, |seconds| queries as f64 / seconds)
    }
}

/// Which of a point's speeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    /// One thread, median over the passes.
    Median,
    /// One thread, fastest pass.
    Fastest,
    /// All threads, median over the passes.
    AllThreads,
}

/// Memory of a worker as the run went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryOverTime {
    /// Before `open`.
    pub baseline: Memory,
    /// After `open`.
    pub opened: Memory,
    /// After all searches.
    pub served: Memory,
    /// After `cool`.
    pub cooled: Memory,
    /// After one more pass over all queries at a middle value.
    pub served_cool: Memory,
}

impl MemoryOverTime {
    /// Resident bytes with the full-precision vectors cold: right after `cool`, without what the process had before `open`.
    pub fn serving_bytes(&self) -> u64 {
        self.cooled.rss_bytes.saturating_sub(self.baseline.rss_bytes)
    }

    /// The same after one more pass over all queries, which has brought back what it read.
    pub fn served_bytes(&self) -> u64 {
        self.served_cool.rss_bytes.saturating_sub(self.baseline.rss_bytes)
    }
}

/// One engine in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EngineRun {
    /// Itself in words.
    pub described: Described,
    /// Its index.
    pub index: Record,
    /// The index was there before the run.
    pub reused: bool,
    /// Milliseconds from files to ready to search, files in the page cache.
    pub open_ms: f64,
    /// Microseconds of the first query after `open`.
    pub first_query_us: f64,
    /// By ascending value.
    pub points: Vec<Point>,
    /// `None` where the worker did not live to tell.
    pub memory: Option<MemoryOverTime>,
}

/// A name as asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// The name.
    pub name: String,
    /// The engines behind it: itself, or the variants that it stands for.
    pub members: Vec<String>,
}

impl Asked {
    /// A name that stands for itself.
    pub fn one(name: &str) -> Self {
        Self { name: name.to_owned(), members: vec![name.to_owned()] }
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// The workload's name.
    pub workload: String,
    /// Its metric.
    pub metric: &'static str,
    /// Rows.
    pub rows: usize,
    /// Values per row.
    pub dim: usize,
    /// Queries.
    pub queries: usize,
    /// Hits per query.
    pub k: usize,
    /// Links per node.
    pub m: usize,
    /// Beam width while building.
    pub ef_construction: usize,
    /// Threads of builds and threaded passes.
    pub threads: usize,
    /// Timed passes on one thread.
    pub repeats: usize,
    /// Recalls at which engines are compared.
    pub targets: Vec<f64>,
    /// Names as asked for.
    pub asked: Vec<Asked>,
    /// Engines that were measured, in the order asked.
    pub engines: Vec<EngineRun>,
    /// Engines that failed, and why.
    pub failures: Vec<(String, String)>,
    /// Where.
    pub machine: Machine,
    /// When, and of which source.
    pub stamp: Stamp,
}

impl Measured {
    /// One engine by name.
    pub fn engine(&self, name: &str) -> Option<&EngineRun> {
        self.engines.iter().find(|run| run.described.engine == name)
    }

    /// Recall against speed; of several engines the best at each recall.
    pub fn curve(&self, names: &[String], speed: Speed) -> Curve {
        let of_one = |run: &EngineRun| {
            Curve::envelope(run.points.iter().map(|point| {
                let qps = match speed {
                    Speed::Median => point.qps(self.queries),
                    Speed::Fastest => point.fastest_qps(self.queries),
                    Speed::AllThreads => point.threaded_qps(self.queries),
                };
                CurvePoint { recall: point.recall, qps }
            }))
        };
        let curves: Vec<Curve> = names.iter().filter_map(|name| self.engine(name)).map(of_one).collect();
        Curve::best_of(&curves)
    }

    /// The best speed that any of these engines was measured with at this recall or more, on one thread: no interpolation.
    pub fn qps_at_least(&self, names: &[String], recall: f64) -> Option<f64> {
        let of_one = |name: &String| self.curve(std::slice::from_ref(name), Speed::Median).qps_at_least(recall);
        names.iter().filter_map(of_one).max_by(f64::total_cmp)
    }

    /// The engine of a family whose build and memory stand for it: the fastest at the first target.
    pub fn representative(&self, members: &[String]) -> Option<&EngineRun> {
        let target = self.targets.first().copied().unwrap_or(0.95);
        let speed = |name: &str| {
            let name = [name.to_owned()];
            let at = self.curve(&name, Speed::Median).qps_at(target).ok();
            at.or_else(|| self.qps_at_least(&name, target)).unwrap_or(0.0)
        };
        let fastest = members.iter().max_by(|left, right| speed(left).total_cmp(&speed(right)))?;
        self.engine(fastest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_queries_over_the_median_time() {
        let point = Point { seconds: vec![0.5, 10.0, 0.25, 0.5, 0.4], ..Point::default() };
        assert!((point.qps(1000) - 2000.0).abs() < 1e-9);
        assert!(point.threaded_qps(1000).abs() < 1e-9);
    }
}
