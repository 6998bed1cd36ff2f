//! Searching vectors: the walk over codes and the exact scan, over anything that gives rows and links.
//!
//! | file | what lives there |
//! |---|---|
//! | `hits.rs` | what every search gives: hits, their cost, and whether they are all |
//! | `params.rs` | what a search looks for, and when a walk ends |
//! | `walk.rs` | **the algorithm**: one walk over codes, as a sequence of steps |
//! | `turns.rs` | walks for several questions that take turns on one thread: what is served |
//! | `neighbours.rs` | the same walk from row to row, for builders |
//! | `candidates.rs`, `visited.rs` | a walk's candidates, and the slots that it has visited |
//! | `node_set.rs` | which nodes a filter allows |
//! | `flat.rs` | the exact scan: the oracle, and the mode `exact` |
//! | `hnsw.rs` | the textbook search over full vectors: builders use it, and it is an oracle of the walk |
//! | `topk.rs` | the best k of a stream |

mod candidates;
mod flat;
mod hits;
mod hnsw;
mod neighbours;
mod node_set;
mod params;
mod topk;
mod turns;
mod visited;
mod walk;

pub use candidates::MAX_SLOTS;
pub(crate) use flat::ROWS_BETWEEN_LOOKS;
pub use flat::{SCANNED_AT_ONCE, exact_scan, flat};
pub use hits::{Completeness, Cost, Hits, Scored};
pub use hnsw::{HnswScratch, hnsw_search};
pub use neighbours::NeighbourSearch;
pub use node_set::NodeSet;
pub use params::SearchParams;
pub use topk::TopK;
pub use turns::SearchScratch;
pub use walk::{RESCORED, ShardView};

pub use crate::rows::{DenseRows, ExactRows, VectorRows};

/// Links of a layered graph.
pub trait GraphLinks: Sync {
    /// Where a walk starts.
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
    /// Asks for the memory of a slot's links.
    fn prefetch(&self, slot: u32);
}

/// Upper layers by slot.
pub trait UpperLayers {
    /// Where a walk starts.
    fn entry(&self) -> u32;
    /// The highest layer; 0 is the lowest.
    fn max_layer(&self) -> usize;
    /// Links of a slot on a layer above 0; none where the slot is not on it, or its links are not in the file.
    fn upper(&self, layer: usize, slot: u32) -> Option<&[u32]>;
}

#[cfg(test)]
mod tests;
