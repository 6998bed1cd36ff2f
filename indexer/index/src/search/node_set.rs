//! A set of nodes, as filters give it: one bit per node.

/// Which nodes pass a filter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSet {
    words: Vec<u64>,
    nodes: usize,
    len: usize,
}

impl NodeSet {
    /// No node of `0..nodes`.
    pub fn new(nodes: usize) -> Self {
        Self { words: vec![0; nodes.div_ceil(64)], nodes, len: 0 }
    }

    /// Adds a node; nodes that do not exist are passed over.
    pub fn insert(&mut self, node: u32) {
        if (node as usize) < self.nodes
            && let Some(word) = self.words.get_mut(node as usize / 64)
        {
            let bit = 1u64 << (node % 64);
            self.len += usize::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// The first node of a list that is there twice, or is none of `0..nodes`.
    pub(crate) fn first_repeated(nodes: usize, list: &[u32]) -> Option<u32> {
        let mut set = Self::new(nodes);
        list.iter().copied().find(|node| {
            let before = set.len;
            set.insert(*node);
            set.len == before
        })
    }

    /// Whether a node passes.
    pub fn contains(&self, node: u32) -> bool {
        self.words.get(node as usize / 64).is_some_and(|word| word >> (node % 64) & 1 == 1)
    }

    /// Nodes that pass.
    pub fn len(&self) -> usize {
        self.len
    }

    /// No node passes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Nodes that there are, passing or not.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Nodes that pass, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(at as u32 * 64 + bit)
            })
        })
    }
}

impl Extend<u32> for NodeSet {
    fn extend<T: IntoIterator<Item = u32>>(&mut self, nodes: T) {
        nodes.into_iter().for_each(|node| self.insert(node));
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
            (NodeSet::first_repeated(3, &[2, 3, 2]), NodeSet::first_repeated(3, &[2, 0, 2])),
            (Some(3), Some(2))
        );
        assert!(set.contains(64) && !set.contains(65) && !set.contains(200) && !set.contains(u32::MAX));
    }
}
