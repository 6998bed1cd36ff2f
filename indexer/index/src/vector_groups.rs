//! Which nodes of a shard have the same vector: one node of the graph for all of them.

use crate::error::{Error, Result};

/// The nodes of each distinct vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorGroups {
    /// Where the nodes of each distinct vector start in `nodes`, and where the last ones end.
    starts: Vec<u32>,
    nodes: Vec<u32>,
}

impl VectorGroups {
    /// Of nodes `0..first_with.len()`: for each the first node that has its vector. Distinct vectors are numbered in
    /// the order of these.
    pub fn new(first_with: &[u32]) -> Result<Self> {
        // For each node the number of its vector.
        let mut numbers: Vec<u32> = Vec::with_capacity(first_with.len());
        let mut distinct = 0;
        for (node, first) in (0u32..).zip(first_with) {
            if *first == node {
                numbers.push(distinct);
                distinct += 1;
                continue;
            }
            let is_first = first_with.get(*first as usize) == Some(first);
            let Some(number) = numbers.get(*first as usize).copied().filter(|_| is_first) else {
                let expected = format!("a node before {node} that is the first with its vector");
                return Err(Error::Mismatch {
                    what: "the first node with a vector",
                    expected,
                    got: first.to_string(),
                });
            };
            numbers.push(number);
        }
        let mut nodes: Vec<u32> = (0..first_with.len() as u32).collect();
        // Stable: the nodes of a vector stay ascending.
        nodes.sort_by_key(|node| numbers.get(*node as usize));
        numbers.sort_unstable();
        let starts = (0..=distinct)
            .map(|number| numbers.partition_point(|other| *other < number) as u32)
            .collect();
        Ok(Self { starts, nodes })
    }

    /// The nodes of a distinct vector.
    pub fn nodes(&self, number: u32) -> &[u32] {
        let number = number as usize;
        let (start, end) = (self.starts.get(number), self.starts.get(number + 1));
        start
            .zip(end)
            .and_then(|(start, end)| self.nodes.get(*start as usize..*end as usize))
            .unwrap_or(&[])
    }

    /// Distinct vectors.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// There is no vector.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nodes of all vectors.
    pub fn all_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// For each distinct vector its first node, ascending.
    pub fn representatives(&self) -> Vec<u32> {
        (0..self.len() as u32)
            .filter_map(|number| self.nodes(number).first().copied())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_grouped_by_the_first_with_their_vector() {
        let groups = VectorGroups::new(&[0, 1, 0, 3, 0, 1]).unwrap();
        assert_eq!((groups.len(), groups.all_nodes()), (3, 6));
        assert_eq!(
            (groups.nodes(0), groups.nodes(1), groups.nodes(2)),
            (&[0, 2, 4][..], &[1, 5][..], &[3][..])
        );
        assert_eq!((groups.representatives(), groups.nodes(3)), (vec![0, 1, 3], &[][..]));
        assert!(VectorGroups::new(&[]).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_first_node_is_an_error() {
        for wrong in [&[1, 1][..], &[0, 0, 1], &[0, 7], &[2, 2, 2]] {
            assert!(VectorGroups::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
