//! The arguments of commands that build graphs.

use clap::ValueEnum;
use dyad_index::Metric;
use dyad_index::format::RowType;
use dyad_indexer::Error;
use dyad_indexer::graph_build::{BuildParams, RecallTarget};

#[derive(Debug, clap::Args)]
pub(super) struct GraphArguments {
    /// Type of the stored vectors: f16 takes half the space of f32 and changes scores by about 1e-5; int8 takes none,
    /// as the codes that every index has stand for the vectors, and changes scores by about 3e-4. By default f16, and
    /// f32 for the metric `l2`, where what is near may differ in digits that f16 does not have
    #[arg(long, value_enum)]
    vector_type: Option<VectorTypeArgument>,
    /// Links per node on the upper layers, twice as many on layer 0
    #[arg(long, default_value_t = 16)]
    m: usize,
    /// Beam width of insertion, of which large shards use five eighths: a larger one makes a better graph, and takes
    /// longer
    #[arg(long, default_value_t = 200)]
    ef_construction: usize,
    /// Seed of the order of insertion and of the sampled documents of the certificate
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Fail, and publish nothing, if recall@10 of a shard is lower; above 0, at most 1. Later changes of the index keep
    /// it
    #[arg(long, value_name = "RECALL")]
    min_recall: Option<f64>,
    /// Beam width at which `--min-recall` must be reached
    #[arg(long, value_name = "EF", default_value_t = 128, requires = "min_recall")]
    at_ef: usize,
}

/// Type of the stored vectors.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum VectorTypeArgument {
    F32,
    F16,
    Int8,
}

impl From<VectorTypeArgument> for RowType {
    fn from(kind: VectorTypeArgument) -> Self {
        match kind {
            VectorTypeArgument::F32 => Self::F32,
            VectorTypeArgument::F16 => Self::F16,
            VectorTypeArgument::Int8 => Self::Int8,
        }
    }
}

impl GraphArguments {
    pub(super) fn params(&self, threads: usize) -> BuildParams {
        BuildParams {
            m: self.m,
            ef_construction: self.ef_construction,
            seed: self.seed,
            threads,
        }
    }

    /// As asked for, or what is usual with the metric.
    pub(super) fn row_type(&self, metric: Metric) -> RowType {
        self.vector_type.map_or_else(|| RowType::usual(metric), RowType::from)
    }

    pub(super) fn target(&self) -> Result<Option<RecallTarget>, Error> {
        let Some(recall) = self.min_recall else { return Ok(None) };
        RecallTarget::new(recall, self.at_ef).map(Some)
    }
}
