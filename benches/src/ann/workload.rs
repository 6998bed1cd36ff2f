//! A workload: which data, which parameters, which engines. Read from TOML (unknown keys are refused), and made a job.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cells::FilterSettings;
use super::protocol::IndexBuild;
use crate::dataset::VectorMetric;
use crate::dataset::synthetic::SyntheticData;
use crate::error::BenchResult;
use crate::harness::{EngineSettings, WorkloadFile, plain_names, read_toml, require_some, threads};

/// Engines of a workload that names none. `usearch-i8` builds slowly on few cores and is left out.
const ENGINES: [&str; 7] = [
    "dyad",
    "hnswlib",
    "faiss",
    "faiss-sq8",
    "qdrant-edge",
    "svs-lvq",
    "hnsw_rs",
];

/// What one run measures. `benches/workloads/README.md` says what every key means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnnWorkload {
    /// Name in records.
    pub name: String,
    pub(crate) metric: VectorMetric,
    #[serde(default = "k")]
    pub(crate) k: usize,
    /// Links per node (M), or each engine's nearest setting.
    #[serde(default = "m")]
    pub m: usize,
    #[serde(default = "ef_construction")]
    pub(crate) ef_construction: usize,
    #[serde(default)]
    pub(crate) seed: u64,
    #[serde(default = "repeats")]
    pub(crate) repeats: usize,
    #[serde(default = "threaded_repeats")]
    pub(crate) threaded_repeats: usize,
    #[serde(default = "least_ms")]
    pub(crate) least_ms: u32,
    /// Threads of builds and of the passes on all threads; 0 in the file stands for all that this process may use.
    #[serde(default)]
    pub(crate) threads: usize,
    #[serde(default = "targets")]
    pub(crate) targets: Vec<f64>,
    #[serde(default = "ceiling")]
    pub(crate) ceiling: f64,
    #[serde(default = "engines")]
    pub(crate) engines: Vec<String>,
    pub(crate) data: WorkloadVectors,
    /// What `dyad-bench filter` measures.
    #[serde(default)]
    pub filter: FilterSettings,
    /// Sweep values per engine, in place of the engine's own.
    #[serde(default)]
    pub sweep: BTreeMap<String, Vec<u32>>,
}

/// Where vectors come from: files, one HDF5 file, or the generator.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadVectors {
    pub(crate) base: Option<PathBuf>,
    pub(crate) queries: Option<PathBuf>,
    pub(crate) neighbours: Option<PathBuf>,
    pub(crate) hdf5: Option<PathBuf>,
    pub(crate) synthetic: Option<SyntheticData>,
    pub(crate) limit: Option<usize>,
    pub(crate) limit_queries: Option<usize>,
    #[serde(default)]
    pub(crate) normalise: bool,
}

defaults! {
    k: usize = 10;
    m: usize = 16;
    ef_construction: usize = 200;
    repeats: usize = 5;
    threaded_repeats: usize = 3;
    least_ms: u32 = 300;
    targets: Vec<f64> = vec![0.95, 0.97, 0.99];
    ceiling: f64 = 0.9985;
    engines: Vec<String> = ENGINES.map(str::to_owned).to_vec();
}

impl AnnWorkload {
    /// Reads and checks a workload. Relative data paths are looked for next to the file, then under `data_dir`.
    pub fn read(path: &Path, data_dir: Option<&Path>) -> BenchResult<Self> {
        let mut workload: Self = read_toml(path, |workload: &mut Self| workload.check())?;
        let WorkloadVectors {
            base,
            queries,
            neighbours,
            hdf5,
            ..
        } = &mut workload.data;
        for data in [base, queries, neighbours, hdf5].into_iter().flatten() {
            WorkloadFile::new(path, data_dir).locate("data", data)?;
        }
        workload.threads = threads(workload.threads);
        Ok(workload)
    }

    /// A build of `base` in a folder with these parameters, without what filters read.
    pub(super) fn index_build(&self, base: PathBuf, dir: PathBuf) -> IndexBuild {
        let &Self {
            metric,
            m,
            ef_construction,
            threads,
            seed,
            ..
        } = self;
        IndexBuild {
            base,
            attributes: None,
            metric,
            m,
            ef_construction,
            threads,
            seed,
            dir,
        }
    }

    fn check(&self) -> Result<(), String> {
        let Self {
            k,
            m,
            ef_construction,
            repeats,
            data,
            ..
        } = self;
        require_some(&[
            ("k", *k),
            ("m", *m),
            ("ef_construction", *ef_construction),
            ("repeats", *repeats),
            ("data.limit", data.limit.unwrap_or(1)),
            ("data.limit_queries", data.limit_queries.unwrap_or(1)),
        ])?;
        plain_names("name", [self.name.as_str()])?;
        if self.targets.is_empty() || !self.targets.iter().all(|target| *target > 0.0 && *target <= 1.0) {
            return Err(format!(
                "`targets`: expected recalls above 0 and at most 1, got {:?}",
                self.targets
            ));
        }
        for (engine, values) in &self.sweep {
            if values.is_empty() || values.contains(&0) || !values.is_sorted_by(|left, right| left < right) {
                return Err(format!(
                    "`sweep.{engine}`: expected ascending values above 0, got {values:?}"
                ));
            }
        }
        self.filter.check().map_err(|problem| format!("`filter`: {problem}"))?;
        self.data.check()
    }
}

impl WorkloadVectors {
    fn check(&self) -> Result<(), String> {
        let files = self.base.is_some() || self.queries.is_some() || self.neighbours.is_some();
        let kinds = [files, self.hdf5.is_some(), self.synthetic.is_some()]
            .into_iter()
            .filter(|kind| *kind)
            .count();
        if kinds != 1 {
            return Err(format!(
                "`data`: expected either `base` and `queries`, or `hdf5`, or `synthetic`, got {kinds} of these"
            ));
        }
        if files && (self.base.is_none() || self.queries.is_none()) {
            return Err("`data`: expected both `base` and `queries`, got one of them".to_owned());
        }
        self.synthetic.as_ref().map_or(Ok(()), SyntheticData::check)
    }
}

/// A run to be done.
#[derive(Debug)]
pub struct AnnJob<'a> {
    /// What to measure.
    pub workload: &'a AnnWorkload,
    /// Engines, by names that may stand for several; `cache` is also the folder of indexes, and `deadline` is for all
    /// answers but builds.
    pub settings: EngineSettings,
    /// Engines for which the command gives sweeps, by names that may stand for several: they must be in the run.
    pub swept: Vec<String>,
    /// Takes indexes of an earlier run, where vectors and settings are the same.
    pub keep_indexes: bool,
    /// Indexes are opened after their files were dropped from the page cache.
    pub cold: bool,
    /// Bytes of memory that a worker may take once it opens an index, pages of its files included.
    pub memory_limit: Option<u64>,
    /// Time for a build.
    pub build_deadline: Duration,
}

impl<'a> AnnJob<'a> {
    /// A run with the files of fresh indexes in the page cache, without a limit of memory.
    pub fn new(workload: &'a AnnWorkload, settings: EngineSettings, build_deadline: Duration) -> Self {
        let swept = Vec::new();
        Self {
            workload,
            settings,
            swept,
            keep_indexes: false,
            cold: false,
            memory_limit: None,
            build_deadline,
        }
    }
}
