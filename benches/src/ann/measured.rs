//! What a run measured, and ours over each peer's: speed at equal recall, build time, memory.

use serde::Serialize;

use super::cache::Record;
use super::curve::{Curve, Outside};
use super::protocol::Described;
use crate::harness::{Machine, Memory, OURS, RunInfo, median, per_second};

/// One value of an engine's sweep parameter.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Point {
    /// The sweep parameter.
    pub value: u32,
    /// Mean recall@k over the batch passes.
    pub recall: f64,
    #[serde(skip)]
    pub(super) recalls: Vec<f64>,
    /// Seconds per batch pass on one thread.
    pub(super) seconds: Vec<f64>,
    /// Seconds per batch pass on all threads.
    pub(super) seconds_all_threads: Vec<f64>,
    /// Median microseconds of a single call, per pass.
    pub(super) passes_p50_us: Vec<f64>,
    /// 99th percentile of the same.
    pub(super) passes_p99_us: Vec<f64>,
    /// Smallest number of times that a batch pass on one thread searched for all queries; `seconds` are of one time.
    pub(super) rounds: u32,
    /// Microseconds of each query in the last pass of single calls.
    #[serde(skip)]
    pub(super) latencies_us: Vec<f64>,
    /// Ids of the last pass of single calls: k per query, -1 pads.
    #[serde(skip)]
    pub(super) ids: Vec<i64>,
}

/// How an engine is asked, and on how many threads; medians over the passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speed {
    /// All queries in its batch call, one thread.
    Batch,
    /// The same on all threads.
    BatchAllThreads,
    /// One call per query, one thread: the median of their times.
    SingleP50,
    /// Their 99th percentile.
    SingleP99,
}

impl Point {
    /// Queries per second, of single calls one over the time of a call; 0 where nothing was timed.
    pub(super) fn qps(&self, queries: usize, speed: Speed) -> f64 {
        let per_call = |passes: &[f64]| per_second(1, median(passes).unwrap_or(0.0) / 1e6);
        match speed {
            Speed::Batch => per_second(queries, median(&self.seconds).unwrap_or(0.0)),
            Speed::BatchAllThreads => per_second(queries, median(&self.seconds_all_threads).unwrap_or(0.0)),
            Speed::SingleP50 => per_call(&self.passes_p50_us),
            Speed::SingleP99 => per_call(&self.passes_p99_us),
        }
    }
}

/// Memory of a worker as the run went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct MemoryOverTime {
    /// Before `open`.
    pub(super) baseline: Memory,
    /// After `open`.
    pub(super) opened: Memory,
    /// After all searches.
    pub(super) served: Memory,
    /// After `evict`, which drops the mapped pages of full-precision vectors.
    pub(super) evicted: Memory,
    /// After one more pass over all queries at a middle value, which has read some of them again.
    pub(super) evicted_pass: Memory,
}

/// One engine in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineRun {
    /// Itself in words.
    pub described: Described,
    /// Its index.
    pub index: Record,
    /// The index was there before the run.
    pub reused: bool,
    /// Milliseconds from files to ready to search, files in the page cache.
    pub(super) open_ms: f64,
    /// Microseconds of the first query after `open`.
    pub(super) first_query_us: f64,
    /// By ascending value.
    pub points: Vec<Point>,
    /// `None` where the worker did not live to tell.
    pub(super) memory: Option<MemoryOverTime>,
}

impl EngineRun {
    /// Resident megabytes at one moment, less those before `open`.
    pub(super) fn megabytes(&self, at: fn(&MemoryOverTime) -> Memory) -> Option<f64> {
        let memory = self.memory.as_ref()?;
        Some(at(memory).rss_bytes.saturating_sub(memory.baseline.rss_bytes) as f64 / 1e6)
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    pub(crate) workload: String,
    pub(super) metric: &'static str,
    pub(super) rows: usize,
    pub(super) dim: usize,
    pub(super) queries: usize,
    pub(super) k: usize,
    pub(super) m: usize,
    pub(super) ef_construction: usize,
    /// Threads of builds and threaded passes.
    pub(super) threads: usize,
    /// Timed passes on one thread.
    pub(super) repeats: usize,
    /// Recalls at which engines are compared.
    pub(super) targets: Vec<f64>,
    /// Engines that were measured, in the order asked.
    #[serde(skip)]
    pub engines: Vec<EngineRun>,
    /// Engines that failed, and why.
    #[serde(skip)]
    pub failures: Vec<(String, String)>,
    pub(super) machine: Machine,
    pub(crate) stamp: RunInfo,
}

/// A ratio at a recall, or the name of the engine whose curve has no value there and why.
pub(super) type AtRecall = Result<f64, (String, Outside)>;

/// Ours against one peer, apart from speed. `None` where one of the two ends below the first target.
#[derive(Debug, Clone)]
pub(super) struct Ratios<'a> {
    pub(super) peer: &'a EngineRun,
    /// Build seconds; `None` also where one of the two indexes was kept from an earlier run.
    pub(super) build: Option<f64>,
    /// Resident bytes after all searches, less the baseline.
    pub(super) rss_served: Option<f64>,
    /// The same after full-precision vectors were evicted and one more pass was made.
    pub(super) rss_evicted: Option<f64>,
    /// Index bytes.
    pub(super) bytes: Option<f64>,
}

impl Measured {
    /// One engine by name.
    pub(super) fn engine(&self, name: &str) -> Option<&EngineRun> {
        self.engines.iter().find(|run| run.described.engine == name)
    }

    /// Recall against speed of one engine.
    pub(super) fn curve(&self, run: &EngineRun, speed: Speed) -> Curve {
        Curve::envelope(run.points.iter().map(|point| (point.recall, point.qps(self.queries, speed))))
    }

    /// Our speed over a peer's at a recall; none where either does not reach it.
    pub(super) fn ratio(&self, peer: &EngineRun, speed: Speed, recall: f64) -> AtRecall {
        let at =
            |run: &EngineRun| self.curve(run, speed).qps_at(recall).map_err(|why| (run.described.engine.clone(), why));
        let peer = at(peer)?;
        let ours = self.engine(OURS).ok_or_else(|| (OURS.to_owned(), Outside::Empty))?;
        Ok(at(ours)? / peer)
    }

    /// Ours against every peer that was measured; empty where ours was not.
    pub(super) fn ratios(&self) -> Vec<Ratios<'_>> {
        let Some(ours) = self.engine(OURS) else { return Vec::new() };
        let peers = self.engines.iter().filter(|run| run.described.engine != OURS);
        peers.map(|peer| self.against(ours, peer)).collect()
    }

    fn against<'a>(&self, ours: &EngineRun, peer: &'a EngineRun) -> Ratios<'a> {
        let at_first = self.targets.first().map(|&target| self.ratio(peer, Speed::Batch, target));
        let reached = matches!(at_first, Some(Ok(_) | Err((_, Outside::Above(_)))));
        let over = |value: &dyn Fn(&EngineRun) -> f64| {
            let (ours, theirs) = (value(ours), value(peer));
            (reached && ours > 0.0 && theirs > 0.0).then(|| ours / theirs)
        };
        let rss = |at: fn(&MemoryOverTime) -> Memory| over(&|run| run.megabytes(at).unwrap_or(0.0));
        Ratios {
            peer,
            build: over(&|run| run.index.built.build_s).filter(|_| !ours.reused && !peer.reused),
            rss_served: rss(|memory| memory.served),
            rss_evicted: rss(|memory| memory.evicted_pass),
            bytes: over(&|run| run.index.built.index_bytes as f64),
        }
    }
}
