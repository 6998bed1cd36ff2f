//! The parts of a shard that a search reads.

use crate::model::Metric;
use crate::quant::CodesView;

/// The parts of a shard that a search reads.
#[derive(Debug)]
pub struct ShardView<'a, L: ?Sized, R: ?Sized> {
    /// The codes of the shard, by slot.
    pub codes: CodesView<'a>,
    /// The links of the shard's graph, by slot.
    pub links: &'a L,
    /// Slot to node; where absent, slots are nodes.
    pub order: Option<&'a [u32]>,
    /// The vectors of the shard, by node.
    pub rows: &'a R,
    /// How vectors are compared.
    pub metric: Metric,
}

impl<L: ?Sized, R: ?Sized> Clone for ShardView<'_, L, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L: ?Sized, R: ?Sized> Copy for ShardView<'_, L, R> {}

impl<L: ?Sized, R: ?Sized> ShardView<'_, L, R> {
    /// The node of a slot; none where a damaged order leads to no row.
    pub(super) fn node(&self, slot: u32) -> Option<u32> {
        match self.order {
            Some(order) => order
                .get(slot as usize)
                .copied()
                .filter(|node| (*node as usize) < order.len()),
            None => Some(slot),
        }
    }
}
