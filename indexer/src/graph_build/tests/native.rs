//! The native builder: recall against the exact scan, hard sets, reproducibility, cancelling, all metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use dyad_command::JobCancellation;
use dyad_index::format::RowType;
use dyad_index::quant::{Codec, Codes};
use dyad_index::search::{DenseRows, VectorRows};
use dyad_index::{Metric, QuerySource};
use proptest::prelude::*;

use super::real;
use super::synthetic::Rows;
use crate::control::{JobControl, JobProgress, Unit};
use crate::error::Error;
use crate::graph_build::native::Native;
use crate::graph_build::repair::{Repaired, repair};
use crate::graph_build::{
    BuildInput, BuildParams, BuiltGraph, GraphBuild, GraphBuilder as _, RecallGate, RecallTarget,
};

pub(super) fn params(threads: usize) -> BuildParams {
    BuildParams {
        m: 16,
        ef_construction: 100,
        seed: 7,
        threads,
    }
}

fn build(rows: &dyn VectorRows, metric: Metric, params: &BuildParams) -> Repaired {
    let codes = Codes::encode(rows, Codec::fit(rows, metric, 0));
    let graph = Native
        .build(
            &BuildInput {
                rows,
                codes: &codes,
                initial: None,
            },
            params,
            JobControl::silent(),
        )
        .unwrap();
    graph.validate(rows.len()).unwrap();
    repair(graph, rows, metric, params, JobControl::silent()).unwrap()
}

pub(super) fn make(
    rows: &dyn VectorRows,
    metric: Metric,
    params: &BuildParams,
    gate: RecallGate<'_>,
) -> Result<BuiltGraph, Error> {
    let row_type = RowType::F32;
    GraphBuild {
        rows,
        metric,
        row_type,
        codec: None,
        builder: &Native,
        params,
        initial: None,
        gate,
        control: JobControl::silent(),
        label: "",
    }
    .run()
}

fn recall(made: &BuiltGraph, ef: usize) -> f64 {
    made.certificate
        .recall
        .iter()
        .find(|point| point.ef == ef)
        .unwrap()
        .recall_at_10
}

