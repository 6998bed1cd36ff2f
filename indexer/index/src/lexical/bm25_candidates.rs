//! The documents that may be among the best of a question: those whose scores are close to the best.

use crate::search::{Scored, TopK};

/// Share of the k-th best score that a document must reach to be scored once more. tantivy adds up the terms of a
/// document in an order that depends on the documents around it, and sums of f32 in another order differ by less than
/// this.
const CLOSE: f32 = 1.0 - 1e-5;
/// Documents kept before those that are not close are dropped.
const KEPT: usize = 1024;

/// The documents that may be among the `k` best.
pub(super) struct Bm25Candidates {
    pub(super) best: TopK<Scored>,
    close: Vec<Scored>,
    compact_at: usize,
}

impl Bm25Candidates {
    pub(super) fn new(k: usize) -> Self {
        Self {
            best: TopK::new(k),
            close: Vec::new(),
            compact_at: 2 * k.min(KEPT) + KEPT,
        }
    }

    /// The least score that may be among the best.
    pub(super) fn least(&self) -> f32 {
        self.best.threshold().map_or(f32::MIN, |last| last.score * CLOSE)
    }

    pub(super) fn offer(&mut self, hit: Scored) {
        if hit.score < self.least() {
            return;
        }
        self.best.offer(hit);
        self.close.push(hit);
        if self.close.len() >= self.compact_at {
            self.compact();
            // Many may tie with the k-th best, and ties are kept.
            self.compact_at = 2 * self.close.len() + KEPT;
        }
    }

    fn compact(&mut self) {
        let least = self.least();
        self.close.retain(|hit| hit.score >= least);
    }

    /// Those that are close to the best.
    pub(super) fn into_close(mut self) -> Vec<Scored> {
        self.compact();
        self.close
    }
}
