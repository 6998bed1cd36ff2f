//! Repair on hand-made hard graphs and on random ones: all reached, caps kept.

use std::sync::atomic::{AtomicU64, Ordering};

use dyad_index::search::{DenseRows, VectorRows};
use dyad_index::{Graph, GraphLayer, Metric};
use proptest::prelude::*;

use super::cancelled;
use super::synthetic::Rows;
use crate::control::{JobControl, JobProgress, Unit};
use crate::error::Error;
use crate::graph_build::BuildParams;
use crate::graph_build::repair::{Repaired, count_steps, repair as repair_unless};

fn params(m: usize) -> BuildParams {
    BuildParams {
        m,
        ef_construction: 10,
        seed: 0,
        threads: 1,
    }
}

fn repair(graph: Graph, rows: &dyn VectorRows, params: &BuildParams) -> Repaired {
    let control = JobControl::silent();
    repair_unless(graph, rows, Metric::Cosine, params, control).unwrap()
}

fn single_layer(lists: &[Vec<u32>]) -> Graph {
    Graph {
        entry: 0,
        layers: vec![GraphLayer::from_lists((0..lists.len() as u32).collect(), lists)],
    }
}

/// Reached nodes of a layer, by a plain search that shares nothing with the repair.
fn reached(graph: &Graph, layer: usize) -> usize {
    let mut seen = std::collections::BTreeSet::from([graph.entry]);
    let mut stack = vec![graph.entry];
    while let Some(node) = stack.pop() {
        stack.extend(
            graph
                .neighbours(layer, node)
                .iter()
                .copied()
                .filter(|next| seen.insert(*next)),
        );
    }
    seen.len()
}

fn assert_valid(repaired: &Repaired, n: usize, params: &BuildParams) {
    let graph = &repaired.graph;
    graph.validate(n).unwrap();
    assert!(graph.reachable().iter().all(|reached| *reached));
    for (number, layer) in graph.layers.iter().enumerate() {
        assert_eq!(reached(graph, number), layer.nodes.len(), "layer {number}");
        for &node in &layer.nodes {
            let links = layer.neighbours(node);
            assert!(links.len() <= params.cap(number), "layer {number}, node {node}");
            let distinct: std::collections::BTreeSet<_> = links.iter().collect();
            assert_eq!(distinct.len(), links.len());
        }
    }
}

#[test]
fn one_vector_and_two() {
    let rows = Rows::clustered(2, 4, 2, 0.1, 0);
    let one = repair(single_layer(&[vec![]]), &rows.first(1), &params(4));
    assert_eq!((one.unreachable_before, one.links_added), (0, 0));
    assert_valid(&one, 1, &params(4));
    let two = repair(single_layer(&[vec![], vec![]]), &rows, &params(4));
    assert_eq!((two.unreachable_before, two.links_added), (1, 2), "there and back");
    assert_valid(&two, 2, &params(4));
}

#[test]
fn a_sound_graph_is_left_as_it_is() {
    let graph = single_layer(&[vec![1, 2], vec![0, 2], vec![1, 0]]);
    let repaired = repair(graph.clone(), &Rows::clustered(3, 4, 3, 0.1, 0), &params(2));
    assert_eq!((repaired.unreachable_before, repaired.links_added), (0, 0));
    assert_eq!(repaired.graph, graph);
}

#[test]
fn clusters_without_a_link_between_them_are_joined_near_each_other() {
    // Rings of 10 nodes; node i belongs to ring i / 10. Row i is near its ring's centre.
    let rings = 5u32;
    let lists: Vec<Vec<u32>> = (0..rings * 10)
        .map(|node| {
            let (ring, at) = (node / 10 * 10, node % 10);
            vec![ring + (at + 1) % 10, ring + (at + 9) % 10]
        })
        .collect();
    let dim = 8;
    let values = (0..rings as usize * 10)
        .flat_map(|node| {
            (0..dim).map(move |at| {
                if at == node / 10 {
                    1.0
                } else {
                    0.01 * ((node * 7 + at) % 10) as f32
                }
            })
        })
        .collect();
    let repaired = repair(single_layer(&lists), &Rows::new(values, dim), &params(4));
    assert_eq!(repaired.unreachable_before, 40);
    assert_valid(&repaired, 50, &params(4));
    assert!(
        repaired.links_added >= 40,
        "every node of a small component is linked: {}",
        repaired.links_added
    );
}

#[test]
fn orphans_are_linked_even_where_every_slot_is_taken() {
    // Nodes 0..=8 are a full binary-ish tree (cap 4 = 2 * m): 0 has 4 children, 1 has 4; the rest are leaves.
    // 9..=40 are orphans and all vectors are equal, so the search finds the full inner nodes first.
    let mut lists: Vec<Vec<u32>> = vec![vec![1, 2, 3, 4], vec![5, 6, 7, 8]];
    lists.resize(41, vec![]);
    let rows = Rows::duplicated(41, 4, 1, 3);
    let repaired = repair(single_layer(&lists), &rows, &params(2));
    assert_eq!(repaired.unreachable_before, 32);
    assert_valid(&repaired, 41, &params(2));
}

