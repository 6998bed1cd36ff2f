//! Searching vectors: the beam walk and the exact scan, over anything that gives rows and links.
//!
//! | file | what lives there |
//! |---|---|
//! | `beam.rs` | what is served: walks over codes, several questions taking turns on one thread |
//! | `lane.rs` | one such walk as a sequence of steps |
//! | `explore.rs` | the same from row to row, for builders |
//! | `frontier.rs`, `seen.rs` | a walk's candidates, and the slots it has met |
//! | `node_set.rs` | which nodes a filter lets pass |
//! | `flat.rs` | the exact scan: the oracle, and the mode `exact` |
//! | `walk.rs`, `scratch.rs` | the textbook walk over full vectors: builders use it, and it is an oracle of `beam` |
//! | `topk.rs` | the order of hits and a bounded best-k |

mod beam;
mod explore;
mod flat;
mod frontier;
mod lane;
mod node_set;
mod scratch;
mod seen;
mod topk;
mod walk;

pub use beam::{Beam, BeamParams, Lanes, UpperLayers, Walked};
pub use explore::Explorer;
pub use flat::flat;
pub(crate) use flat::{ROWS_BETWEEN_LOOKS, flat_until};
pub use frontier::MAX_SLOTS;
pub use lane::{RESCORED, SlotLinks};
pub use node_set::NodeSet;

pub use scratch::Scratch;
pub use topk::{Scored, TopK};
pub use walk::{Walk, walk};

use zerocopy::IntoBytes as _;

use crate::kernels;
use crate::model::Metric;

/// Rows of vectors, all of one length.
pub trait VectorRows: Sync {
    /// Values per row.
    fn dim(&self) -> usize;
    /// Rows.
    fn len(&self) -> usize;
    /// One row; empty where there is none.
    fn row(&self, node: u32) -> &[f32];
    /// No rows at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Rows that can be compared with a question exactly, whatever their type in memory.
pub trait ExactRows: Sync {
    /// Rows.
    fn count(&self) -> usize;
    /// Score of a row: the inner product for [`Metric::Cosine`], minus half the squared distance for [`Metric::L2`].
    /// NaN where there is no such row.
    fn score(&self, node: u32, query: &[f32], metric: Metric) -> f32;
    /// Asks for the memory of a row.
    fn prefetch(&self, node: u32);
}

impl<T: VectorRows + ?Sized> ExactRows for T {
    fn count(&self) -> usize {
        self.len()
    }

    fn score(&self, node: u32, query: &[f32], metric: Metric) -> f32 {
        metric.score(query, self.row(node))
    }

    fn prefetch(&self, node: u32) {
        kernels::prefetch(self.row(node).as_bytes());
    }
}

/// Links of a layered graph.
pub trait GraphLinks: Sync {
    /// Where a walk starts.
    fn entry(&self) -> u32;
    /// The highest layer; 0 is the lowest.
    fn max_layer(&self) -> usize;
    /// Links of a node on a layer; empty where there are none.
    fn links(&self, layer: usize, node: u32) -> &[u32];
}

/// What to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchParams {
    /// Hits wanted.
    pub k: usize,
    /// Beam width on layer 0; at least `k` is used.
    pub ef: usize,
}

/// Rows that lie one after another in memory.
#[derive(Debug, Clone, Copy)]
pub struct DenseRows<'a> {
    values: &'a [f32],
    dim: usize,
}

impl<'a> DenseRows<'a> {
    /// Rows of `dim` values; values behind the last whole row are ignored.
    pub fn new(values: &'a [f32], dim: usize) -> Self {
        Self { values, dim }
    }
}

impl VectorRows for DenseRows<'_> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn len(&self) -> usize {
        self.values.len().checked_div(self.dim).unwrap_or(0)
    }

    fn row(&self, node: u32) -> &[f32] {
        let start = node as usize * self.dim;
        self.values.get(start..start + self.dim).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests;
