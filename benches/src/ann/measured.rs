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

/// A name as asked for, and its engines: itself, or the variants that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(super) name: String,
    pub(super) members: Vec<String>,
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
    #[serde(skip)]
    pub(super) asked: Vec<Asked>,
    /// Engines that were measured, in the order asked.
    #[serde(skip)]
    pub engines: Vec<EngineRun>,
    /// Engines that failed, and why.
    #[serde(skip)]
    pub failures: Vec<(String, String)>,
    pub(super) machine: Machine,
    pub(crate) stamp: RunInfo,
}

/// A figure at a recall, or the name of the engine whose curve has no value there and why.
pub(super) type AtRecall = Result<f64, (String, Outside)>;

/// Ours against one peer, apart from speed. `None` where one of the two does not reach the first target.
#[derive(Debug, Clone)]
pub(super) struct Ratios {
    /// With those of its engines that were measured.
    pub(super) peer: Asked,
    /// The member whose build and memory are compared: the fastest at the first target.
    pub(super) representative: String,
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

    /// Queries per second of a name at a recall: of several members the best, each interpolated by itself.
    pub(super) fn qps_at(&self, asked: &Asked, speed: Speed, recall: f64) -> AtRecall {
        let mut best = Err(Outside::Empty);
        for run in asked.members.iter().filter_map(|name| self.engine(name)) {
            best = match (best, self.curve(run, speed).qps_at(recall)) {
                (Ok(best), Ok(qps)) => Ok(f64::max(best, qps)),
                (Err(Outside::Below(best)), Err(Outside::Below(end))) => Err(Outside::Below(best.max(end))),
                (Ok(best), Err(_)) => Ok(best),
                (_, other) => other,
            };
        }
        best.map_err(|why| (asked.name.clone(), why))
    }

    /// The measured member of a name that is the fastest at the first target; one that does not reach it counts as slowest.
    pub(super) fn representative(&self, asked: &Asked) -> Option<&EngineRun> {
        let target = self.targets.first().copied().unwrap_or(0.95);
        let speed = |run: &&EngineRun| self.curve(run, Speed::Batch).qps_at(target).unwrap_or(0.0);
        let members = asked.members.iter().filter_map(|name| self.engine(name));
        members.max_by(|left, right| speed(left).total_cmp(&speed(right)))
    }

    /// Our speed over a peer's at a recall; none where either does not reach it.
    pub(super) fn ratio(&self, peer: &Asked, speed: Speed, recall: f64) -> AtRecall {
        let ours = Asked { name: OURS.to_owned(), members: vec![OURS.to_owned()] };
        let peer = self.qps_at(peer, speed, recall)?;
        Ok(self.qps_at(&ours, speed, recall)? / peer)
    }

    /// Ours against every peer asked for of which an engine was measured; empty where ours was not measured.
    pub(super) fn ratios(&self) -> Vec<Ratios> {
        let Some(ours) = self.engine(OURS) else { return Vec::new() };
        let against = |peer: &Asked| Some(self.against(ours, self.representative(peer)?, peer));
        self.asked.iter().filter(|asked| asked.name != OURS).filter_map(against).collect()
    }

    fn against(&self, ours: &EngineRun, theirs: &EngineRun, peer: &Asked) -> Ratios {
        let reached = self.targets.first().is_some_and(|&target| self.ratio(peer, Speed::Batch, target).is_ok());
        let over = |value: &dyn Fn(&EngineRun) -> f64| {
            let (ours, theirs) = (value(ours), value(theirs));
            (reached && ours > 0.0 && theirs > 0.0).then(|| ours / theirs)
        };
        let rss = |at: fn(&MemoryOverTime) -> Memory| over(&|run| run.megabytes(at).unwrap_or(0.0));
        Ratios {
            peer: peer.clone(),
            representative: theirs.described.engine.clone(),
            build: over(&|run| run.index.built.build_s).filter(|_| !ours.reused && !theirs.reused),
            rss_served: rss(|memory| memory.served),
            rss_evicted: rss(|memory| memory.evicted_pass),
            bytes: over(&|run| run.index.built.index_bytes as f64),
        }
    }
}
