//! Graphs for inner products of rows of any length.

use dyad_index::format::RowType;
use dyad_index::quant::{Codec, Codes};
use dyad_index::search::{DenseRows, VectorRows as _};
use dyad_index::{Arranged, Certificate, Metric, RecallPoint};

use super::native::{make, of_any_length, params};
use super::synthetic::Rows;
use crate::control::JobControl;
use crate::error::Error;
use crate::graph_build::certify_questions::ShardVectors;
use crate::graph_build::hnsw_rs::{HnswRsBuilder, HnswRsInt8};
use crate::graph_build::native::Native;
use crate::graph_build::questions::QuestionVectors;
use crate::graph_build::repair::repair;
use crate::graph_build::{BuildInput, GraphBuild, GraphBuilder, RecallGate, certify};

const N: usize = 6_000;
const DIM: usize = 24;

fn at(certificate: &Certificate, ef: usize) -> &RecallPoint {
    certificate.recall.iter().find(|point| point.ef == ef).unwrap()
}

/// Unit vectors, as a question's length changes no ranking.
fn questions() -> QuestionVectors {
    let unit = Rows::clustered(N, DIM, 40, 0.6, 5);
    QuestionVectors::new((0..200).flat_map(|at| unit.row(at * 29).to_vec()).collect(), DIM)
}

/// A few rows are several times as long as most.
fn of_skewed_lengths() -> Vec<f32> {
    let unit = Rows::clustered(N, DIM, 40, 0.6, 5);
    let scaled = |node: usize| {
        let share = (node * 37 % N) as f32 / N as f32;
        unit.row(node as u32)
            .iter()
            .map(move |value| value * (1.0 + 3.0 * share.powi(4)))
            .collect::<Vec<f32>>()
    };
    (0..N).flat_map(scaled).collect()
}

#[test]
fn a_graph_of_evened_lengths_finds_more_than_one_by_inner_product_alone() {
    let values = of_skewed_lengths();
    let (rows, questions, control) = (DenseRows::new(&values, DIM), questions(), JobControl::silent());
    let gate = RecallGate {
        questions: Some(&questions),
        ..RecallGate::default()
    };
    let made = make(&rows, Metric::Dot, &params(2), gate).unwrap().certificate;

    let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Dot, 7));
    let input = BuildInput {
        rows: &rows,
        codes: &codes,
        initial: None,
    };
    let graph = Native.build(&input, &params(2), control).unwrap();
    let repaired = repair(graph, &rows, Metric::Dot, &params(2), control).unwrap();
    let arranged = Arranged::new(&repaired.graph, &codes).unwrap();
    let served = ShardVectors {
        given: &rows,
        served_as: RowType::F32,
        groups: None,
    };
    let other = certify(&repaired, &arranged, served, &gate, 7, control)
        .unwrap()
        .certificate;
    let (made, other) = (at(&made, 32), at(&other, 32));
    // Measured: .993 for 479 scores, and .964 for 494.
    assert!(
        made.recall_at_10 >= 0.98 && made.recall_at_10 >= other.recall_at_10 + 0.01,
        "{made:?} {other:?}"
    );
    assert!(
        made.distance_computations < 1.1 * other.distance_computations,
        "{made:?} {other:?}"
    );
}

#[test]
fn builders_that_compare_rows_themselves_refuse_inner_products() {
    let values = of_any_length(500);
    let rows = DenseRows::new(&values, DIM);
    for builder in [&HnswRsBuilder as &dyn GraphBuilder, &HnswRsInt8] {
        let build = GraphBuild {
            rows: &rows,
            metric: Metric::Dot,
            row_type: RowType::F32,
            codec: None,
            builder,
            params: &params(1),
            initial: None,
            gate: RecallGate::default(),
            control: JobControl::silent(),
            label: "",
        };
        assert!(matches!(build.run(), Err(Error::BuilderMetric { .. })));
    }
}
