//! What harness and workers say to each other: one JSON object per line, one reply per request.
//!
//! A worker holds one engine. It reads requests from stdin, answers on stdout and may write anything to stderr. A request
//! that fails is answered by `{"error": "..."}`, and the worker lives on.
//!
//! | op | reply |
//! |---|---|
//! | `describe` | [`Described`] |
//! | `build` | [`Built`]: reads `.npy` float32, writes its index into a fresh directory |
//! | `open` | [`Opened`]: from files to ready to search |
//! | `prepare` | [`Prepared`]: loads the queries, once |
//! | `search` | [`Searched`]: all queries with one value of the sweep parameter; ids to a `.npy` int32 `[q, k]`, -1 pads |
//! | `rss` | [`Memory`] |
//! | `cool` | `{}`: drops pages of full-precision vectors where the engine maps them |
//! | `quit` | `{}` or the end of the process |

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::dataset::Metric;
use crate::harness;
pub use crate::harness::Opened;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Name, version, settings.
    Describe,
    /// Make an index.
    Build {
        /// `.npy` float32 `[n, d]`; unit rows for `ip`.
        base: PathBuf,
        /// How vectors are compared.
        metric: Metric,
        /// Links per node.
        m: usize,
        /// Beam width while building.
        ef_construction: usize,
        /// Threads that build.
        threads: usize,
        /// Seed of what is random.
        seed: u64,
        /// A fresh directory.
        dir: PathBuf,
    },
    /// Open an index.
    Open {
        /// Where it was built.
        dir: PathBuf,
    },
    /// Load the queries.
    Prepare {
        /// `.npy` float32 `[q, d]`.
        queries: PathBuf,
        /// Hits per query.
        k: usize,
    },
    /// Search for all queries.
    Search {
        /// The sweep parameter.
        value: u32,
        /// Threads that search.
        threads: usize,
        /// One call for all, or one call per query.
        mode: Mode,
        /// With mode `batch`: all queries are searched for again, inside one timing, until this many milliseconds have
        /// passed; at least once.
        #[serde(default)]
        least_ms: u32,
        /// `.npy` int32 `[q, k]`.
        out: PathBuf,
        /// `.npy` float64 `[q]` microseconds; with mode `each`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        latencies: Option<PathBuf>,
    },
    /// How much memory the worker has.
    Rss,
    /// Drop the pages of the full-precision vectors.
    Cool,
    /// End.
    Quit,
}

/// How queries are handed to an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The engine's own batch call where it has one.
    Batch,
    /// One call per query, each timed.
    Each,
}

impl harness::Request for Request {
    fn op(&self) -> &'static str {
        match self {
            Self::Describe => "describe",
            Self::Build { .. } => "build",
            Self::Open { .. } => "open",
            Self::Prepare { .. } => "prepare",
            Self::Search { .. } => "search",
            Self::Rss => "rss",
            Self::Cool => "cool",
            Self::Quit => "quit",
        }
    }
}

/// An engine, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// Its name.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// Name of the sweep parameter.
    pub sweep: String,
    /// Values that make a useful curve.
    pub defaults: Vec<u32>,
    /// How it is called, for the record.
    pub settings: String,
    /// Engines that this name stands for, where it stands for several: the best of them counts at each recall.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<String>,
}

/// A finished build.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// Seconds, without reading vectors and writing files.
    pub build_s: f64,
    /// Bytes of all files.
    pub index_bytes: u64,
}

/// Loaded queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// How many.
    pub queries: usize,
}

/// A finished search of all queries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Searched {
    /// Wall time of the search alone; of several rounds, their mean.
    pub seconds: f64,
    /// How often all queries were searched for.
    #[serde(default = "one")]
    pub rounds: u32,
}

fn one() -> u32 {
    1
}

/// Memory of a worker, from `/proc/self/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// `VmRSS`.
    pub rss_bytes: u64,
    /// `RssAnon`.
    pub anonymous_bytes: u64,
    /// `RssFile`.
    pub file_bytes: u64,
}

/// A reply without content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {}
