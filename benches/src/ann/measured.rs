//! What a run measured, and ours over each peer's: speed at equal recall, build time, memory.

use serde::Serialize;

use super::cache::Record;
use super::curve::{Curve, CurvePoint, Outside};
use super::protocol::{Described, Memory};
use crate::harness::{Machine, OURS, RunInfo, extremes, median, per_second};

/// One value of an engine's sweep parameter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Point {
    /// The sweep parameter.
    pub value: u32,
    /// Mean recall@k over the repeats.
    pub recall: f64,
    pub(super) recalls: Vec<f64>,
    /// Seconds per pass on one thread.
    pub(super) seconds: Vec<f64>,
    /// Seconds per pass on all threads.
    pub(super) threaded_seconds: Vec<f64>,
    /// Median microseconds of one query, asked for alone.
    pub(super) p50_us: f64,
    /// 99th percentile of the same.
    pub(super) p99_us: f64,
    /// Fewest times that a timed pass on one thread went over all queries; `seconds` are of one time.
    pub(super) rounds: u32,
    /// Microseconds of each query of the pass of single queries.
    pub(super) latencies_us: Vec<f64>,
    /// What that pass found: k per query, -1 pads.
    pub(super) ids: Vec<i64>,
}

/// Which of a point's speeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speed {
    /// One thread, median over the passes.
    Median,
    /// One thread, fastest pass: what is left of it on a machine that others use as well.
    Fastest,
    /// One thread, slowest pass.
    Slowest,
    /// All threads, median over the passes.
    AllThreads,
}

impl Point {
    /// Queries per second; 0 where nothing was timed.
    pub(super) fn qps(&self, queries: usize, speed: Speed) -> f64 {
        let seconds = match speed {
            Speed::Median => median(&self.seconds),
            Speed::Fastest => Some(extremes(&self.seconds).0),
            Speed::Slowest => Some(extremes(&self.seconds).1),
            Speed::AllThreads => median(&self.threaded_seconds),
        };
        per_second(queries, seconds.unwrap_or(0.0))
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
    /// After `cool`.
    pub(super) cooled: Memory,
    /// After one more pass over all queries at a middle value.
    pub(super) served_cool: Memory,
}

impl MemoryOverTime {
    /// Resident bytes with the full-precision vectors cold: right after `cool`, without what the process had before `open`.
    pub(super) fn serving_bytes(&self) -> u64 {
        self.cooled.rss_bytes.saturating_sub(self.baseline.rss_bytes)
    }

    /// The same after one more pass over all queries, which has brought back what it read.
    pub(super) fn served_bytes(&self) -> u64 {
        self.served_cool.rss_bytes.saturating_sub(self.baseline.rss_bytes)
    }
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
    /// A figure of its memory in megabytes.
    pub(super) fn megabytes(&self, bytes: fn(&MemoryOverTime) -> u64) -> Option<f64> {
        Some(bytes(self.memory.as_ref()?) as f64 / 1e6)
    }
}

/// A name as asked for, and the engines behind it: itself, or the variants that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(super) name: String,
    pub(super) members: Vec<String>,
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
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
    pub(super) asked: Vec<Asked>,
    /// Engines that were measured, in the order asked.
    pub engines: Vec<EngineRun>,
    /// Engines that failed, and why.
    pub failures: Vec<(String, String)>,
    pub(super) machine: Machine,
    pub(crate) stamp: RunInfo,
}

/// A ratio at a recall, or the name of the engine whose curve has no value there and why.
pub(super) type AtRecall = Result<f64, (String, Outside)>;

/// Ours against one peer, apart from speed.
#[derive(Debug, Clone)]
pub(super) struct Ratios {
    /// With those of its engines that were measured.
    pub(super) peer: Asked,
    /// The engine of the family whose build and memory are compared: its fastest at the first target.
    pub(super) representative: String,
    /// Build seconds; `None` where one of the two indexes was kept from an earlier run.
    pub(super) build: Option<f64>,
    /// Resident bytes with the vectors cold, without the baseline.
    pub(super) rss: Option<f64>,
    /// The same after one more pass over the queries.
    pub(super) rss_served: Option<f64>,
    /// Index bytes.
    pub(super) bytes: Option<f64>,
}

