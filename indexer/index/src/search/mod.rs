//! Vector search: the beam search over quantised codes, and the exact scan.
//!
//! | file | contents |
//! |---|---|
//! | `hits.rs` | the result of every search: hits, their cost, and whether it was complete |
//! | `exact_rows.rs` | the vectors of a shard, as they are compared with questions |
//! | `view.rs` | what a search reads of a shard |
//! | `params.rs` | parameters of a search, and the rule that stops it |
//! | `beam_search/` | **the algorithm**: one beam search over codes, as a sequence of steps; what differs through a filter |
//! | `interleaved.rs` | beam searches for several questions, interleaved on one thread: what the searcher runs |
//! | `code_scan.rs` | the scan of the codes of all allowed slots: for filters that allow few |
//! | `slot_set.rs` | the slots that a filter allows, and their sketches laid out for such a scan |
//! | `rescore.rs` | the end of both: scores from the vectors, and hits, which are all documents of a vector |
//! | `planned.rs` | which of these a search of a shard is, by their costs |
//! | `filter_plan.rs` | what each way of a filtered search costs |
//! | `neighbours.rs` | the same search with a row as the question, for graph builders |
//! | `candidates.rs`, `visited.rs` | the candidate queue and the visited set of a search |
//! | `node_set.rs` | which nodes a filter allows |
//! | `flat.rs` | the exact scan: the oracle, and the mode `exact` |
//! | `hnsw.rs` | the textbook search over full vectors: the `hnsw_rs` builder's repair uses it, and tests use it as an oracle |
//! | `topk.rs` | the best k of a stream |

mod beam_search;
mod candidates;
mod code_scan;
mod exact_rows;
mod filter_plan;
mod flat;
mod hits;
mod hnsw;
mod interleaved;
mod neighbours;
mod node_set;
mod params;
mod planned;
mod rescore;
mod slot_set;
mod topk;
mod view;
mod visited;

pub use candidates::MAX_SLOTS;
pub use exact_rows::{ExactRows, RowQuestion};
pub use filter_plan::filter_scans;
pub(crate) use flat::ROWS_BETWEEN_CHECKS;
pub use flat::{SCAN_BATCH, exact_scan, flat};
pub use hits::{Completeness, Cost, Scored, SearchHits};
pub use hnsw::{HnswScratch, hnsw_search};
pub use interleaved::SearchScratch;
pub use neighbours::NeighbourSearch;
pub use node_set::NodeSet;
pub use params::{Far, MinCompetitive, OutOfDistribution, SearchParams};
pub use planned::{PlannedQuestion, PlannedSearch};
pub use rescore::{RESCORED, slots_of_vector};
pub use topk::TopK;
pub use view::ShardView;

pub use crate::rows::{DenseRows, RowRange, VectorRows};

/// Links of a layered graph.
pub trait GraphLinks: Sync {
    /// The entry point: where a search starts.
    fn entry(&self) -> u32;
    /// The highest layer; 0 is the lowest.
    fn max_layer(&self) -> usize;
    /// Links of a node on a layer; empty where there are none.
    fn links(&self, layer: usize, node: u32) -> &[u32];
}

/// Links of layer 0 by slot.
pub trait SlotLinks {
    /// Appends the links of a slot; its own slot among them is padding.
    fn append(&self, slot: u32, links: &mut Vec<u32>);
    /// Prefetches a slot's links.
    fn prefetch(&self, slot: u32);
    /// Whether some slots are copies of others, to which no link leads.
    fn has_copies(&self) -> bool {
        false
    }
    /// The slot that has the vector of a copy, and its links; of any other slot itself. The copies of a slot follow it.
    fn representative(&self, slot: u32) -> u32 {
        slot
    }
}

/// Upper layers by slot.
pub trait UpperLayers {
    /// The entry point: where a search starts.
    fn entry(&self) -> u32;
    /// The highest layer; 0 is the lowest.
    fn max_layer(&self) -> usize;
    /// Links of a slot on a layer above 0; none where the slot is not on it, or its links are not in the file.
    fn upper(&self, layer: usize, slot: u32) -> Option<&[u32]>;
}

#[cfg(test)]
mod tests;
