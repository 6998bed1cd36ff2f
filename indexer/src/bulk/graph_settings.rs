//! How the graphs of a job are built, as its plan records it.

use dyad_index::Metric;
use dyad_index::format::RowType;
use dyad_index::manifest::MinRecall;
use serde::{Deserialize, Serialize};

use crate::graph_build::{BuildParams, BuilderKind, GraphConfig};

/// How shards are built.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphSettings {
    /// Name of the builder.
    pub builder: String,
    /// Links per node on the upper layers.
    pub m: usize,
    /// Beam width while inserting.
    pub ef_construction: usize,
    /// Of every random choice.
    pub seed: u64,
    /// Type of the stored vectors: `f16`, `f32` or `int8`.
    pub vector_type: String,
    /// Minimum recall of every shard.
    pub min_recall: Option<MinRecall>,
}

impl GraphSettings {
    /// As a record.
    pub fn new(builder: BuilderKind, params: &BuildParams, row_type: RowType, min_recall: Option<MinRecall>) -> Self {
        Self {
            builder: builder.get().name().to_owned(),
            m: params.m,
            ef_construction: params.ef_construction,
            seed: params.seed,
            vector_type: row_type.name().to_owned(),
            min_recall,
        }
    }

    /// The parameters of its graphs, with this many threads.
    pub(super) fn params(&self, threads: usize) -> BuildParams {
        BuildParams {
            m: self.m,
            ef_construction: self.ef_construction,
            seed: self.seed,
            threads,
        }
    }

    /// As a build takes it, with this many threads; a vector type that this release does not know is the usual one of
    /// the metric.
    pub(super) fn config(&self, metric: Metric, threads: usize) -> GraphConfig {
        let row_type = RowType::named(&self.vector_type);
        GraphConfig {
            builder: BuilderKind::named(&self.builder).unwrap_or_default(),
            params: self.params(threads),
            row_type: row_type.unwrap_or_else(|| RowType::usual(metric)),
        }
    }
}
