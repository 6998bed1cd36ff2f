//! The graph of an existing shard, from which the build of a larger one starts.
//!
//! A merge would otherwise insert every document again. Here the live documents of one shard keep their links and
//! layers; a document with links to deleted ones gets the live links of these as candidates in their place (Singh et
//! al. 2021, arXiv:2105.09613, algorithm 4), and the builder keeps the diverse ones of all. Only the others are
//! inserted.

use dyad_index::format::graph::LinksView;
use dyad_index::search::{SlotLinks as _, UpperLayers as _};
use xxhash_rust::xxh3::Xxh3;

/// The links of a shard's live documents. Nodes are those of the new shard: 0 up to [`InitialGraph::len`].
#[derive(Debug, Clone)]
pub struct InitialGraph<'a> {
    links: LinksView<'a>,
    /// Slot of each new node.
    slots: Vec<u32>,
    /// New node of each slot, or [`DELETED`].
    nodes: Vec<u32>,
    /// Highest layer of each new node.
    levels: Vec<u8>,
    /// A node of the highest layer: the shard's own entry point where that is live and there.
    entry: u32,
    /// The shard's node of each new node.
    kept: Vec<u32>,
    hash: u64,
}

const DELETED: u32 = u32::MAX;
/// Share of deleted documents up to which a build starts from a shard's graph. Above it recall@10 at ef 64 loses
/// .001 to .003 (a third of 50,000 MiniLM vectors replaced; a tenth four times over: nothing).
const MAX_DELETED_SHARE: f64 = 0.2;

impl<'a> InitialGraph<'a> {
    /// The graph of `links` over those of its nodes that `kept` names, which get the numbers 0, 1 and so on. None where
    /// that is no node at all.
    pub fn new(links: LinksView<'a>, kept: &[u32]) -> Option<Self> {
        let mut numbers = vec![DELETED; links.order().len()];
        for (number, node) in (0..).zip(kept) {
            *numbers.get_mut(*node as usize)? = number;
        }
        let mut slots = vec![0; kept.len()];
        let mut nodes = vec![DELETED; links.order().len()];
        for (slot, node) in (0..).zip(links.order()) {
            // The links of a copy are those of its representative. Of several nodes with one vector the last has them
            // here.
            let slot = links.representative(slot);
            let number = numbers.get(*node as usize).copied().unwrap_or(DELETED);
            if let (Some(to_slot), Some(to_node)) = (slots.get_mut(number as usize), nodes.get_mut(slot as usize)) {
                (*to_slot, *to_node) = (slot, number);
            }
        }
        let top = links.max_layer();
        let level = |slot: &u32| {
            (1..=top)
                .take_while(|layer| links.upper(*layer, *slot).is_some())
                .count() as u8
        };
        let levels: Vec<u8> = slots.iter().map(level).collect();
        let highest = levels.iter().copied().max()?;
        let is_highest = |node: &u32| levels.get(*node as usize) == Some(&highest);
        let entry = nodes.get(links.entry() as usize).copied().filter(is_highest);
        let entry = entry.or_else(|| (0..levels.len() as u32).find(is_highest))?;
        let mut hash = Xxh3::new();
        for node in kept {
            hash.update(&node.to_le_bytes());
        }
        Some(Self {
            links,
            slots,
            nodes,
            levels,
            entry,
            kept: kept.to_vec(),
            hash: hash.digest(),
        })
    }

    /// The graph over some of its nodes, ascending, which get the numbers 0, 1 and so on. None where that is no node at
    /// all.
    pub(crate) fn restricted_to(&self, nodes: &[u32]) -> Option<Self> {
        let kept: Option<Vec<u32>> = nodes
            .iter()
            .map(|node| self.kept.get(*node as usize).copied())
            .collect();
        Self::new(self.links.clone(), &kept?)
    }

    /// Whether a build of `all` documents is to start from the graph of a shard of which `kept` of `documents` are
    /// left: most of its documents, and at least half of all.
    pub fn suits(kept: usize, documents: usize, all: usize) -> bool {
        let deleted = documents.saturating_sub(kept);
        deleted as f64 <= MAX_DELETED_SHARE * documents as f64 && 2 * kept >= all
    }

    /// Nodes in the graph.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Never: see [`InitialGraph::new`].
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// A node of the highest layer.
    pub fn entry(&self) -> u32 {
        self.entry
    }

    /// A hash of which nodes were kept.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The highest layer.
    pub fn top(&self) -> u8 {
        self.levels.get(self.entry as usize).copied().unwrap_or(0)
    }

    /// The nodes of a layer, ascending.
    pub fn members(&self, layer: usize) -> Vec<u32> {
        (0..)
            .zip(&self.levels)
            .filter(|(_, level)| usize::from(**level) >= layer)
            .map(|(node, _)| node)
            .collect()
    }

