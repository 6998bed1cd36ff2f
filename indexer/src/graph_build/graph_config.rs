//! How the graphs of an index are built and its vectors are stored, as one value.

use dyad_index::format::RowType;
use dyad_index::{BuildRecord, Snapshot};

use super::{BuildParams, BuilderKind};

/// How the graphs of an index are built, and its vectors are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphConfig {
    /// The graph builder.
    pub builder: BuilderKind,
    /// Parameters of each shard's graph.
    pub params: BuildParams,
    /// Type of the stored vectors.
    pub row_type: RowType,
}

impl GraphConfig {
    /// As the largest shard of an index was built, with this many threads.
    pub(crate) fn like_index(base: &Snapshot, threads: usize) -> Self {
        let largest = base.shards().iter().max_by_key(|shard| shard.dense.len());
        let Some(largest) = largest else {
            return Self {
                builder: BuilderKind::default(),
                params: BuildParams {
                    m: 16,
                    ef_construction: 200,
                    seed: 0,
                    threads,
                },
                row_type: RowType::usual(base.manifest().model.metric),
            };
        };
        let BuildRecord {
            builder,
            m,
            ef_construction,
            seed,
            ..
        } = &largest.dense.meta().build;
        Self {
            builder: BuilderKind::named(builder).unwrap_or_default(),
            params: BuildParams {
                m: *m,
                ef_construction: *ef_construction,
                seed: *seed,
                threads,
            },
            row_type: largest.dense.header().row_type,
        }
    }
}
