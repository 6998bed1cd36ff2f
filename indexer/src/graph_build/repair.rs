//! Links to nodes that no walk can reach.
//!
//! A node is reached when layer links lead from the entry point to it. Per layer, from the highest down:
//!
//! 1. walk the layer from the entry point; the links by which nodes were first met form a spanning tree;
//! 2. take an unreached node, and all unreached nodes that its links lead to: a *component*;
//! 3. for the first 16 nodes of the component, search the reached part for the nearest nodes, and link one of
//!    them to the node: in a free slot, or in place of a link that is not in the tree. Dropping such a link unreaches
//!    nobody, because the tree alone reaches everybody;
//! 4. the component joins the tree; go on until no node is left.
//!
//! There is always a slot: `t` reached nodes hold `t * cap >= 4t` slots, and the tree takes `t - 1` of them.

use std::collections::VecDeque;

use dyad_index::search::{GraphLinks, HnswScratch, VectorRows, hnsw_search};
use dyad_index::{Graph, Layer, Metric, Scored};

use super::graph::BuildParams;
use crate::control::JobControl;
use crate::error::Error;

/// Nodes of one component that are linked from outside. Small components are linked at every node, large ones are explored
/// from many sides, and the upper layers lead into them as well.
const BRIDGES: usize = 16;
/// Beam width of the search for a linking node.
const BEAM: usize = 64;
/// Nodes between two reports of progress.
const STEP: usize = 4_096;
/// Parent of nodes not reached yet.
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
/// The nodes that link to a component are the nearest by `metric`. Advances progress by one per node of each layer, of which
/// there are [`steps()`]. Returns [`Error::Cancelled`] soon after it is cancelled.
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
        repair.connect(Vectors { rows, metric }, &mut scratch, control)?;
        links_added += repair.links_added;
        layers.push(Layer::from_lists(repair.nodes, &repair.lists));
    }
    layers.reverse();
    Ok(Repaired { graph: Graph { entry, layers }, unreachable_before, links_added })
}

/// Nodes that a repair looks at: those of all layers together.
pub fn steps(graph: &Graph) -> u64 {
    graph.layers.iter().map(|layer| layer.nodes.len() as u64).sum()
}

/// Vectors, and how they are compared.
#[derive(Clone, Copy)]
struct Vectors<'a> {
    rows: &'a dyn VectorRows,
    metric: Metric,
}

/// One layer under repair. Places are positions in `nodes`; links are nodes, as in the graph.
struct LayerRepair {
    entry: u32,
    cap: usize,
    nodes: Vec<u32>,
    lists: Vec<Vec<u32>>,
    /// By place: the place that the tree reaches it from (the entry point: itself), or [`NONE`].
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
        self.place(node).and_then(|place| self.lists.get(place)).map_or(&[], Vec::as_slice)
    }
}

impl LayerRepair {
    fn new(layer: Layer, entry: u32, cap: usize) -> Self {
        let lists = layer.nodes.iter().map(|&node| layer.neighbours(node).to_vec()).collect();
        let reached = vec![NONE; layer.nodes.len()];
        let mut layer = Self { entry, cap, nodes: layer.nodes, lists, reached, links_added: 0 };
        if let Some(root) = layer.place(entry) {
            layer.reached[root] = root as u32;
            layer.spread(root);
        }
        layer
    }

    fn place(&self, node: u32) -> Option<usize> {
        // Layer 0 holds every node, so a node is its own place there.
        if self.nodes.get(node as usize) == Some(&node) {
            return Some(node as usize);
        }
        self.nodes.binary_search(&node).ok()
    }

    /// Extends the tree from a reached place to all that its links lead to.
    fn spread(&mut self, from: usize) {
        let mut queue = VecDeque::from([from]);
        while let Some(place) = queue.pop_front() {
            for at in 0..self.lists[place].len() {
                let Some(next) = self.place(self.lists[place][at]) else { continue };
                if self.reached[next] == NONE {
                    self.reached[next] = place as u32;
                    queue.push_back(next);
                }
            }
        }
    }

    fn connect(
        &mut self,
        vectors: Vectors<'_>,
        scratch: &mut HnswScratch,
        control: JobControl<'_>,
    ) -> Result<(), Error> {
        let count = self.nodes.len();
        for place in 0..count {
            if (place + 1).is_multiple_of(STEP) || place + 1 == count {
                control.progress.advance((place % STEP + 1) as u64);
            }
            if self.reached[place] != NONE {
                continue;
            }
            control.check()?;
            // All searches come before any link, so that none of them finds the component itself.
            let bridges: Vec<(usize, Vec<Scored>)> = self
                .component(place)
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
                if let Some(nearest) = nearest.first().and_then(|hit| self.place(hit.node))
                    && self.lists[bridge].len() < self.cap
                {
                    self.link(bridge, nearest);
                }
            }
        }
        Ok(())
    }

    /// The first [`BRIDGES`] places of the component around `place`, nearest in links first.
    fn component(&self, place: usize) -> Vec<usize> {
        let mut component = vec![place];
        let mut next = 0;
        while next < component.len() && component.len() < BRIDGES {
            for link in &self.lists[component[next]] {
                if let Some(other) = self.place(*link)
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

    /// Reached nodes near `place`, nearest first: a walk along this layer meets no others.
    fn nearest_reached(&self, place: usize, vectors: Vectors<'_>, scratch: &mut HnswScratch) -> Vec<Scored> {
        let Vectors { rows, metric } = vectors;
        hnsw_search(rows, self, rows.row(self.nodes[place]), metric, BEAM, scratch).hits
    }

    /// The nearest of `hits` that can take a link.
    fn near_slot(&self, hits: &[Scored]) -> Option<usize> {
        hits.iter().filter_map(|hit| self.place(hit.node)).find(|&place| self.has_slot(place))
    }

    /// The same; where all are full of tree links, the first place with a slot on a way down the tree. A leaf has one,
    /// so there always is one. The way is chosen by the digits of `bridge`, which spreads bridges over the tree: always
    /// the same way would make the tree a list, and many equal vectors a matter of hours.
    fn any_slot(&self, hits: &[Scored], bridge: usize) -> Option<usize> {
        let near = self.near_slot(hits);
        if near.is_some() {
            return near;
        }
        let mut place = self.place(hits.first()?.node)?;
        let mut digits = bridge;
        while !self.has_slot(place) {
            let links = &self.lists[place];
            place = self.place(*links.get(digits % links.len())?)?;
            digits /= links.len();
        }
        Some(place)
    }

    fn has_slot(&self, place: usize) -> bool {
        self.lists[place].len() < self.cap || self.spare_link(place).is_some()
    }

    /// Index of the last link of `place` that is not in the tree. Lists begin nearest first.
    fn spare_link(&self, place: usize) -> Option<usize> {
        self.lists[place]
            .iter()
            .rposition(|&link| self.place(link).is_some_and(|next| self.reached[next] != place as u32))
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
