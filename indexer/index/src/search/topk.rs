//! The `k` best items of a stream.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Keeps the best `k` of all that is offered.
#[derive(Debug, Default)]
pub struct TopK<T: Ord> {
    k: usize,
    heap: BinaryHeap<Reverse<T>>,
}

impl<T: Ord> TopK<T> {
    /// Room for `k`.
    pub fn new(k: usize) -> Self {
        Self {
            k,
            heap: BinaryHeap::with_capacity(k.min(1 << 16) + 1),
        }
    }

    /// Empties it and changes `k`; the allocation is kept.
    pub fn reset(&mut self, k: usize) {
        self.k = k;
        self.heap.clear();
    }

    /// Takes the item if it is among the best so far; says whether it was taken.
    pub fn offer(&mut self, item: T) -> bool {
        if self.heap.len() < self.k {
            self.heap.push(Reverse(item));
            return true;
        }
        match self.heap.peek_mut() {
            Some(mut worst) if worst.0 < item => {
                *worst = Reverse(item);
                true
            }
            _ => false,
        }
    }

    /// The k-th best item, which a new one must beat; none until `k` items are kept.
    pub fn threshold(&self) -> Option<&T> {
        (self.heap.len() >= self.k)
            .then(|| self.heap.peek().map(|worst| &worst.0))
            .flatten()
    }

    /// Best first; leaves it empty.
    pub fn drain_sorted(&mut self) -> Vec<T> {
        let mut items: Vec<T> = self.heap.drain().map(|item| item.0).collect();
        items.sort_unstable_by(|a, b| b.cmp(a));
        items
    }
}
