//! What harness and workers say to each other about an index: one JSON object per line, one reply per request. What all
//! protocols share is in `harness/serve.rs`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::dataset::VectorMetric;
use crate::harness;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum AnnRequest {
    /// Make an index of `base`, `.npy` float32 `[n, d]` (unit rows for `ip`), in a fresh directory.
    Build(IndexBuild),
    /// Open an index where it was built: from files to ready to search.
    Open { dir: PathBuf },
    /// Load the queries, `.npy` float32 `[q, d]`, of `k` hits each, once.
    Prepare { queries: PathBuf, k: usize },
    /// Search under filters from here on: under the first that lists a query, which one of them does for each; under
    /// none where there are none. What an engine prepares of them is not timed.
    Filter { filters: Vec<QueryFilter> },
    /// Search for all queries with one value of the sweep parameter.
    Search {
        value: u32,
        threads: usize,
        /// Whether all queries are one call, or each is a call of its own.
        mode: CallMode,
        /// With mode `batch`: all queries are searched for again, inside one timing, until this many milliseconds have
        /// passed; at least once.
        #[serde(default)]
        least_ms: u32,
        /// `.npy` int32 `[q, k]`, -1 pads.
        out: PathBuf,
        /// `.npy` float64 `[q]` microseconds; with mode `each`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        latencies: Option<PathBuf>,
    },
    /// Delete rows of the opened index by their labels, `.npy` int32 `[n, 1]`, and add others under labels of theirs.
    Change {
        delete: PathBuf,
        base: PathBuf,
        labels: PathBuf,
        threads: usize,
    },
    /// Do what the engine does to be as after a build: where it finds that necessary, or in any case.
    Merge { all: bool, threads: usize },
    /// Drop the pages of the full-precision vectors, where the engine maps them.
    Evict,
}

/// What a build is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexBuild {
    pub(super) base: PathBuf,
    /// What filters read, of every row: JSON lines `{"_id": "ROW", "text": ..., "metadata": {"FIELD": NUMBER or [TEXT,
    /// ...]}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) attributes: Option<PathBuf>,
    pub(super) metric: VectorMetric,
    pub(super) m: usize,
    pub(super) ef_construction: usize,
    pub(super) threads: usize,
    pub(super) seed: u64,
    pub(super) dir: PathBuf,
}

/// The filter of some queries, as a condition and as what it comes to: an engine takes the one that it can.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct QueryFilter {
    /// Numbers of the queries.
    pub(super) queries: Vec<usize>,
    /// The rows that pass, ascending, `.npy` int32 `[n, 1]`.
    pub(super) rows: PathBuf,
    /// The conditions, all of which a row has to meet.
    pub(super) all: Vec<FilterCondition>,
}

/// A condition on an attribute of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FilterCondition {
    /// One of the field's texts is this one.
    Equals { field: String, value: String },
    /// The field's number is below this one.
    Below { field: String, bound: u32 },
}

/// How queries are handed to an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallMode {
    /// The engine's own batch call where it has one.
    Batch,
    /// One call per query, each timed.
    Each,
}

/// The sweep parameter of an engine without one.
pub(super) const NO_SWEEP: &str = "none";

/// An engine, as it describes itself.
pub(super) type AnnDescription = harness::EngineDescription<AnnDetails>;

/// What an engine says of itself beyond name, version and settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnDetails {
    /// Name of the sweep parameter; [`NO_SWEEP`] where there is none.
    pub(super) sweep: String,
    /// Values that make a useful curve.
    pub(super) defaults: Vec<u32>,
    /// Engines that this name stands for, where it stands for several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) variants: Vec<String>,
    /// Those of them that cannot run here, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) skipped: BTreeMap<String, String>,
    /// It searches on one thread only, so there are no passes on all threads.
    #[serde(default)]
    pub(super) single_threaded: bool,
    /// It evaluates the conditions of filters, and its index holds what they read.
    #[serde(default)]
    pub(super) reads_attributes: bool,
    /// The engine with the same index, where another has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) index_of: Option<String>,
}

/// A finished build.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BuiltIndex {
    /// Seconds, without reading vectors and writing files.
    pub build_s: f64,
    /// Bytes of all files.
    pub(super) index_bytes: u64,
}

/// Loaded queries.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PreparedQueries {
    pub(super) queries: usize,
}

/// A finished search of all queries.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SearchedQueries {
    /// Wall time of the search alone; of several rounds, their mean.
    pub(super) seconds: f64,
    /// How often all queries were searched for.
    #[serde(default = "rounds")]
    pub(super) rounds: u32,
}

defaults! {
    rounds: u32 = 1;
}
