//! A graph in memory, as a builder makes it and the shard writer stores it.

use crate::error::{Error, Result};
use crate::search::GraphLinks;

/// A layered proximity graph (HNSW: Malkov and Yashunin 2018). Nodes are 0..n.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graph {
    /// The entry point, where every search starts: a node of the highest layer.
    pub entry: u32,
    /// Lowest first; `layers[0]` holds every node.
    pub layers: Vec<GraphLayer>,
}

/// One layer as compressed sparse rows: the links of `nodes[i]` are `links[offsets[i]..offsets[i + 1]]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GraphLayer {
    /// Ascending.
    pub nodes: Vec<u32>,
    /// One more than there are nodes.
    pub offsets: Vec<u64>,
    /// Targets; each is a node of this layer.
    pub links: Vec<u32>,
}

impl GraphLayer {
    /// A layer from one list of links per node.
    pub fn from_lists(nodes: Vec<u32>, lists: &[Vec<u32>]) -> Self {
        let mut offsets = Vec::with_capacity(lists.len() + 1);
        let mut links = Vec::with_capacity(lists.iter().map(Vec::len).sum());
        offsets.push(0);
        for list in lists {
            links.extend_from_slice(list);
            offsets.push(links.len() as u64);
        }
        Self { nodes, offsets, links }
    }

    fn position(&self, node: u32) -> Option<usize> {
        // Layer 0 holds every node, so a node is its own position there.
        if self.nodes.get(node as usize) == Some(&node) {
            return Some(node as usize);
        }
        self.nodes.binary_search(&node).ok()
    }

    /// Links of a node; empty where the node is not of this layer.
    pub fn neighbours(&self, node: u32) -> &[u32] {
        let range = self
            .position(node)
            .and_then(|at| Some(*self.offsets.get(at)? as usize..*self.offsets.get(at + 1)? as usize));
        range.and_then(|range| self.links.get(range)).unwrap_or(&[])
    }
}

impl Graph {
    /// Links of a node on a layer; empty where there are none.
    pub fn neighbours(&self, layer: usize, node: u32) -> &[u32] {
        self.layers.get(layer).map_or(&[], |layer| layer.neighbours(node))
    }

    /// Which nodes a traversal of layer 0 reaches from the entry point.
    pub fn reachable(&self) -> Vec<bool> {
        reachable(self, self.layers.first().map_or(0, |layer| layer.nodes.len()))
    }

    /// Checks every invariant that a search relies on, for a graph over `n` vectors.
    pub fn validate(&self, n: usize) -> Result<()> {
        let fail = |layer, node, problem: String| Err(Error::Graph { layer, node, problem });
        let lowest = self.layers.first().map_or(0, |layer| layer.nodes.len());
        if lowest != n {
            return Err(Error::Mismatch {
                what: "nodes on layer 0",
                expected: n.to_string(),
                got: lowest.to_string(),
            });
        }
        for (at, layer) in self.layers.iter().enumerate() {
            if layer.offsets.len() != layer.nodes.len() + 1
                || layer.offsets.first() != Some(&0)
                || layer.offsets.last() != Some(&(layer.links.len() as u64))
            {
                return fail(
                    at,
                    0,
                    format!(
                        "{} offsets that end at {:?} for {} nodes and {} links",
                        layer.offsets.len(),
                        layer.offsets.last(),
                        layer.nodes.len(),
                        layer.links.len()
                    ),
                );
            }
            if let Some(pair) = layer.nodes.windows(2).find(|pair| pair[0] >= pair[1]) {
                return fail(at, pair[1], "nodes are not ascending".to_owned());
            }
            for (i, &node) in layer.nodes.iter().enumerate() {
                if node as usize >= n {
                    return fail(at, node, format!("there are only {n} vectors"));
                }
                if layer.offsets[i] > layer.offsets[i + 1] {
                    return fail(at, node, "offsets run backwards".to_owned());
                }
                for &target in layer.neighbours(node) {
                    if target == node {
                        return fail(at, node, "links to itself".to_owned());
                    }
                    if layer.position(target).is_none() {
                        return fail(at, node, format!("links to {target}, which is not on this layer"));
                    }
                }
            }
        }
        if n > 0
            && self
                .layers
                .last()
                .is_none_or(|layer| layer.position(self.entry).is_none())
        {
            return fail(
                self.layers.len() - 1,
                self.entry,
                "the entry point is not on the highest layer".to_owned(),
            );
        }
        Ok(())
    }
}

impl GraphLinks for Graph {
    fn entry(&self) -> u32 {
        self.entry
    }

    fn max_layer(&self) -> usize {
        self.layers.len().saturating_sub(1)
    }

    fn links(&self, layer: usize, node: u32) -> &[u32] {
        self.neighbours(layer, node)
    }
}

/// Which of `n` nodes a traversal of layer 0 reaches from the entry point, following links in their direction.
pub fn reachable(links: &impl GraphLinks, n: usize) -> Vec<bool> {
    let mut seen = vec![false; n];
    let mut stack = Vec::new();
    if let Some(first) = seen.get_mut(links.entry() as usize) {
        *first = true;
        stack.push(links.entry());
    }
    while let Some(node) = stack.pop() {
        for &next in links.links(0, node) {
            if let Some(slot) = seen.get_mut(next as usize).filter(|slot| !**slot) {
                *slot = true;
                stack.push(next);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain() -> Graph {
        let lists = [vec![1], vec![0, 2], vec![1], vec![2]];
        Graph {
            entry: 1,
            layers: vec![
                GraphLayer::from_lists(vec![0, 1, 2, 3], &lists),
                GraphLayer::from_lists(vec![1, 3], &[vec![3], vec![1]]),
            ],
        }
    }

    #[test]
    fn neighbours_of_every_layer() {
        let graph = chain();
        assert_eq!(graph.neighbours(0, 1), [0, 2]);
        assert_eq!(graph.neighbours(1, 3), [1]);
        assert_eq!(graph.neighbours(1, 2), [0u32; 0]);
        assert_eq!(graph.neighbours(7, 2), [0u32; 0]);
        graph.validate(4).unwrap();
    }

    #[test]
    fn reachability_follows_the_direction_of_links() {
        assert_eq!(chain().reachable(), [true, true, true, false]);
    }

    #[test]
    fn broken_invariants_are_named() {
        let broken = |change: fn(&mut Graph)| {
            let mut graph = chain();
            change(&mut graph);
            graph.validate(4).unwrap_err().to_string()
        };
        assert!(broken(|g| g.entry = 2).contains("entry point is not on the highest layer"));
        assert!(
            broken(|g| g.layers[1].links[0] = 2).contains("layer 1, node 1: links to 2, which is not on this layer")
        );
        assert!(broken(|g| g.layers[0].links[0] = 9).contains("links to 9"));
        assert!(broken(|g| g.layers[0].links[0] = 0).contains("links to itself"));
        assert!(broken(|g| g.layers[0].offsets[2] = 9).contains("offsets"));
        assert!(broken(|g| g.layers[1].nodes.swap(0, 1)).contains("not ascending"));
        assert!(
            chain()
                .validate(5)
                .unwrap_err()
                .to_string()
                .contains("expected 5, got 4")
        );
    }
}
