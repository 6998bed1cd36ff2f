//! Makes every node reachable, by links to those that are not.
//!
//! A node is reached when layer links lead from the entry point to it. Per layer, from the highest down:
//!
//! 1. traverse the layer from the entry point; the links that first reach each node form a spanning tree;
//! 2. take an unreached node, and all unreached nodes that its links lead to: a *component*;
//! 3. for the first 16 nodes of the component, search the reached part for the nearest nodes, and link one of
//!    them to the node: in a free slot, or in place of a link that is not in the tree. Dropping such a link makes no
//!    node unreachable, because the tree alone reaches all of them;
//! 4. the component joins the tree; go on until no node is left.
//!
//! There is always a slot: `t` reached nodes hold `t * cap >= 4t` slots, and the tree takes `t - 1` of them.

use std::collections::VecDeque;

use dyad_index::search::{GraphLinks, HnswScratch, VectorRows, hnsw_search};
use dyad_index::{Graph, GraphLayer, Metric, Scored};

use super::graph::BuildParams;
use crate::control::JobControl;
use crate::error::Error;

/// Bridge nodes of one component: those that get a link from outside. Small components are linked at every node, large
/// ones are entered from many sides, and the upper layers lead into them as well.
const BRIDGES: usize = 16;
/// Beam width of the search for a linking node.
const BEAM: usize = 64;
/// Nodes between two reports of progress.
const STEP: usize = 4_096;
/// Parent of nodes that are not reached yet.
const NONE: u32 = u32::MAX;

/// A graph whose nodes are all reachable, and what it took.
#[derive(Debug)]
pub struct Repaired {
    /// The graph.
    pub graph: Graph,
    /// Nodes of layer 0 that could not be reached before.
    pub unreachable_before: u64,
    /// Links added on all layers.
    pub links_added: u64,
}

/// Makes every node of every layer reachable from the entry point, keeping each node's links within its cap.
///
/// The nodes that link to a component are the nearest by `metric`. Advances progress by one per node of each layer, of
/// which there are [`count_steps()`]. Returns [`Error::Cancelled`] soon after it is cancelled.
pub fn repair(
    graph: Graph,
    rows: &dyn VectorRows,
    metric: Metric,
    params: &BuildParams,
    control: JobControl<'_>,
) -> Result<Repaired, Error> {
    let entry = graph.entry;
    let mut scratch = HnswScratch::default();
    let (mut unreachable_before, mut links_added) = (0, 0);
    let mut layers = Vec::with_capacity(graph.layers.len());
    for (number, layer) in graph.layers.into_iter().enumerate().rev() {
        let mut repair = LayerRepair::new(layer, entry, params.cap(number));
        // Layer 0 comes last, and its count is the one that is kept.
        unreachable_before = repair.reached.iter().filter(|parent| **parent == NONE).count() as u64;
        repair.connect(ComparedRows { rows, metric }, &mut scratch, control)?;
        links_added += repair.links_added;
        layers.push(GraphLayer::from_lists(repair.nodes, &repair.lists));
    }
    layers.reverse();
    Ok(Repaired {
        graph: Graph { entry, layers },
        unreachable_before,
        links_added,
    })
}

/// Nodes that a repair checks: those of all layers together.
pub fn count_steps(graph: &Graph) -> u64 {
    graph.layers.iter().map(|layer| layer.nodes.len() as u64).sum()
}

/// Vectors, and how they are compared.
#[derive(Clone, Copy)]
struct ComparedRows<'a> {
    rows: &'a dyn VectorRows,
    metric: Metric,
}

/// One layer under repair. Positions index `nodes`; links are nodes, as in the graph.
struct LayerRepair {
    entry: u32,
    cap: usize,
    nodes: Vec<u32>,
    lists: Vec<Vec<u32>>,
    /// By position: the position that the tree reaches it from (the entry point: itself), or [`NONE`].
    reached: Vec<u32>,
    links_added: u64,
}

impl GraphLinks for LayerRepair {
    fn entry(&self) -> u32 {
        self.entry
    }

    fn max_layer(&self) -> usize {
        0
    }

    fn links(&self, _layer: usize, node: u32) -> &[u32] {
        self.position(node)
            .and_then(|position| self.lists.get(position))
            .map_or(&[], Vec::as_slice)
    }
}

impl LayerRepair {
    fn new(layer: GraphLayer, entry: u32, cap: usize) -> Self {
        let lists = layer
            .nodes
            .iter()
            .map(|&node| layer.neighbours(node).to_vec())
            .collect();
        let reached = vec![NONE; layer.nodes.len()];
        let mut layer = Self {
            entry,
            cap,
            nodes: layer.nodes,
            lists,
            reached,
            links_added: 0,
        };
        if let Some(root) = layer.position(entry) {
            layer.reached[root] = root as u32;
            layer.spread(root);
        }
        layer
    }

