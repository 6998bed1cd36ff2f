//! What a build measured about its own graph.

use serde::{Deserialize, Serialize};

/// Reachability and recall of one shard, measured when it was built and stored in its file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Certificate {
    /// Vectors in the shard.
    pub vectors: u64,
    /// Nodes that the builder left unreachable from the entry point on layer 0.
    pub unreachable_before_repair: u64,
    /// Links that the repair added.
    pub links_added: u64,
    /// Nodes unreachable now. A published shard has none.
    pub unreachable: u64,
    /// Vectors that were searched for to measure recall.
    pub queries: u64,
    /// Recall and cost for a ladder of beam widths, ascending.
    pub recall: Vec<RecallPoint>,
}

/// Recall against the exact scan at one beam width.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecallPoint {
    /// Beam width.
    pub ef: usize,
    /// Mean share of the 10 nearest that the walk finds.
    pub recall_at_10: f64,
    /// Mean share of the 100 nearest that the walk finds; absent where `ef` or the shard is smaller than 100.
    pub recall_at_100: Option<f64>,
    /// Mean inner products per search.
    pub distance_computations: f64,
}
