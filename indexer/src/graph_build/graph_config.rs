//! How the graphs of an index are built and its vectors are stored, as one value.

use dyad_index::format::RowType;
use dyad_index::quant::Codec;
use dyad_index::snapshot::Shard;
use dyad_index::{BuildRecord, Snapshot};

use super::{BuildParams, BuilderKind};

/// Rows from which a shard's quantiser is good enough for later shards: the mean of as many is a tenth of a standard
/// deviation off. Of the first document alone, all later vectors would be longer less it, and their codes coarser.
const FEWEST_ROWS_OF_A_CODEC: usize = 100;

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

    /// The quantiser with which rows of a shard are to be encoded again that were decoded from its codes, so that they
    /// get the same ones and lose nothing more; none where it has the rows themselves.
    pub(crate) fn codec_of(shard: &Shard) -> Option<Codec> {
        let is_int8 = shard.dense.header().row_type == RowType::Int8;
        is_int8.then(|| shard.dense.codes().codec().clone())
    }

    /// The same of the largest shard of an index, by which its later shards are encoded too: a merge of several then
    /// loses nothing either. None where that shard is too small to tell where vectors lie.
    pub(crate) fn codec_of_index(base: &Snapshot) -> Option<Codec> {
        let largest = base.shards().iter().max_by_key(|shard| shard.dense.len())?;
        Self::codec_of(largest).filter(|_| largest.dense.len() >= FEWEST_ROWS_OF_A_CODEC)
    }
}
