//! What a run measured, and ours over each peer's: speed at equal recall, build time, memory.

use serde::{Deserialize, Serialize};

use super::curve::RecallCurve;
use super::protocol::{AnnDescription, BuiltIndex};
use super::workload::AnnWorkload;
use crate::harness::{MachineInfo, OURS, RunInfo, WorkerMemory, median, per_second};

/// One value of an engine's sweep parameter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SweepPoint {
    /// The value of the sweep parameter.
    pub value: u32,
    /// Mean recall@k over the batch passes.
    pub recall: f64,
    pub(super) recalls: Vec<f64>,
    /// Seconds per batch pass on one thread.
    pub(super) seconds: Vec<f64>,
    /// Seconds per batch pass on all threads.
    pub(super) seconds_all_threads: Vec<f64>,
    /// Median microseconds of a single call, per pass.
    pub(super) passes_p50_us: Vec<f64>,
    /// 99th percentile of a single call's microseconds, per pass.
    pub(super) passes_p99_us: Vec<f64>,
    /// Smallest number of times that a batch pass on one thread searched for all queries; `seconds` are of one time.
    pub(super) rounds: u32,
    /// Microseconds of each query in the last pass of single calls.
    pub(super) latencies_us: Vec<f64>,
    /// Ids of the last pass of single calls: k per query, -1 pads.
    pub(super) ids: Vec<i64>,
}

/// How an engine is asked, and on how many threads; medians over the passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpeedKind {
    /// All queries in its batch call, one thread.
    Batch,
    /// All queries in its batch call, all threads.
    BatchAllThreads,
    /// One call per query, one thread: the median of their times.
    SingleP50,
    /// One call per query, one thread: the 99th percentile of their times.
    SingleP99,
}

impl SweepPoint {
    /// Queries per second, of single calls one over the time of a call; 0 where nothing was timed.
    pub(super) fn qps(&self, queries: usize, speed: SpeedKind) -> f64 {
        let per_call = |passes: &[f64]| per_second(1, median(passes).unwrap_or(0.0) / 1e6);
        match speed {
            SpeedKind::Batch => per_second(queries, median(&self.seconds).unwrap_or(0.0)),
            SpeedKind::BatchAllThreads => per_second(queries, median(&self.seconds_all_threads).unwrap_or(0.0)),
            SpeedKind::SingleP50 => per_call(&self.passes_p50_us),
            SpeedKind::SingleP99 => per_call(&self.passes_p99_us),
        }
    }
}

/// Memory of a worker as the run went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemoryOverTime {
    /// Memory before `open`.
    pub(super) baseline: WorkerMemory,
    /// Memory after `open`.
    pub(super) opened: WorkerMemory,
    /// Memory after all searches.
    pub(super) served: WorkerMemory,
    /// Memory after `evict`, which drops the mapped pages of full-precision vectors.
    pub(super) evicted: WorkerMemory,
    /// Memory after one more pass over all queries at a middle value, which has read some of them again.
    pub(super) evicted_pass: WorkerMemory,
}

/// A built index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IndexRecord {
    /// Engine, version, settings and vectors.
    pub(super) made_from: String,
    /// Seconds and bytes.
    pub built: BuiltIndex,
    /// It was there before the run.
    #[serde(skip)]
    pub reused: bool,
}

/// The first pass of single calls after an index was opened, at a middle value of the sweep: what a service answers
/// just after it has started.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct FirstPass {
    pub(super) value: u32,
    /// Microseconds of the very first call.
    pub(super) first_us: f64,
    /// Seconds of all calls together.
    pub(super) seconds: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

/// One engine in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct AnnEngineRun {
    /// What the engine says of itself.
    pub described: AnnDescription,
    /// The index that it searches.
    pub index: IndexRecord,
    /// Milliseconds from files to ready to search.
    pub(super) open_ms: f64,
    pub(super) first_pass: FirstPass,
    /// Points by ascending value of the sweep parameter.
    pub points: Vec<SweepPoint>,
    pub(super) memory: MemoryOverTime,
}