impl Measured {
    /// One engine by name.
    pub(super) fn engine(&self, name: &str) -> Option<&EngineRun> {
        self.engines.iter().find(|run| run.described.engine == name)
    }

    /// Recall against speed; of several engines the best at each recall.
    pub(super) fn curve(&self, names: &[String], speed: Speed) -> Curve {
        let of_one = |run: &EngineRun| {
            let point = |point: &Point| CurvePoint { recall: point.recall, qps: point.qps(self.queries, speed) };
            Curve::envelope(run.points.iter().map(point))
        };
        let curves: Vec<Curve> = names.iter().filter_map(|name| self.engine(name)).map(of_one).collect();
        Curve::best_of(&curves)
    }

    /// The best speed that any of these engines was measured with at this recall or more, on one thread: no interpolation.
    fn qps_at_least(&self, names: &[String], recall: f64) -> Option<f64> {
        let of_one = |name: &String| self.curve(std::slice::from_ref(name), Speed::Median).qps_at_least(recall);
        names.iter().filter_map(of_one).max_by(f64::total_cmp)
    }

    /// The engine of a family whose build and memory stand for it: the fastest at the first target.
    pub(super) fn representative(&self, members: &[String]) -> Option<&EngineRun> {
        let target = self.targets.first().copied().unwrap_or(0.95);
        let speed = |name: &String| {
            let name = std::slice::from_ref(name);
            let at = self.curve(name, Speed::Median).qps_at(target).ok();
            at.or_else(|| self.qps_at_least(name, target)).unwrap_or(0.0)
        };
        let fastest = members.iter().max_by(|left, right| speed(left).total_cmp(&speed(right)))?;
        self.engine(fastest)
    }

    /// A name with those of its engines that were measured; `None` where none was.
    pub(super) fn family(&self, asked: &Asked) -> Option<Asked> {
        let members: Vec<String> = asked.members.iter().filter(|name| self.engine(name).is_some()).cloned().collect();
        (!members.is_empty()).then(|| Asked { name: asked.name.clone(), members })
    }

    /// Our speed over a peer's at a recall.
    pub(super) fn ratio(&self, peer: &Asked, speed: Speed, recall: f64) -> AtRecall {
        let at = |name: &str, members: &[String]| {
            self.curve(members, speed).qps_at(recall).map_err(|why| (name.to_owned(), why))
        };
        let peer = at(&peer.name, &peer.members)?;
        Ok(at(OURS, &[OURS.to_owned()])? / peer)
    }

    /// Our best measured speed at this recall or more over the peer's best: no interpolation.
    pub(super) fn ratio_at_least(&self, peer: &Asked, recall: f64) -> Option<f64> {
        Some(self.qps_at_least(&[OURS.to_owned()], recall)? / self.qps_at_least(&peer.members, recall)?)
    }

    /// Ours against every peer asked for; empty where ours was not measured.
    pub(super) fn ratios(&self) -> Vec<Ratios> {
        let Some(ours) = self.engine(OURS) else { return Vec::new() };
        let peers = self.asked.iter().filter(|asked| asked.name != OURS).filter_map(|asked| self.family(asked));
        peers.map(|peer| self.against(ours, peer)).collect()
    }

    fn against(&self, ours: &EngineRun, peer: Asked) -> Ratios {
        let run = self.representative(&peer.members);
        let built_now = !ours.reused && run.is_some_and(|run| !run.reused);
        let over = |value: fn(&EngineRun) -> f64| {
            let (ours, theirs) = (value(ours), value(run?));
            (ours > 0.0 && theirs > 0.0).then(|| ours / theirs)
        };
        Ratios {
            representative: run.map_or_else(|| peer.name.clone(), |run| run.described.engine.clone()),
            build: over(|run| run.index.built.build_s).filter(|_| built_now),
            rss: over(|run| run.megabytes(MemoryOverTime::serving_bytes).unwrap_or(0.0)),
            rss_served: over(|run| run.megabytes(MemoryOverTime::served_bytes).unwrap_or(0.0)),
            bytes: over(|run| run.index.built.index_bytes as f64),
            peer,
        }
    }
}