#[test]
fn thousands_of_equal_vectors_take_no_time_and_stay_shallow() {
    let n = 6_000;
    let rows = Rows::duplicated(n, 4, 1, 3);
    let repaired = repair(single_layer(&vec![vec![]; n]), &rows, &params(4));
    assert_eq!(repaired.unreachable_before, n as u64 - 1);
    assert_valid(&repaired, n, &params(4));
    // Steps from the entry point to the farthest node.
    let (mut seen, mut front, mut steps) = (vec![false; n], vec![0u32], 0);
    seen[0] = true;
    while !front.is_empty() {
        let links = front.iter().flat_map(|node| repaired.graph.neighbours(0, *node));
        front = links
            .copied()
            .filter(|next| !std::mem::replace(&mut seen[*next as usize], true))
            .collect();
        steps += 1;
    }
    assert!(steps < 40, "{steps}");
}

#[test]
fn a_repair_can_be_cancelled() {
    let rows = Rows::clustered(2, 4, 2, 0.1, 0);
    let graph = single_layer(&[vec![], vec![]]);
    let control = JobControl {
        cancel: &cancelled(),
        ..JobControl::silent()
    };
    let result = repair_unless(graph, &rows, Metric::Cosine, &params(4), control);
    assert!(matches!(result, Err(Error::Cancelled)));
}

/// Counts the progress reported.
#[derive(Default)]
struct Count(AtomicU64);

impl JobProgress for Count {
    fn begin(&self, _stage: &str, _unit: Unit, _total: Option<u64>) {}
    fn advance(&self, steps: u64) {
        self.0.fetch_add(steps, Ordering::Relaxed);
    }
    fn finish(&self) {}
    fn note(&self, _text: &str) {}
}

#[test]
fn progress_ends_at_the_total() {
    for n in [1, 3, 4_095, 4_096, 4_097] {
        let mut graph = single_layer(&vec![vec![]; n]);
        graph.layers.push(GraphLayer::from_lists(vec![0], &[vec![]]));
        let (total, count) = (count_steps(&graph), Count::default());
        assert_eq!(total, n as u64 + 1);
        let control = JobControl {
            progress: &count,
            ..JobControl::silent()
        };
        repair_unless(
            graph,
            &Rows::duplicated(n, 4, 1, 3),
            Metric::Cosine,
            &params(4),
            control,
        )
        .unwrap();
        assert_eq!(count.0.into_inner(), total, "{n} nodes");
    }
}

#[test]
fn an_orphan_is_linked_from_the_nearest_row_by_distance_whatever_the_lengths() {
    // On a line: 0, 1, 2, and far out 100; the orphan is at 1.2. By inner product 100 is the nearest to everything.
    let values = [0.1, 1.0, 2.0, 100.0, 1.2];
    let rows = DenseRows::new(&values, 1);
    let lists = [vec![1, 2, 3], vec![0, 2, 3], vec![0, 1, 3], vec![0, 1, 2], vec![]];
    let control = JobControl::silent();
    let linking = |metric| {
        let repaired = repair_unless(single_layer(&lists), &rows, metric, &params(4), control).unwrap();
        assert_valid(&repaired, 5, &params(4));
        (0..4)
            .find(|node| repaired.graph.neighbours(0, *node).contains(&4))
            .unwrap()
    };
    assert_eq!((linking(Metric::L2), linking(Metric::Cosine)), (1, 3));
}

#[test]
fn upper_layers_are_repaired_too() {
    let lists = vec![vec![1], vec![0], vec![3], vec![2]];
    let mut graph = single_layer(&lists);
    graph
        .layers
        .push(GraphLayer::from_lists(vec![0, 2, 3], &[vec![], vec![3], vec![]]));
    let repaired = repair(graph, &Rows::clustered(4, 4, 2, 0.2, 1), &params(2));
    assert_eq!(repaired.unreachable_before, 2, "of layer 0");
    assert_valid(&repaired, 4, &params(2));
}

fn any_graph() -> impl Strategy<Value = (Graph, usize, u64)> {
    (1usize..80, 2usize..4, any::<u64>(), 0usize..5).prop_flat_map(|(n, m, seed, density)| {
        let list = |most: usize| prop::collection::btree_set(0..n as u32, 0..=most.min(density));
        let lowest = prop::collection::vec(list(2 * m), n);
        let upper = prop::collection::vec(list(m), n.div_ceil(3));
        (lowest, upper).prop_map(move |(lowest, upper)| {
            let own = |node: u32, links: &std::collections::BTreeSet<u32>, keep: fn(u32) -> bool| -> Vec<u32> {
                links
                    .iter()
                    .copied()
                    .filter(|&link| link != node && keep(link))
                    .collect()
            };
            let lowest: Vec<Vec<u32>> = (0..)
                .zip(&lowest)
                .map(|(node, links)| own(node, links, |_| true))
                .collect();
            let nodes: Vec<u32> = (0..n as u32).step_by(3).collect();
            let upper: Vec<Vec<u32>> = nodes
                .iter()
                .zip(&upper)
                .map(|(&node, links)| own(node, links, |link| link % 3 == 0))
                .collect();
            let layers = vec![
                GraphLayer::from_lists((0..n as u32).collect(), &lowest),
                GraphLayer::from_lists(nodes, &upper),
            ];
            (Graph { entry: 0, layers }, m, seed % 1_000)
        })
    })
}

proptest! {
    #[test]
    fn every_node_is_reached_within_the_caps((graph, m, seed) in any_graph(), distinct in 1usize..9) {
        let n = graph.layers[0].nodes.len();
        let rows = Rows::clustered(n, 4, distinct, if distinct < 4 { 0.0 } else { 0.3 }, seed);
        assert_valid(&repair(graph, &rows, &params(m)), n, &params(m));
    }
}
