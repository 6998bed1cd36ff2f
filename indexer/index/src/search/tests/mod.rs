//! The graph search against the scan, and the scan against a plain sort.

mod beam_search;
mod beam_world;
mod code_scan;
mod filtered;

use proptest::prelude::*;

use super::*;
use crate::graph::{Graph, GraphLayer};
use crate::model::Metric;

fn unit_rows(n: usize, dim: usize, seed: u64) -> Vec<f32> {
    let mut state = seed | 1;
    let mut values: Vec<f32> = (0..n * dim)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect();
    for row in values.chunks_mut(dim) {
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        for x in row {
            *x /= norm;
        }
    }
    values
}

fn complete_graph(n: usize) -> Graph {
    let lists: Vec<Vec<u32>> = (0..n as u32)
        .map(|node| (0..n as u32).filter(|other| *other != node).collect())
        .collect();
    Graph {
        entry: 0,
        layers: vec![GraphLayer::from_lists((0..n as u32).collect(), &lists)],
    }
}

#[test]
fn a_search_of_a_complete_graph_is_exact() {
    let values = unit_rows(300, 24, 7);
    let rows = DenseRows::new(&values, 24);
    let graph = complete_graph(300);
    let mut scratch = HnswScratch::default();
    for query in 0..20 {
        let query = rows.row(query);
        let result = hnsw_search(&rows, &graph, query, Metric::Cosine, 300, &mut scratch);
        assert_eq!(result.hits[..10], flat(&rows, query, 10, Metric::Cosine, None)[..10]);
        assert_eq!(result.cost.total(), 300);
    }
}

#[test]
fn a_search_over_rows_of_any_length_is_exact_by_distance() {
    // Row i is scaled to a length between 1 and 30: by inner product the longest would win every time.
    let mut values = unit_rows(200, 12, 9);
    for (number, row) in values.chunks_mut(12).enumerate() {
        for value in row {
            *value *= 1.0 + (number * 7 % 30) as f32;
        }
    }
    let rows = DenseRows::new(&values, 12);
    let graph = complete_graph(200);
    for query in 0..20 {
        let query = rows.row(query);
        let result = hnsw_search(&rows, &graph, query, Metric::L2, 200, &mut HnswScratch::default());
        assert_eq!(result.hits[..10], flat(&rows, query, 10, Metric::L2, None)[..10]);
        assert!(result.hits.first().is_some_and(|hit| rows.row(hit.node) == query));
    }
}

#[test]
fn a_search_ignores_links_to_nodes_that_do_not_exist() {
    let values = unit_rows(3, 4, 1);
    let rows = DenseRows::new(&values, 4);
    let graph = Graph {
        entry: 0,
        layers: vec![GraphLayer::from_lists(
            vec![0, 1, 2],
            &[vec![1, 9_000_000], vec![2], vec![]],
        )],
    };
    let result = hnsw_search(
        &rows,
        &graph,
        rows.row(2),
        Metric::Cosine,
        3,
        &mut HnswScratch::default(),
    );
    assert_eq!(result.hits.len(), 3);
    let nowhere = Graph {
        entry: 3,
        layers: graph.layers,
    };
    let result = hnsw_search(
        &rows,
        &nowhere,
        rows.row(2),
        Metric::Cosine,
        3,
        &mut HnswScratch::default(),
    );
    assert!(result.hits.is_empty());
}

#[test]
fn the_scan_returns_every_tie_of_the_last_hit() {
    let values = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0];
    let rows = DenseRows::new(&values, 2);
    let nodes: Vec<u32> = flat(&rows, &[1.0, 0.0], 2, Metric::Cosine, None)
        .iter()
        .map(|hit| hit.node)
        .collect();
    assert_eq!(nodes, [0, 2, 3]);
    assert!(flat(&rows, &[1.0, 0.0], 0, Metric::Cosine, None).is_empty());
    assert_eq!(flat(&rows, &[1.0, 0.0], 99, Metric::Cosine, None).len(), 4);
}

proptest! {
    #[test]
    fn top_k_agrees_with_a_sort(scores in prop::collection::vec(-3i8..3, 0..80), k in 0usize..20) {
        let scores = scores.iter().map(|score| f32::from(*score));
        let items: Vec<Scored> = (0..).zip(scores).map(|(node, score)| Scored { node, score }).collect();
        let mut best = TopK::new(k);
        for item in &items {
            best.offer(*item);
        }
        let mut sorted = items;
        sorted.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.node.cmp(&b.node)));
        sorted.truncate(k);
        prop_assert_eq!(best.drain_sorted(), sorted);
    }
}

/// `total_cmp` puts NaN above every number, where a damaged row would come first, or hide all others.
#[test]
fn rows_without_a_score_are_no_hits() {
    let mut values = unit_rows(6, 4, 1);
    values[4..12].fill(f32::NAN);
    let rows = DenseRows::new(&values, 4);
    let nodes = |k| {
        let mut nodes: Vec<u32> = flat(&rows, rows.row(0), k, Metric::Cosine, None)
            .iter()
            .map(|hit| hit.node)
            .collect();
        nodes.sort_unstable();
        nodes
    };
    assert_eq!(nodes(1), [0]);
    assert_eq!(nodes(6), [0, 3, 4, 5]);
}
