//! Builds that start from an existing graph: unchanged where nothing changes, valid whatever is added and deleted, and
//! as good as a build from nothing.

use dyad_index::format::RowType;
use dyad_index::quant::{Codec, Codes};
use dyad_index::search::{DenseRows, VectorRows};
use dyad_index::{Graph, GraphLayout, Metric};
use proptest::prelude::*;

use super::synthetic::Rows;
use crate::control::JobControl;
use crate::graph_build::native::Native;
use crate::graph_build::repair::repair;
use crate::graph_build::{
    BuildInput, BuildParams, BuiltGraph, GraphBuild, GraphBuilder as _, InitialGraph, RecallGate, RecallTarget,
};

fn params(threads: usize) -> BuildParams {
    BuildParams {
        m: 8,
        ef_construction: 100,
        seed: 7,
        threads,
    }
}

/// A graph of all rows that is reachable, as the shard of a build holds it.
fn graph(rows: &dyn VectorRows, initial: Option<&InitialGraph<'_>>, params: &BuildParams) -> Graph {
    let codes = Codes::encode(rows, Codec::fit(rows, Metric::Cosine, 0));
    let built = Native
        .build(
            &BuildInput {
                rows,
                codes: &codes,
                initial,
            },
            params,
            JobControl::silent(),
        )
        .unwrap();
    built.validate(rows.len()).unwrap();
    let repaired = repair(built, rows, Metric::Cosine, params, JobControl::silent())
        .unwrap()
        .graph;
    repaired.validate(rows.len()).unwrap();
    assert!(repaired.reachable().iter().all(|reached| *reached));
    for (number, layer) in repaired.layers.iter().enumerate() {
        for node in &layer.nodes {
            let mut links = layer.neighbours(*node).to_vec();
            assert!(
                links.len() <= params.cap(number),
                "layer {number}, node {node}: {} links",
                links.len()
            );
            links.sort_unstable();
            assert!(
                links.is_sorted_by(|left, right| left < right),
                "layer {number}, node {node}: a link twice"
            );
        }
    }
    repaired
}

/// These rows of `rows`, in this order.
fn some_of(rows: &Rows, nodes: &[u32]) -> Vec<f32> {
    nodes.iter().flat_map(|node| rows.row(*node)).copied().collect()
}

/// All but every `step`-th of the first `n` nodes.
fn kept(n: u32, step: u32) -> Vec<u32> {
    (0..n).filter(|node| node % step != 0).collect()
}

pub(super) fn make(
    rows: &dyn VectorRows,
    initial: Option<&InitialGraph<'_>>,
    target: Option<RecallTarget>,
) -> BuiltGraph {
    let (params, gate) = (
        params(2),
        RecallGate {
            questions: None,
            target,
            ..RecallGate::default()
        },
    );
    let (metric, row_type, control) = (Metric::Cosine, RowType::F32, JobControl::silent());
    GraphBuild {
        rows,
        metric,
        row_type,
        codec: None,
        builder: &Native,
        params: &params,
        initial,
        gate,
        control,
        label: "",
    }
    .run()
    .unwrap()
}

/// Links of every node and layer, each list ascending.
fn links(graph: &Graph) -> Vec<Vec<(u32, Vec<u32>)>> {
    let ascending = |mut links: Vec<u32>| {
        links.sort_unstable();
        links
    };
    let layers = graph.layers.iter();
    layers
        .map(|layer| {
            layer
                .nodes
                .iter()
                .map(|node| (*node, ascending(layer.neighbours(*node).to_vec())))
                .collect()
        })
        .collect()
}

#[test]
fn a_graph_to_which_nothing_is_added_stays_as_it_is() {
    let rows = Rows::clustered(2_000, 16, 30, 0.6, 3);
    let all: Vec<u32> = (0..2_000).collect();
    let before = graph(&rows, None, &params(2));
    let layout = GraphLayout::new(&before).unwrap();
    let initial = InitialGraph::new(layout.view(), &all).unwrap();
    let after = graph(&rows, Some(&initial), &params(2));
    assert!(after.layers.len() > 2, "{}", after.layers.len());
    assert_eq!((after.entry, links(&after)), (before.entry, links(&before)));
}