    fn position(&self, node: u32) -> Option<usize> {
        // Layer 0 holds every node, so a node is its own position there.
        if self.nodes.get(node as usize) == Some(&node) {
            return Some(node as usize);
        }
        self.nodes.binary_search(&node).ok()
    }

    /// Extends the tree from a reached position to all that its links lead to.
    fn spread(&mut self, from: usize) {
        let mut queue = VecDeque::from([from]);
        while let Some(position) = queue.pop_front() {
            for at in 0..self.lists[position].len() {
                let Some(next) = self.position(self.lists[position][at]) else {
                    continue;
                };
                if self.reached[next] == NONE {
                    self.reached[next] = position as u32;
                    queue.push_back(next);
                }
            }
        }
    }

    fn connect(
        &mut self,
        vectors: ComparedRows<'_>,
        scratch: &mut HnswScratch,
        control: JobControl<'_>,
    ) -> Result<(), Error> {
        let count = self.nodes.len();
        for position in 0..count {
            if (position + 1).is_multiple_of(STEP) || position + 1 == count {
                control.progress.advance((position % STEP + 1) as u64);
            }
            if self.reached[position] != NONE {
                continue;
            }
            control.check()?;
            // All searches come before any link, so that none of them finds the component itself.
            let bridges: Vec<(usize, Vec<Scored>)> = self
                .component(position)
                .into_iter()
                .map(|bridge| (bridge, self.nearest_reached(bridge, vectors, scratch)))
                .collect();
            for (bridge, nearest) in bridges {
                if self.reached[bridge] == NONE {
                    if let Some(from) = self.any_slot(&nearest, bridge) {
                        self.link(from, bridge);
                        self.reached[bridge] = from as u32;
                        self.spread(bridge);
                    }
                } else if let Some(from) = self.near_slot(&nearest) {
                    self.link(from, bridge);
                }
                if let Some(nearest) = nearest.first().and_then(|hit| self.position(hit.node))
                    && self.lists[bridge].len() < self.cap
                {
                    self.link(bridge, nearest);
                }
            }
        }
        Ok(())
    }

    /// The first [`BRIDGES`] positions of the component around `position`, nearest in links first.
    fn component(&self, position: usize) -> Vec<usize> {
        let mut component = vec![position];
        let mut next = 0;
        while next < component.len() && component.len() < BRIDGES {
            for link in &self.lists[component[next]] {
                if let Some(other) = self.position(*link)
                    && self.reached[other] == NONE
                    && !component.contains(&other)
                {
                    component.push(other);
                }
            }
            next += 1;
        }
        component.truncate(BRIDGES);
        component
    }

    /// Reached nodes near `position`, nearest first: a search of this layer finds no others.
    fn nearest_reached(&self, position: usize, vectors: ComparedRows<'_>, scratch: &mut HnswScratch) -> Vec<Scored> {
        let ComparedRows { rows, metric } = vectors;
        hnsw_search(rows, self, rows.row(self.nodes[position]), metric, BEAM, scratch).hits
    }

    /// The nearest of `hits` that can take a link.
    fn near_slot(&self, hits: &[Scored]) -> Option<usize> {
        hits.iter()
            .filter_map(|hit| self.position(hit.node))
            .find(|&position| self.has_slot(position))
    }

    /// The same; where all are full of tree links, the first position with a free slot on a path down the tree. A leaf
    /// has one, so there always is one. The path is chosen by the digits of `bridge`, which spreads bridges over the
    /// tree: always the same path would make the tree a list, and many equal vectors would take hours.
    fn any_slot(&self, hits: &[Scored], bridge: usize) -> Option<usize> {
        let near = self.near_slot(hits);
        if near.is_some() {
            return near;
        }
        let mut position = self.position(hits.first()?.node)?;
        let mut digits = bridge;
        while !self.has_slot(position) {
            let links = &self.lists[position];
            position = self.position(*links.get(digits % links.len())?)?;
            digits /= links.len();
        }
        Some(position)
    }

    fn has_slot(&self, position: usize) -> bool {
        self.lists[position].len() < self.cap || self.spare_link(position).is_some()
    }

    /// Index of the last link of `position` that is not in the tree. Lists begin nearest first.
    fn spare_link(&self, position: usize) -> Option<usize> {
        self.lists[position].iter().rposition(|&link| {
            self.position(link)
                .is_some_and(|next| self.reached[next] != position as u32)
        })
    }

    /// Links `from` to `to` in a free slot, or in place of a spare link.
    fn link(&mut self, from: usize, to: usize) {
        let node = self.nodes[to];
        if from == to || self.lists[from].contains(&node) {
            return;
        }
        if self.lists[from].len() >= self.cap {
            let Some(spare) = self.spare_link(from) else { return };
            self.lists[from].remove(spare);
        }
        self.lists[from].push(node);
        self.links_added += 1;
    }
}
