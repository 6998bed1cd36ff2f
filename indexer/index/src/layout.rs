//! A finished graph laid out for searching: slots in breadth-first order, links in rows of one width.
//!
//! A *node* is a document of the shard, a *slot* is its place in codes and links. Slots are numbered breadth first from
//! the entry point, so that what a search reads is close together in memory; a table maps slots back to nodes.
//!
//! Links are stored apart from codes. In records of an int8 row and its links, 512 bytes at 384 values, searches at
//! recall 0.95 to 0.99 answered 10 to 15 % fewer questions (`dyad-bench ann`, minilm-100k, one thread, three
//! interleaved rounds): most links that are prefetched are of slots whose int8 row is already in the cache or never
//! read, and apart they take fewer pages.

use std::collections::VecDeque;

use crate::error::{Error, Result};
use crate::graph::{Graph, GraphLayer};
use crate::quant::Codes;
use crate::search::{GraphLinks, MAX_SLOTS, SlotLinks as _};
use crate::vector_groups::VectorGroups;

/// Links of layer 0 per slot are a multiple of this: a cache line of `u32`.
pub const DEGREE_MULTIPLE: usize = 16;

/// A graph by slots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GraphLayout {
    /// Slot where every search starts.
    pub entry: u32,
    /// Slots whose vector another has, which comes before them: not nodes of the graph. All of their links are that
    /// slot.
    pub copies: u32,
    /// Links per slot on layer 0; shorter lists are padded with the slot itself.
    pub degree: usize,
    /// Slot to node.
    pub order: Vec<u32>,
    /// `degree` per slot.
    pub links: Vec<u32>,
    /// The layers above 0, lowest first, by slot.
    pub upper: Vec<GraphLayer>,
}

/// A graph and its codes by slot: the content of a shard without vectors and keys.
#[derive(Debug, Clone)]
pub struct Arranged {
    /// Links.
    pub layout: GraphLayout,
    /// Codes.
    pub codes: Codes,
}

impl Arranged {
    /// Lays out a valid graph over `codes`, both by node.
    pub fn new(graph: &Graph, codes: &Codes) -> Result<Self> {
        let layout = GraphLayout::new(graph)?;
        let codes = codes.reordered(&layout.order);
        Ok(Self { layout, codes })
    }

    /// These of distinct vectors as those of all nodes: slot `i` here is of the vector that `groups` numbers
    /// `layout.order[i]`.
    pub fn with_copies(&self, groups: &VectorGroups) -> Result<Self> {
        let (distinct, n) = (self.layout.order.len(), groups.all_nodes());
        if n >= MAX_SLOTS || groups.len() != distinct {
            let expected = format!("{distinct} distinct vectors of fewer than {MAX_SLOTS} nodes");
            let got = format!("{} of {n}", groups.len());
            return Err(Error::Mismatch {
                what: "copies of a shard",
                expected,
                got,
            });
        }
        let (layout, slots) = self.layout.with_copies(groups);
        Ok(Self {
            codes: self.codes.reordered(&slots),
            layout,
        })
    }
}

impl GraphLayout {
    /// Lays out a graph that [`Graph::validate`] accepts.
    pub fn new(graph: &Graph) -> Result<Self> {
        let n = graph.layers.first().map_or(0, |layer| layer.nodes.len());
        if n >= MAX_SLOTS {
            let (expected, got) = (format!("fewer than {MAX_SLOTS}"), n.to_string());
            return Err(Error::Mismatch {
                what: "vectors of a shard",
                expected,
                got,
            });
        }
        let order = breadth_first(graph, n);
        let mut slots = vec![0u32; n];
        for (slot, node) in order.iter().enumerate() {
            if let Some(place) = slots.get_mut(*node as usize) {
                *place = slot as u32;
            }
        }
        let slot_of = |node: u32| slots.get(node as usize).copied().unwrap_or(0);
        let longest = (0..n as u32)
            .map(|node| graph.neighbours(0, node).len())
            .max()
            .unwrap_or(0);
        let degree = longest.max(1).next_multiple_of(DEGREE_MULTIPLE);
        let mut links = Vec::with_capacity(n * degree);
        for (slot, node) in order.iter().enumerate() {
            let list = graph.neighbours(0, *node);
            links.extend(list.iter().map(|target| slot_of(*target)));
            links.resize((slot + 1) * degree, slot as u32);
        }
        let upper = graph
            .layers
            .iter()
            .skip(1)
            .map(|layer| renumbered(layer, &slot_of))
            .collect();
        Ok(Self {
            entry: slot_of(graph.entry),
            copies: 0,
            degree,
            order,
            links,
            upper,
        })
    }
}