#[test]
fn what_is_added_to_a_graph_and_deleted_from_it_costs_no_recall() {
    let rows = Rows::clustered(6_000, 48, 60, 0.6, 3);
    let layout = GraphLayout::new(&graph(&rows.first(5_000), None, &params(2))).unwrap();
    for step in [20, 5] {
        let live = kept(5_000, step);
        let nodes: Vec<u32> = live.iter().copied().chain(5_000..6_000).collect();
        let values = some_of(&rows, &nodes);
        let rows = DenseRows::new(&values, 48);
        let initial = InitialGraph::new(layout.view(), &live).unwrap();
        let (grown, fresh) = (make(&rows, Some(&initial), None), make(&rows, None, None));
        assert_eq!(grown.certificate.unreachable, 0);
        for (grown, fresh) in grown.certificate.recall.iter().zip(&fresh.certificate.recall) {
            let (ef, at) = (grown.ef, (grown.recall_at_10, fresh.recall_at_10));
            assert!(at.0 > at.1 - 0.01, "a {step}th deleted, ef {ef}: {at:?}");
        }
    }
}

#[test]
fn one_thread_adds_to_a_graph_the_same_way_again() {
    let rows = Rows::clustered(1_500, 16, 20, 0.4, 1);
    let layout = GraphLayout::new(&graph(&rows.first(1_200), None, &params(1))).unwrap();
    let initial = InitialGraph::new(layout.view(), &(0..1_200).collect::<Vec<u32>>()).unwrap();
    assert_eq!(
        graph(&rows, Some(&initial), &params(1)),
        graph(&rows, Some(&initial), &params(1))
    );
}

#[test]
fn a_graph_below_the_target_is_built_again_from_nothing() {
    let rows = Rows::clustered(2_000, 48, 60, 0.6, 3);
    let layout = GraphLayout::new(&graph(&rows, None, &params(2))).unwrap();
    // Links of other rows: as if the shard's file were damaged.
    let wrong: Vec<u32> = (0..2_000).map(|node| node * 7 % 2_000).rev().collect();
    let initial = InitialGraph::new(layout.view(), &wrong).unwrap();
    let recall = |made: BuiltGraph| {
        made.certificate
            .recall
            .iter()
            .find(|point| point.ef == 64)
            .unwrap()
            .recall_at_10
    };
    assert!(recall(make(&rows, Some(&initial), None)) < 0.5);
    let target = RecallTarget::new(0.95, 64).unwrap();
    assert!(recall(make(&rows, Some(&initial), Some(target))) >= 0.95);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_part_of_a_graph_and_any_additions_make_a_valid_graph(
        (n, added) in (1u32..300, 0u32..300),
        m in 2usize..6,
        distinct in 1usize..60,
        seed in 0u64..1_000,
        share in 0.0f64..1.0,
    ) {
        let rows = Rows::duplicated((n + added) as usize, 8, distinct, seed);
        let params = BuildParams { m, ef_construction: 20, seed, threads: 2 };
        let layout = GraphLayout::new(&graph(&rows.first(n as usize), None, &params)).unwrap();
        let hash = |node: &u32| f64::from(node.wrapping_mul(0x9E37_79B9) >> 8) / f64::from(1 << 24);
        let live: Vec<u32> = (0..n).filter(|node| hash(node) >= share).collect();
        let nodes: Vec<u32> = live.iter().copied().chain(n..n + added).collect();
        prop_assume!(!nodes.is_empty());
        let initial = InitialGraph::new(layout.view(), &live);
        prop_assert_eq!(initial.is_none(), live.is_empty());
        let values = some_of(&rows, &nodes);
        graph(&DenseRows::new(&values, 8), initial.as_ref(), &params);
    }
}
