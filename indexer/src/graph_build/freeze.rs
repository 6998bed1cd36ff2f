//! Derives our layered graph from a builder's neighbour lists: collects the links of each layer, makes them symmetric,
//! and caps them.
//!
//! A builder stores, for every node, lists by layer. These are not yet the layers of the algorithm:
//! a list may hold targets that are not on its layer, links may be stored in a list of a higher layer, and a full list
//! drops its farthest link while the opposite link stays. So each layer is derived from the lists:
//!
//! 1. nodes of layer l: those whose level is at least l;
//! 2. links of a node: the union of its lists at layers >= l, only targets with level >= l, without duplicates or
//!    itself;
//! 3. links are made symmetric: the opposite of every link is added;
//! 4. lists are capped by the diversity heuristic ([`super::select`]) at M links, 2M in layer 0.

use dyad_index::search::VectorRows;
use dyad_index::{Graph, GraphLayer};
use rayon::prelude::*;

use super::graph::BuildParams;
use super::select::select;

/// One entry of a builder's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The layer of the list that holds it.
    pub layer: u8,
    /// The node linked to.
    pub target: u32,
}

/// A builder's neighbour lists, by node.
#[derive(Debug, Clone, Default)]
pub struct NeighbourLists {
    /// Highest layer of each node.
    pub levels: Vec<u8>,
    /// All list entries of each node, in any order.
    pub links: Vec<Vec<Link>>,
}

/// Derives the layers. The entry point is the lowest node of the highest layer. `lists` must not be empty.
pub fn freeze(lists: &NeighbourLists, rows: &dyn VectorRows, params: &BuildParams) -> Graph {
    let top = lists.levels.iter().copied().max().unwrap_or(0);
    let layers: Vec<GraphLayer> = (0..=top)
        .map(|layer| freeze_layer(lists, rows, layer, params.cap(usize::from(layer))))
        .collect();
    let entry = layers
        .last()
        .and_then(|layer| layer.nodes.first().copied())
        .unwrap_or(0);
    Graph { entry, layers }
}

fn freeze_layer(lists: &NeighbourLists, rows: &dyn VectorRows, layer: u8, cap: usize) -> GraphLayer {
    let nodes: Vec<u32> = (0..lists.levels.len() as u32)
        .filter(|&node| lists.levels[node as usize] >= layer)
        .collect();
    let mut candidates: Vec<Vec<u32>> = nodes.par_iter().map(|&node| targets(lists, node, layer)).collect();
    symmetrise(&nodes, &mut candidates);
    let kept: Vec<Vec<u32>> = nodes
        .par_iter()
        .zip(&candidates)
        .map(|(&node, candidates)| select(rows, node, candidates, cap))
        .collect();
    GraphLayer::from_lists(nodes, &kept)
}

/// The union of a node's lists at `layer` and above, restricted to nodes of `layer`; ascending, distinct.
fn targets(lists: &NeighbourLists, node: u32, layer: u8) -> Vec<u32> {
    let mut targets: Vec<u32> = lists.links[node as usize]
        .iter()
        .filter(|link| link.layer >= layer && link.target != node)
        .map(|link| link.target)
        .filter(|&target| lists.levels[target as usize] >= layer)
        .collect();
    targets.sort_unstable();
    targets.dedup();
    targets
}

/// Adds the opposite of every link. `candidates[i]` are the links of `nodes[i]`, each ascending before and after.
fn symmetrise(nodes: &[u32], candidates: &mut [Vec<u32>]) {
    let mut opposite: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
    for (&node, links) in nodes.iter().zip(candidates.iter()) {
        for target in links {
            if let Ok(position) = nodes.binary_search(target) {
                opposite[position].push(node);
            }
        }
    }
    candidates.par_iter_mut().zip(opposite).for_each(|(links, back)| {
        links.extend(back);
        links.sort_unstable();
        links.dedup();
    });
}