fn assert_valid(repaired: &Repaired, n: usize, params: &BuildParams) {
    repaired.graph.validate(n).unwrap();
    assert!(repaired.graph.reachable().iter().all(|reached| *reached));
    for (number, layer) in repaired.graph.layers.iter().enumerate() {
        for &node in &layer.nodes {
            let mut links = layer.neighbours(node).to_vec();
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
}

#[test]
fn clusters_are_found_and_every_vector_is_reachable() {
    let rows = Rows::clustered(4_000, 48, 60, 0.6, 3);
    assert_valid(&build(&rows, Metric::Cosine, &params(2)), 4_000, &params(2));
    let made = make(&rows, Metric::Cosine, &params(2), RecallGate::default()).unwrap();
    assert!(recall(&made, 64) >= 0.95, "{:?}", made.certificate.recall);
    assert_eq!(
        (made.certificate.unreachable, made.certificate.source),
        (0, QuerySource::Documents)
    );
}

/// Not normalised: lengths differ by a factor of 4 within each cluster.
pub(super) fn of_any_length(n: usize) -> Vec<f32> {
    let unit = Rows::clustered(n, 24, 40, 0.6, 5);
    let scaled = (0..n as u32).flat_map(|node| {
        let length = 1.0 + 3.0 * (node % 97) as f32 / 96.0;
        unit.row(node)
            .iter()
            .map(move |value| value * length)
            .collect::<Vec<f32>>()
    });
    scaled.collect()
}

#[test]
fn rows_of_any_length_are_found_by_distance_and_by_inner_product() {
    let values = of_any_length(3_000);
    let rows = DenseRows::new(&values, 24);
    for metric in [Metric::L2, Metric::Dot] {
        assert_valid(&build(&rows, metric, &params(2)), 3_000, &params(2));
        let made = make(&rows, metric, &params(2), RecallGate::default()).unwrap();
        assert!(recall(&made, 64) >= 0.95, "{metric:?} {:?}", made.certificate.recall);
        assert_eq!(made.arranged.codes.codec.dim(), 24, "codes are of the rows as they are");
    }
}

#[test]
fn one_thread_builds_the_same_graph_again_and_the_seed_matters() {
    let rows = Rows::clustered(3_000, 16, 20, 0.4, 1);
    let once = build(&rows, Metric::Cosine, &params(1)).graph;
    assert_eq!(once, build(&rows, Metric::Cosine, &params(1)).graph);
    assert_ne!(
        once,
        build(&rows, Metric::Cosine, &BuildParams { seed: 8, ..params(1) }).graph
    );
}

#[test]
fn threads_cost_no_recall() {
    let rows = Rows::clustered(5_000, 32, 60, 0.6, 2);
    let [one, two] =
        [1, 2].map(|threads| make(&rows, Metric::Cosine, &params(threads), RecallGate::default()).unwrap());
    assert_eq!(two.certificate.unreachable, 0);
    for ef in [16, 64, 128] {
        assert!(
            (recall(&one, ef) - recall(&two, ef)).abs() <= 0.01,
            "ef {ef}: {} {}",
            recall(&one, ef),
            recall(&two, ef)
        );
    }
}

#[test]
fn equal_vectors_and_the_smallest_graphs() {
    for (n, distinct) in [(1, 1), (2, 2), (17, 17), (17, 1), (2_500, 1), (2_500, 3)] {
        for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
            for m in [2, 16] {
                let (rows, params) = (Rows::duplicated(n, 8, distinct, 3), BuildParams { m, ..params(2) });
                assert_valid(&build(&rows, metric, &params), n, &params);
            }
        }
        let made = make(
            &Rows::duplicated(n, 8, distinct, 3),
            Metric::Cosine,
            &params(1),
            RecallGate::default(),
        )
        .unwrap();
        assert!(
            made.certificate.recall.iter().all(|point| point.recall_at_10 > 0.999),
            "{:?}",
            made.certificate
        );
    }
}

#[test]
fn layers_built_from_leaves_are_as_good_as_inserted_ones() {
    let n = 17_000;
    // Insertion reaches 0.974, 0.909, 0.515 and 0.824 with the seed 7. Few links lead from one of the distant clusters
    // to another; of the equal vectors, which are inserted after all, few have more than one link to others, so that
    // one of the 40 is found as a whole or not at all: with other seeds, and from run to run of two threads, their
    // recall is between 0.60 and 0.90. So four builds count together, of one thread each.
    let sets: [(&str, Rows, &[u64], usize, f64); 4] = [
        ("near clusters", Rows::clustered(n, 48, 200, 0.6, 3), &[7], 2, 0.955),
        ("one cluster", Rows::clustered(n, 24, 1, 1.0, 3), &[7], 2, 0.89),
        ("distant clusters", Rows::clustered(n, 32, 300, 0.05, 3), &[7], 2, 0.48),
        ("equal vectors", Rows::duplicated(n, 8, 40, 3), &[0, 3, 7, 11], 1, 0.75),
    ];
    for (name, rows, seeds, threads, least) in sets {
        for metric in [Metric::Cosine, Metric::L2] {
            assert_valid(&build(&rows, metric, &params(2)), n, &params(2));
        }
        let recalls = seeds.iter().map(|&seed| {
            let params = BuildParams {
                seed,
                ..params(threads)
            };
            recall(
                &make(&rows, Metric::Cosine, &params, RecallGate::default()).unwrap(),
                64,
            )
        });
        let mean = recalls.sum::<f64>() / seeds.len() as f64;
        assert!(mean >= least, "{name}: {mean}");
    }
    let rows = Rows::clustered(n, 24, 60, 0.6, 2);
    let once = build(&rows, Metric::Cosine, &params(1)).graph;
    assert_eq!(once, build(&rows, Metric::Cosine, &params(1)).graph);
    assert_ne!(
        once,
        build(&rows, Metric::Cosine, &BuildParams { seed: 8, ..params(1) }).graph
    );
}

/// Cancels once this number of rows is inserted.
struct CancelAt {
    rows: u64,
    seen: AtomicU64,
    cancel: JobCancellation,
}

impl JobProgress for CancelAt {
    fn begin(&self, _stage: &str, _unit: Unit, _total: Option<u64>) {}

    fn advance(&self, steps: u64) {
        if self.seen.fetch_add(steps, Ordering::Relaxed) + steps >= self.rows {
            self.cancel.cancel();
        }
    }

    fn finish(&self) {}

    fn note(&self, _text: &str) {}
}

#[test]
fn cancelling_ends_it_soon() {
    let rows = Rows::clustered(4_000, 16, 20, 0.4, 1);
    let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 0));
    for (at, threads) in [(1, 1), (500, 2), (2_000, 1), (2_000, 2)] {
        let progress = CancelAt {
            rows: at,
            seen: AtomicU64::new(0),
            cancel: JobCancellation::new(),
        };
        let control = JobControl {
            progress: &progress,
            cancel: &progress.cancel,
        };
        let result = Native.build(
            &BuildInput {
                rows: &rows,
                codes: &codes,
                initial: None,
            },
            &params(threads),
            control,
        );
        assert!(matches!(result, Err(Error::Cancelled)), "{at}, {threads} threads");
        let seen = progress.seen.into_inner();
        assert!(seen < at + 100, "{seen} rows were inserted before the build looked");
    }
}

