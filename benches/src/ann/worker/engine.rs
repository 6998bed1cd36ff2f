//! What every engine of this binary can do.

use std::collections::BTreeMap;
use std::path::Path;

use crate::ann::protocol::{AnnDescription, AnnDetails, FilterCondition, IndexBuild};
use crate::dataset::Matrix;

/// One engine of this binary.
pub(super) trait AnnEngine {
    /// Itself in words.
    fn describe(&self) -> AnnDescription;
    /// Builds and writes an index of these vectors; returns the seconds of the build alone.
    fn build(&self, job: &IndexBuild, base: &Matrix) -> anyhow::Result<f64>;
    /// Opens what `build` wrote.
    fn open(&self, dir: &Path) -> anyhow::Result<Box<dyn SearchableIndex>>;
}

/// A filter, and the rows that pass it.
pub(super) struct FilterRows {
    pub(super) rows: Vec<u32>,
    pub(super) all: Vec<FilterCondition>,
}

/// How a search is done: with a value of the sweep parameter, and under one of the filters that were chosen last, or
/// none.
#[derive(Debug, Clone, Copy)]
pub(super) struct QuerySettings {
    pub(super) value: usize,
    pub(super) filter: Option<usize>,
}

/// An opened index.
pub(super) trait SearchableIndex: Sync {
    /// Values per vector.
    fn dim(&self) -> usize;
    /// Writes the ids of the nearest rows into `out`, nearest first; what is left of `out` stays as it is.
    fn search(&self, query: &[f32], how: QuerySettings, out: &mut [i32]);
    /// Searches for many queries, `k` ids each: the engine's batch call, where it has one.
    fn search_batch(&self, queries: &[&[f32]], k: usize, how: QuerySettings, out: &mut [i32]) {
        for (query, out) in queries.iter().zip(out.chunks_mut(k.max(1))) {
            self.search(query, how, out);
        }
    }
    /// Takes the filters that searches name by their numbers.
    fn choose_filters(&mut self, _filters: Vec<FilterRows>) -> anyhow::Result<()> {
        anyhow::bail!("this engine has no filters")
    }
    /// Deletes rows and adds others, where it can be changed.
    fn change(&mut self, _gone: &[i64], _rows: &Path, _labels: &[i64], _threads: usize) -> anyhow::Result<()> {
        anyhow::bail!("this engine's index cannot be changed")
    }
    /// Does what it does to be as after a build.
    fn merge(&mut self, _all: bool, _threads: usize) -> anyhow::Result<()> {
        anyhow::bail!("this engine's index cannot be changed")
    }
    /// Drops pages of full-precision vectors, where they are mapped.
    fn evict(&self) {}
}

/// What an engine says of itself whose sweep parameter is `ef`.
pub(super) fn described(engine: &str, version: &str, settings: String, defaults: Vec<u32>) -> AnnDescription {
    let more = AnnDetails {
        sweep: "ef".to_owned(),
        defaults,
        variants: Vec::new(),
        skipped: BTreeMap::new(),
        single_threaded: false,
        reads_attributes: false,
        index_of: None,
    };
    AnnDescription {
        engine: engine.to_owned(),
        version: version.to_owned(),
        settings,
        more,
    }
}
