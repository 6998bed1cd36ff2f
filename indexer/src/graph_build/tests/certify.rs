//! Certificates of small graphs whose recall is known.

use dyad_index::format::RowType;
use dyad_index::quant::{Codec, Codes};
use dyad_index::search::{DenseRows, RESCORED, VectorRows};
use dyad_index::{Arranged, Graph, GraphLayer, Metric};

use crate::control::JobControl;
use crate::graph_build::certify_questions::ShardVectors;
use crate::graph_build::{RecallGate, Repaired, certify};

fn f32_rows(rows: &dyn VectorRows) -> ShardVectors<'_> {
    ShardVectors {
        given: rows,
        served_as: RowType::F32,
        groups: None,
    }
}

#[test]
fn a_node_that_the_search_misses_lowers_recall_and_shows_as_unreachable() {
    // Four directions; node 3 has no incoming link.
    let values = [1.0, 0.0, 0.8, 0.6, 0.6, 0.8, 0.0, 1.0];
    let rows = DenseRows::new(&values, 2);
    let lists = [vec![1], vec![0, 2], vec![1], vec![2]];
    let graph = Graph {
        entry: 0,
        layers: vec![GraphLayer::from_lists(vec![0, 1, 2, 3], &lists)],
    };
    let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 0));
    let arranged = Arranged::new(&graph, &codes).unwrap();
    let repaired = Repaired {
        graph,
        unreachable_before: 1,
        links_added: 0,
    };
    let certificate = certify(
        &repaired,
        &arranged,
        f32_rows(&rows),
        &RecallGate::default(),
        0,
        JobControl::silent(),
    )
    .unwrap();
    let certificate = certificate.certificate;
    assert_eq!(
        (certificate.vectors, certificate.queries, certificate.unreachable),
        (4, 4, 1)
    );
    let recall = certificate.recall.first().unwrap();
    // Nodes 0, 1 and 2 miss node 3 of their three others; a search for 3 finds all of its own.
    assert!((recall.recall_at_10 - 0.75).abs() < 1e-12, "{recall:?}");
    assert_eq!(recall.recall_at_100, None);
}

#[test]
fn f16_is_measured_as_it_is_served() {
    // Rows around (1, 1, ..) whose differences f16 rounds away: it has steps of 1/1024 there.
    // So few that a search scores all of them: the row itself, ten hits, and what is scored beyond them.
    let (n, dim) = (11 + RESCORED, 8);
    let value = |at: usize| 1.0 + ((at * 7_919 + 13) % 1_009) as f32 / 1_009.0 / 2_048.0;
    let values: Vec<f32> = (0..n * dim).map(value).collect();
    let rows = DenseRows::new(&values, dim);
    let lists: Vec<Vec<u32>> = (0..n as u32)
        .map(|node| (0..n as u32).filter(|other| *other != node).collect())
        .collect();
    let graph = Graph {
        entry: 0,
        layers: vec![GraphLayer::from_lists((0..n as u32).collect(), &lists)],
    };
    let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::L2, 0));
    let arranged = Arranged::new(&graph, &codes).unwrap();
    let repaired = Repaired {
        graph,
        unreachable_before: 0,
        links_added: 0,
    };
    let at_512 = |served_as| {
        let rows = ShardVectors {
            given: &rows,
            served_as,
            groups: None,
        };
        let certificate = certify(
            &repaired,
            &arranged,
            rows,
            &RecallGate::default(),
            0,
            JobControl::silent(),
        )
        .unwrap();
        certificate.certificate.recall.last().unwrap().recall_at_10
    };
    let (full, half) = (at_512(RowType::F32), at_512(RowType::F16));
    assert!(full > 0.999 && half < 0.9, "{full} and {half}");
}