#[test]
fn bad_input_is_an_error() {
    let rows = Rows::clustered(10, 4, 2, 0.3, 1);
    let run = |params: BuildParams, n: usize| {
        let rows = rows.first(n);
        let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 0));
        Native
            .build(
                &BuildInput {
                    rows: &rows,
                    codes: &codes,
                    initial: None,
                },
                &params,
                JobControl::silent(),
            )
            .unwrap_err()
    };
    assert!(matches!(
        run(BuildParams { m: 300, ..params(1) }, 10),
        Error::Parameter { name: "m", .. }
    ));
    assert!(matches!(run(params(1), 0), Error::NoVectors));
}

#[test]
fn a_graph_below_the_target_is_refused() {
    let rows = Rows::clustered(4_000, 48, 60, 0.6, 3);
    let poor = BuildParams {
        m: 2,
        ef_construction: 2,
        ..params(1)
    };
    let gate = |ef| RecallGate {
        questions: None,
        target: Some(RecallTarget::new(0.999, ef).unwrap()),
        ..RecallGate::default()
    };
    let refused = make(&rows, Metric::Cosine, &poor, gate(20)).unwrap_err();
    assert!(
        matches!(&refused, Error::BelowTarget { ef: 20, recall, .. } if *recall > 0.0),
        "{refused}"
    );
    let made = make(&rows, Metric::Cosine, &params(1), gate(300)).unwrap();
    assert!(
        made.certificate
            .recall
            .iter()
            .any(|point| point.ef == 300 && point.recall_at_10 >= 0.999)
    );
}

#[test]
fn real_questions_find_real_embeddings() {
    let Some(data) = real::minilm(20_000) else { return };
    let gate = RecallGate {
        questions: Some(&data.questions),
        ..RecallGate::default()
    };
    let made = make(
        &data.rows,
        Metric::Cosine,
        &BuildParams {
            ef_construction: 200,
            ..params(2)
        },
        gate,
    )
    .unwrap();
    assert_eq!(
        (made.certificate.source, made.certificate.queries),
        (QuerySource::HeldOut, 1_000)
    );
    println!("{:#?}", made.certificate.recall);
    assert!(recall(&made, 64) >= 0.97, "{:?}", made.certificate.recall);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Few distinct values, tight clusters far apart, tiny M: what orphans nodes.
    #[test]
    fn every_vector_is_reachable_on_hard_sets(
        n in 1usize..400,
        clusters in 1usize..12,
        spread in prop::sample::select(vec![0.0f32, 1e-4, 0.05, 0.5]),
        m in 2usize..8,
        threads in 1usize..3,
        l2 in any::<bool>(),
        seed in 0u64..1_000,
    ) {
        let rows = Rows::clustered(n, 8, clusters, spread, seed);
        let params = BuildParams { m, ef_construction: 8, seed, threads };
        assert_valid(&build(&rows, if l2 { Metric::L2 } else { Metric::Cosine }, &params), n, &params);
    }
}
