//! What harness and workers say to each other about an index: one JSON object per line, one reply per request. What all protocols
//! share is in `harness/serve.rs`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::dataset::Metric;
use crate::harness;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Request {
    /// Make an index of `base`, `.npy` float32 `[n, d]` (unit rows for `ip`), in a fresh directory.
    Build(Build),
    /// Open an index where it was built: from files to ready to search.
    Open { dir: PathBuf },
    /// Load the queries, `.npy` float32 `[q, d]`, of `k` hits each, once.
    Prepare { queries: PathBuf, k: usize },
    /// Search for all queries with one value of the sweep parameter.
    Search {
        value: u32,
        threads: usize,
        /// One call for all, or one call per query.
        mode: Mode,
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
    Change { delete: PathBuf, base: PathBuf, labels: PathBuf, threads: usize },
    /// Do what the engine does to be as after a build: where it finds that necessary, or in any case.
    Merge { all: bool, threads: usize },
    /// Drop the pages of the full-precision vectors, where the engine maps them.
    Evict,
}

/// What a build is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Build {
    pub(super) base: PathBuf,
    pub(super) metric: Metric,
    pub(super) m: usize,
    pub(super) ef_construction: usize,
    pub(super) threads: usize,
    pub(super) seed: u64,
    pub(super) dir: PathBuf,
}

/// How queries are handed to an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// The engine's own batch call where it has one.
    Batch,
    /// One call per query, each timed.
    Each,
}

/// An engine, as it describes itself.
pub(super) type Described = harness::Described<More>;

/// What an engine says of itself beyond name, version and settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct More {
    /// Name of the sweep parameter.
    pub(super) sweep: String,
    /// Values that make a useful curve.
    pub(super) defaults: Vec<u32>,
    /// Engines that this name stands for, where it stands for several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) variants: Vec<String>,
}

/// A finished build.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// Seconds, without reading vectors and writing files.
    pub build_s: f64,
    /// Bytes of all files.
    pub(super) index_bytes: u64,
}

/// Loaded queries.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Prepared {
    pub(super) queries: usize,
}

/// A finished search of all queries.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Searched {
    /// Wall time of the search alone; of several rounds, their mean.
    pub(super) seconds: f64,
    /// How often all queries were searched for.
    #[serde(default = "one")]
    pub(super) rounds: u32,
}

fn one() -> u32 {
    1
}
