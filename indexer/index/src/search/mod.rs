//! Searching vectors: the beam walk and the exact scan, over anything that gives rows and links.
//!
//! | file | what lives there |
//! |---|---|
//! | `topk.rs` | the order of hits and a bounded best-k |
//! | `scratch.rs` | what a walk needs and reuses: visited marks and two heaps |
//! | `walk.rs` | greedy descent, then a beam on layer 0 |
//! | `flat.rs` | the exact scan: the oracle, and the mode `exact` |

mod flat;
mod scratch;
mod topk;
mod walk;

pub use flat::flat;
pub use scratch::Scratch;
pub use topk::{Scored, TopK};
pub use walk::{Walk, walk};

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