    /// The nodes that `node` may link to on `layer`: its live links, then the live links of its deleted ones. Each
    /// once.
    pub fn candidates(&self, layer: usize, node: u32) -> Vec<u32> {
        let Some(slot) = self.slots.get(node as usize) else {
            return Vec::new();
        };
        let mut slots = self.row(layer, *slot);
        let own = slots.len();
        for at in 0..own {
            if let Some(deleted) = slots.get(at).copied().filter(|slot| self.live(*slot).is_none()) {
                slots.extend(self.row(layer, deleted));
            }
        }
        let on_layer = |node: &u32| {
            self.levels
                .get(*node as usize)
                .is_some_and(|level| usize::from(*level) >= layer)
        };
        let mut nodes: Vec<u32> = slots
            .into_iter()
            .filter_map(|slot| self.live(slot))
            .filter(on_layer)
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|other| *other != node);
        nodes
    }

    /// The live links of `node` on `layer`.
    pub fn links(&self, layer: usize, node: u32) -> Vec<u32> {
        let row = self
            .slots
            .get(node as usize)
            .map_or_else(Vec::new, |slot| self.row(layer, *slot));
        row.into_iter().filter_map(|slot| self.live(slot)).collect()
    }

    fn live(&self, slot: u32) -> Option<u32> {
        self.nodes.get(slot as usize).copied().filter(|node| *node != DELETED)
    }

    fn row(&self, layer: usize, slot: u32) -> Vec<u32> {
        let mut row = Vec::new();
        match layer {
            // Padding is the slot itself.
            0 => self.links.append(slot, &mut row),
            _ => row.extend_from_slice(self.links.upper(layer, slot).unwrap_or(&[])),
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use dyad_index::quant::{Codec, Codes};
    use dyad_index::search::DenseRows;
    use dyad_index::{Arranged, Graph, GraphLayer, GraphLayout, Metric, VectorGroups};

    use super::*;

    /// A path of six nodes, of which 1, 3 and 4 are on layer 1.
    fn path() -> GraphLayout {
        let lists: Vec<Vec<u32>> = vec![vec![1], vec![0, 2], vec![1, 3], vec![2, 4], vec![3, 5], vec![4]];
        let upper = GraphLayer::from_lists(vec![1, 3, 4], &[vec![3], vec![1, 4], vec![3]]);
        GraphLayout::new(&Graph {
            entry: 3,
            layers: vec![GraphLayer::from_lists((0..6).collect(), &lists), upper],
        })
        .unwrap()
    }

    #[test]
    fn links_to_deleted_nodes_become_candidates_from_these() {
        let layout = path();
        let graph = InitialGraph::new(layout.view(), &[0, 1, 2, 4, 5]).unwrap();
        // Without node 3, nodes 4 and 5 are 3 and 4 now.
        assert_eq!((graph.len(), graph.entry(), graph.top()), (5, 1, 1));
        assert_eq!((graph.members(0), graph.members(1)), (vec![0, 1, 2, 3, 4], vec![1, 3]));
        let candidates = |layer| (0..5).map(|node| graph.candidates(layer, node)).collect::<Vec<_>>();
        assert_eq!(candidates(0), [vec![1], vec![0, 2], vec![1, 3], vec![2, 4], vec![3]]);
        assert_eq!(candidates(1), [vec![], vec![3], vec![], vec![1], vec![]]);
        assert!(graph.candidates(0, 5).is_empty() && graph.candidates(9, 0).is_empty());
    }

    #[test]
    fn copies_have_the_links_of_their_representative() {
        // Nodes 6, 7 and 8 have the vectors of 2, 3 and 3.
        let values: Vec<f32> = (0..6).map(|node| node as f32).collect();
        let rows = DenseRows::new(&values, 1);
        let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Dot, 0));
        let graph = Arranged { layout: path(), codes };
        let groups = VectorGroups::new(&[0, 1, 2, 3, 4, 5, 2, 3, 3]).unwrap();
        let layout = graph.with_copies(&groups).unwrap().layout;
        let initial = InitialGraph::new(layout.view(), &[0, 1, 4, 5, 6, 8]).unwrap();
        let candidates: Vec<Vec<u32>> = (0..6).map(|node| initial.candidates(0, node)).collect();
        assert_eq!(
            candidates,
            [vec![1], vec![0, 4], vec![3, 5], vec![2], vec![1, 5], vec![2, 4]]
        );
        assert_eq!((initial.members(1), initial.entry()), (vec![1, 2, 5], 5));
    }

    #[test]
    fn an_order_of_its_own_and_nothing_left() {
        let layout = path();
        let graph = InitialGraph::new(layout.view(), &[5, 4]).unwrap();
        assert_eq!((graph.candidates(0, 0), graph.candidates(0, 1)), (vec![1], vec![0]));
        assert_eq!((graph.entry(), graph.members(1)), (1, vec![1]));
        assert!(InitialGraph::new(layout.view(), &[]).is_none());
        assert!(InitialGraph::new(layout.view(), &[6]).is_none(), "no such node");
    }

    #[test]
    fn a_build_starts_from_a_graph_that_holds_most() {
        let suits = InitialGraph::suits;
        assert!(suits(80, 100, 160) && suits(100, 100, 100));
        assert!(!suits(79, 100, 100), "more than a fifth is deleted");
        assert!(!suits(80, 100, 161), "less than half of all");
    }
}