impl GraphLayout {
    /// This layout of distinct vectors with a slot for each of their nodes, and for each of these the slot here.
    fn with_copies(&self, groups: &VectorGroups) -> (Self, Vec<u32>) {
        let mut order = Vec::with_capacity(groups.all_nodes());
        let mut slots = Vec::with_capacity(groups.all_nodes());
        // Where each slot goes.
        let mut places = Vec::with_capacity(self.order.len());
        for (slot, number) in (0u32..).zip(&self.order) {
            places.push(order.len() as u32);
            order.extend_from_slice(groups.nodes(*number));
            slots.resize(order.len(), slot);
        }
        let place = |slot: &u32| places.get(*slot as usize).copied().unwrap_or(0);
        let mut links = Vec::with_capacity(order.len() * self.degree);
        for (slot, row) in (0u32..).zip(self.links.chunks_exact(self.degree.max(1))) {
            links.extend(row.iter().map(place));
            // The copies are all slots before the next distinct vector.
            let next = places.get(slot as usize + 1).copied().unwrap_or(order.len() as u32);
            links.resize(next as usize * self.degree, place(&slot));
        }
        let upper = self.upper.iter().map(|layer| GraphLayer {
            nodes: layer.nodes.iter().map(place).collect(),
            offsets: layer.offsets.clone(),
            links: layer.links.iter().map(place).collect(),
        });
        let layout = Self {
            entry: place(&self.entry),
            copies: (order.len() - self.order.len()) as u32,
            degree: self.degree,
            links,
            upper: upper.collect(),
            order,
        };
        (layout, slots)
    }

    /// Sorts the nodes of each vector by their keys: of hits with one score those with the smallest come first.
    pub fn sort_copies<'k>(&mut self, key: impl Fn(u32) -> &'k str) {
        if self.copies == 0 {
            return;
        }
        let view = self.view();
        let representatives: Vec<u32> = (0..self.order.len() as u32)
            .map(|slot| view.representative(slot))
            .collect();
        let mut rest = self.order.as_mut_slice();
        for group in representatives.chunk_by(|one, other| one == other) {
            let (nodes, others) = rest.split_at_mut(group.len());
            nodes.sort_by_key(|node| key(*node));
            rest = others;
        }
    }
}

fn renumbered(layer: &GraphLayer, slot_of: &impl Fn(u32) -> u32) -> GraphLayer {
    let mut lists: Vec<(u32, Vec<u32>)> = layer
        .nodes
        .iter()
        .map(|node| {
            (
                slot_of(*node),
                layer.neighbours(*node).iter().map(|target| slot_of(*target)).collect(),
            )
        })
        .collect();
    lists.sort_unstable_by_key(|(slot, _)| *slot);
    let (nodes, lists): (Vec<u32>, Vec<Vec<u32>>) = lists.into_iter().unzip();
    GraphLayer::from_lists(nodes, &lists)
}

/// All nodes in the order of a breadth-first traversal of layer 0; unreachable ones at the end.
fn breadth_first(graph: &Graph, n: usize) -> Vec<u32> {
    let mut seen = vec![false; n];
    let mut order = Vec::with_capacity(n);
    let mut queue = VecDeque::new();
    for start in std::iter::once(graph.entry).chain(0..n as u32) {
        queue.push_back(start);
        while let Some(node) = queue.pop_front() {
            match seen.get_mut(node as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => continue,
            }
            order.push(node);
            queue.extend(
                graph
                    .links(0, node)
                    .iter()
                    .filter(|next| seen.get(**next as usize) == Some(&false)),
            );
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> Graph {
        let lists = [vec![1], vec![3, 0], vec![3], vec![2]];
        Graph {
            entry: 1,
            layers: vec![
                GraphLayer::from_lists(vec![0, 1, 2, 3], &lists),
                GraphLayer::from_lists(vec![1, 2], &[vec![2], vec![1]]),
            ],
        }
    }

    #[test]
    fn slots_are_numbered_breadth_first() {
        let layout = GraphLayout::new(&graph()).unwrap();
        assert_eq!((layout.entry, layout.degree), (0, 16));
        assert_eq!(layout.order, [1, 3, 0, 2]);
        assert_eq!(layout.links[..3], [1, 2, 0]);
        assert_eq!(layout.links[16..18], [3, 1]);
        assert_eq!(layout.upper[0].nodes, [0, 3]);
        assert_eq!(layout.upper[0].neighbours(0), [3]);
    }

    #[test]
    fn copies_come_after_the_first_of_them_and_link_to_it_alone() {
        // Six nodes of the four vectors of the graph.
        let groups = VectorGroups::new(&[0, 1, 2, 3, 1, 1]).unwrap();
        let (mut layout, slots) = GraphLayout::new(&graph()).unwrap().with_copies(&groups);
        assert_eq!((layout.entry, layout.copies), (0, 2));
        assert_eq!(
            (layout.order.as_slice(), slots.as_slice()),
            (&[1, 4, 5, 3, 0, 2][..], &[0, 0, 0, 1, 2, 3][..])
        );
        assert_eq!(layout.links[..3], [3, 4, 0]);
        assert!(layout.links[16..48].iter().all(|link| *link == 0), "two copies");
        assert_eq!(layout.links[48..50], [5, 3]);
        assert_eq!(
            (layout.upper[0].nodes.as_slice(), layout.upper[0].neighbours(0)),
            (&[0, 5][..], &[5][..])
        );
        let view = layout.view();
        let representatives: Vec<u32> = (0..7).map(|slot| view.representative(slot)).collect();
        assert_eq!(representatives, [0, 0, 0, 3, 4, 5, 6]);
        layout.sort_copies(|node| ["f", "e", "d", "c", "b", "a"][node as usize]);
        assert_eq!(layout.order, [5, 4, 1, 3, 0, 2], "a, b, e are of one vector");
    }

    #[test]
    fn unreachable_nodes_get_slots_as_well() {
        let mut graph = graph();
        graph.layers[0] = GraphLayer::from_lists(vec![0, 1, 2, 3], &[vec![1], vec![0], vec![3], vec![2]]);
        let mut order = GraphLayout::new(&graph).unwrap().order;
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3]);
    }
}
