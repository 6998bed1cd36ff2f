//! Derived layers against a slow oracle, on hand-made and on random lists.

use std::collections::BTreeSet;

use dyad_index::Graph;
use dyad_index::search::VectorRows as _;
use proptest::prelude::*;

use super::synthetic::Rows;
use crate::graph_build::BuildParams;
use crate::graph_build::freeze::{Link, NeighbourLists, freeze};

fn link(layer: u8, target: u32) -> Link {
    Link { layer, target }
}

fn params(m: usize) -> BuildParams {
    BuildParams {
        m,
        ef_construction: 10,
        seed: 0,
        threads: 1,
    }
}

/// Whether a link of the layer joins two nodes, straight from the definition.
fn joined(lists: &NeighbourLists, layer: u8, one: u32, other: u32) -> bool {
    let reaches = |node: u32| lists.levels[node as usize] >= layer;
    let lists_it = |from: u32, to: u32| {
        lists.links[from as usize]
            .iter()
            .any(|link| link.target == to && link.layer >= layer)
    };
    one != other && reaches(one) && reaches(other) && (lists_it(one, other) || lists_it(other, one))
}

fn assert_matches_oracle(lists: &NeighbourLists, graph: &Graph) {
    let n = lists.levels.len() as u32;
    graph.validate(n as usize).unwrap();
    for layer in 0..graph.layers.len() {
        for node in 0..n {
            let expected: BTreeSet<u32> = (0..n)
                .filter(|&other| joined(lists, layer as u8, node, other))
                .collect();
            let got: BTreeSet<u32> = graph.neighbours(layer, node).iter().copied().collect();
            assert_eq!(got, expected, "layer {layer}, node {node}");
            assert_eq!(
                got.len(),
                graph.neighbours(layer, node).len(),
                "duplicates at {layer}, {node}"
            );
        }
    }
}

#[test]
fn lost_reverse_links_come_back() {
    // 0 and 1 reach layer 1. 2 found 0 but was evicted from its list; 3's link to 1 is in 1's list of layer 1,
    // above 3's own level; 2 has an entry of the descent above its level; 3 lists 2 twice and itself.
    let lists = NeighbourLists {
        levels: vec![1, 1, 0, 0],
        links: vec![
            vec![link(1, 1)],
            vec![link(1, 3), link(0, 2)],
            vec![link(0, 0), link(1, 1)],
            vec![link(0, 2), link(1, 2), link(0, 3)],
        ],
    };
    let rows = Rows::clustered(4, 8, 4, 0.5, 0);
    let graph = freeze(&lists, &rows, &params(16));
    assert_eq!(graph.entry, 0);
    assert_eq!(graph.layers.len(), 2);
    assert_eq!(graph.layers[1].nodes, [0, 1]);
    assert_eq!(graph.neighbours(1, 0), [1]);
    assert_eq!(
        graph.neighbours(1, 1),
        [0],
        "made symmetric, and 3 does not reach layer 1"
    );
    let sorted = |node| {
        let mut links = graph.neighbours(0, node).to_vec();
        links.sort_unstable();
        links
    };
    assert_eq!(sorted(0), [1, 2], "2's forward link, and the link of layer 1");
    assert_eq!(sorted(1), [0, 2, 3]);
    assert_eq!(sorted(2), [0, 1, 3]);
    assert_eq!(sorted(3), [1, 2]);
    assert_matches_oracle(&lists, &graph);
}

#[test]
fn the_entry_point_is_on_the_highest_layer() {
    let lists = NeighbourLists {
        levels: vec![0, 2, 0],
        links: vec![vec![link(0, 1)], vec![], vec![link(0, 1)]],
    };
    let graph = freeze(&lists, &Rows::clustered(3, 4, 3, 0.1, 0), &params(4));
    assert_eq!((graph.entry, graph.layers.len()), (1, 3));
    graph.validate(3).unwrap();
}

fn any_lists() -> impl Strategy<Value = NeighbourLists> {
    (1usize..24).prop_flat_map(|n| {
        let levels = prop::collection::vec(0u8..4, n);
        let entry = (0u8..5, 0..n as u32).prop_map(|(layer, target)| link(layer, target));
        let links = prop::collection::vec(prop::collection::vec(entry, 0..8), n);
        (levels, links).prop_map(|(levels, links)| NeighbourLists { levels, links })
    })
}

proptest! {
    #[test]
    fn layers_match_the_oracle(lists in any_lists()) {
        let rows = Rows::clustered(lists.levels.len(), 8, 3, 0.3, 5);
        assert_matches_oracle(&lists, &freeze(&lists, &rows, &params(64)));
    }

    #[test]
    fn caps_hold_and_the_nearest_candidate_always_stays(lists in any_lists()) {
        let n = lists.levels.len() as u32;
        let rows = Rows::clustered(lists.levels.len(), 8, 3, 0.3, 5);
        let params = params(2);
        let graph = freeze(&lists, &rows, &params);
        graph.validate(n as usize).unwrap();
        for layer in 0..graph.layers.len() {
            for node in 0..n {
                let kept = graph.neighbours(layer, node);
                let mut all: Vec<u32> = (0..n).filter(|&other| joined(&lists, layer as u8, node, other)).collect();
                prop_assert_eq!(kept.len(), all.len().min(params.cap(layer)));
                let score = |other: u32| dyad_index::kernels::dot(rows.row(node), rows.row(other));
                all.sort_by(|a, b| score(*b).total_cmp(&score(*a)).then(a.cmp(b)));
                prop_assert_eq!(kept.first(), all.first());
            }
        }
    }
}
