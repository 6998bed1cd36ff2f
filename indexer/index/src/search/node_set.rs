//! A set of nodes: which documents a filter allows.

use std::sync::OnceLock;

use fixedbitset::FixedBitSet;

use super::SlotLinks;
use super::slot_set::SlotSet;

/// Some of the nodes of a shard, and how many.
#[derive(Debug, Default)]
pub struct NodeSet {
    bits: FixedBitSet,
    len: usize,
    /// The set by slot, once a search has needed it: sets are shared by many searches.
    slots: OnceLock<SlotSet>,
}

/// Without what was derived from it: a copy is made to be changed.
impl Clone for NodeSet {
    fn clone(&self) -> Self {
        Self {
            bits: self.bits.clone(),
            len: self.len,
            slots: OnceLock::new(),
        }
    }
}

impl PartialEq for NodeSet {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}

impl Eq for NodeSet {}

/// The set bits, counted once.
impl From<FixedBitSet> for NodeSet {
    fn from(bits: FixedBitSet) -> Self {
        let len = bits.count_ones(..);
        Self {
            bits,
            len,
            slots: OnceLock::new(),
        }
    }
}

impl NodeSet {
    /// No node of `0..nodes`.
    pub fn new(nodes: usize) -> Self {
        FixedBitSet::with_capacity(nodes).into()
    }

    /// All of that many nodes.
    pub fn all(nodes: usize) -> Self {
        let mut all = Self::new(nodes);
        all.extend(0..nodes as u32);
        all
    }

    /// Adds a node; false where it was there before, or does not exist.
    pub fn insert(&mut self, node: u32) -> bool {
        let new = (node as usize) < self.bits.len() && !self.bits.put(node as usize);
        self.len += usize::from(new);
        self.slots.take();
        new
    }

    /// Keeps the nodes that are in `other` as well.
    pub fn intersect_with(&mut self, other: &Self) {
        self.bits.intersect_with(&other.bits);
        self.len = self.bits.count_ones(..);
        self.slots.take();
    }

    /// Removes a node; false where it was not in it.
    pub fn remove(&mut self, node: u32) -> bool {
        let was = self.contains(node);
        if was {
            self.bits.remove(node as usize);
            self.len -= 1;
            self.slots.take();
        }
        was
    }

    /// The first node of a list that is there twice, or is none of `0..nodes`.
    pub(crate) fn first_repeated(nodes: usize, list: &[u32]) -> Option<u32> {
        let mut set = Self::new(nodes);
        list.iter().copied().find(|node| !set.insert(*node))
    }

    /// Whether a node is in it.
    pub fn contains(&self, node: u32) -> bool {
        self.bits.contains(node as usize)
    }

    /// The same by slot, for the order of its shard, slot to node; where absent, slots are nodes.
    pub(super) fn slots<L: SlotLinks + ?Sized>(&self, order: Option<&[u32]>, links: &L) -> &SlotSet {
        self.slots.get_or_init(|| {
            let Some(order) = order else {
                return SlotSet::new(self.bits.clone(), self.len, links);
            };
            let mut bits = FixedBitSet::with_capacity(order.len());
            order
                .iter()
                .enumerate()
                .for_each(|(slot, node)| bits.set(slot, self.contains(*node)));
            SlotSet::new(bits, self.len, links)
        })
    }

    /// Nodes in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// No node is in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Nodes that there are, in it or not.
    pub fn nodes(&self) -> usize {
        self.bits.len()
    }

    /// Bytes that sketches of `nodes` nodes of vectors of `dim` values take, which are kept with their set once it is
    /// scanned again.
    pub fn bytes_kept(nodes: usize, dim: usize) -> usize {
        SlotSet::bytes_kept(nodes, dim)
    }

    /// Bytes that it takes at most, once vectors of `dim` values have been searched through it: its bits by node and by
    /// slot, and the sketches of its slots, where they are kept for scans.
    pub fn bytes(&self, dim: usize) -> usize {
        self.bits.len().div_ceil(8) + SlotSet::bytes(self.bits.len(), self.len, dim) + size_of::<Self>()
    }

    /// Its nodes, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.bits.ones().map(|node| node as u32)
    }
}

impl Extend<u32> for NodeSet {
    fn extend<T: IntoIterator<Item = u32>>(&mut self, nodes: T) {
        nodes.into_iter().for_each(|node| _ = self.insert(node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_back_ascending_and_once() {
        let mut set = NodeSet::new(200);
        set.extend([5, 199, 64, 5, 200, 63]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [5, 63, 64, 199]);
        assert_eq!((set.len(), set.nodes()), (4, 200));
        assert_eq!(NodeSet::first_repeated(3, &[2, 0, 1]), None);
        assert_eq!(
            (
                NodeSet::first_repeated(3, &[2, 3, 2]),
                NodeSet::first_repeated(3, &[2, 0, 2])
            ),
            (Some(3), Some(2))
        );
        assert!(set.contains(64) && !set.contains(65) && !set.contains(200) && !set.contains(u32::MAX));
    }
}