impl AnnEngineRun {
    /// Resident megabytes at one moment, less those before `open`.
    pub(super) fn megabytes(&self, at: WorkerMemory) -> f64 {
        at.rss_bytes.saturating_sub(self.memory.baseline.rss_bytes) as f64 / 1e6
    }
}

/// A name that stood for several engines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct EngineFamily {
    pub(super) name: String,
    /// The members of the family that can run here.
    pub(super) members: Vec<String>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnnMeasurement {
    pub(crate) workload: AnnWorkload,
    pub(super) rows: usize,
    pub(super) dim: usize,
    pub(super) queries: usize,
    /// Indexes were opened after their files were dropped from the page cache.
    pub(super) cold: bool,
    /// Bytes that an engine's process could take.
    pub(super) memory_limit: Option<u64>,
    pub(super) machine: MachineInfo,
    pub(crate) stamp: RunInfo,
    /// Engines that were measured, in the order asked.
    #[serde(skip)]
    pub engines: Vec<AnnEngineRun>,
    /// Names that stood for several engines.
    #[serde(skip)]
    pub(super) families: Vec<EngineFamily>,
    /// Members of families that cannot run here, and why.
    #[serde(skip)]
    pub(super) skipped: Vec<(String, String)>,
    /// Engines that failed, and why.
    #[serde(skip)]
    pub failures: Vec<(String, String)>,
}

impl AnnMeasurement {
    /// Ours, where it was measured.
    fn ours(&self) -> Option<&AnnEngineRun> {
        self.engines.iter().find(|run| run.described.engine == OURS)
    }

    /// Those that ours is compared with; none where ours was not measured.
    pub(super) fn peers(&self) -> impl Iterator<Item = &AnnEngineRun> {
        let peers = self.engines.iter().filter(|run| run.described.engine != OURS);
        peers.filter(|_| self.ours().is_some())
    }

    /// Recall against speed of one engine.
    pub(super) fn curve(&self, run: &AnnEngineRun, speed: SpeedKind) -> RecallCurve {
        RecallCurve::envelope(
            run.points
                .iter()
                .map(|point| (point.recall, point.qps(self.queries, speed))),
        )
    }

    /// Our speed over a peer's at a recall; or the name of the engine whose curve has no value there, and why.
    pub(super) fn ratio(&self, peer: &AnnEngineRun, speed: SpeedKind, recall: f64) -> Result<f64, (String, String)> {
        let peer = self.qps_at(peer, speed, recall)?;
        let ours = self.ours().ok_or_else(|| (OURS.to_owned(), "no points".to_owned()))?;
        Ok(self.qps_at(ours, speed, recall)? / peer)
    }

    /// An engine's queries per second at a recall; or its name, and why there is no value.
    fn qps_at(&self, run: &AnnEngineRun, speed: SpeedKind, recall: f64) -> Result<f64, (String, String)> {
        self.curve(run, speed)
            .qps_at(recall)
            .map_err(|why| (run.described.engine.clone(), why))
    }

    /// The fastest member of a family at a recall, and our speed over its own; none where none of them or ours has no
    /// value there.
    pub(super) fn best(&self, family: &EngineFamily, speed: SpeedKind, recall: f64) -> Option<(&AnnEngineRun, f64)> {
        let members = self
            .peers()
            .filter(|run| family.members.contains(&run.described.engine));
        let ratios = members.filter_map(|run| Some((run, self.ratio(run, speed, recall).ok()?)));
        ratios.min_by(|(_, left), (_, right)| left.total_cmp(right))
    }

    /// Another figure of ours over a peer's; none where one of the two ends below the first recall at which they are
    /// compared.
    pub(super) fn over(&self, peer: &AnnEngineRun, figure: fn(&AnnEngineRun) -> Option<f64>) -> Option<f64> {
        let (ours, first) = (self.ours()?, *self.workload.targets.first()?);
        let is_reached = |run| self.curve(run, SpeedKind::Batch).reaches(first);
        if !is_reached(ours) || !is_reached(peer) {
            return None;
        }
        let (ours, peer) = (figure(ours)?, figure(peer)?);
        (ours > 0.0 && peer > 0.0).then(|| ours / peer)
    }
}
