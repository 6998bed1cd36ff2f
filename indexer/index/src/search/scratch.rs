//! What a walk needs and reuses: visited marks and two heaps.

use std::collections::BinaryHeap;

use super::topk::{Scored, TopK};

/// Memory of a walk, reused by the next one. One per thread.
#[derive(Debug, Default)]
pub struct Scratch {
    /// A node is visited when its mark equals `epoch`, so that clearing costs nothing.
    marks: Vec<u32>,
    epoch: u32,
    pub(super) frontier: BinaryHeap<Scored>,
    pub(super) best: TopK<Scored>,
}

impl Scratch {
    /// Empty; grows at the first walk.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn reset(&mut self, nodes: usize, ef: usize) {
        if self.marks.len() < nodes {
            self.marks.resize(nodes, self.epoch);
        }
        self.epoch = self.epoch.wrapping_add(1);
        if self.epoch == 0 {
            // After 2^32 walks the marks of old ones could be mistaken for this one's.
            self.marks.fill(0);
            self.epoch = 1;
        }
        self.frontier.clear();
        self.best.reset(ef);
    }

    /// Marks a node; false where it was marked before, or does not exist.
    pub(super) fn visit(&mut self, node: u32) -> bool {
        match self.marks.get_mut(node as usize) {
            Some(mark) if *mark != self.epoch => {
                *mark = self.epoch;
                true
            }
            _ => false,
        }
    }

    #[cfg(test)]
    pub(super) fn at_epoch(epoch: u32) -> Self {
        Self { epoch, ..Self::default() }
    }
}
