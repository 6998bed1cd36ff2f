//! The builder on synthetic and real vectors: recall against the crate's own search, reachability, reproducibility.

use dyad_command::JobCancellation;
use dyad_index::quant::{Codec, Codes};
use dyad_index::search::{HnswScratch, VectorRows, flat, hnsw_search};
use dyad_index::{Graph, Metric, Scored};
use proptest::prelude::*;

use super::synthetic::Rows;
use super::{cancelled, real};
use crate::control::JobControl;
use crate::error::Error;
use crate::graph_build::freeze::freeze;
use crate::graph_build::hnsw_rs::{HnswRsBuilder, HnswRsInt8, NodeDistance, export, insert_all};
use crate::graph_build::repair::{Repaired, repair};
use crate::graph_build::{BuildInput, BuildParams, GraphBuilder};

fn params(threads: usize) -> BuildParams {
    BuildParams {
        m: 16,
        ef_construction: 100,
        seed: 7,
        threads,
    }
}

fn build(rows: &dyn VectorRows, params: &BuildParams) -> Repaired {
    let codes = Codes::encode(rows, Codec::fit(rows, Metric::Cosine, 0));
    let graph = HnswRsBuilder
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
    repair(graph, rows, Metric::Cosine, params, JobControl::silent()).unwrap()
}

fn by_graph(rows: &dyn VectorRows, graph: &Graph, query: &[f32], ef: usize, scratch: &mut HnswScratch) -> Vec<Scored> {
    hnsw_search(rows, graph, query, Metric::Cosine, ef, scratch).hits
}

/// All rows after the first `n` are questions. They are rows too, because the crate's distance looks numbers up.
struct First<'a>(&'a Rows, usize);

impl VectorRows for First<'_> {
    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn len(&self) -> usize {
        self.1
    }

    fn row(&self, node: u32) -> &[f32] {
        self.0.row(node)
    }
}

/// Recall@10 of the frozen graph must be at least that of the crate's own search at every `ef`.
fn assert_no_worse_than_the_crate(all: &Rows, n: usize, params: &BuildParams) {
    let rows = First(all, n);
    let own = insert_all(n, NodeDistance::of_rows(&rows), params, JobControl::silent()).unwrap();
    let frozen = freeze(&export(&own, n), &rows, params);
    let repaired = repair(frozen, &rows, Metric::Cosine, params, JobControl::silent()).unwrap();
    assert!(repaired.graph.reachable().iter().all(|reached| *reached));
    let questions: Vec<(u32, Vec<u32>)> = (n as u32..all.len() as u32)
        .map(|question| {
            let exact = flat(&rows, all.row(question), 10, Metric::Cosine, None);
            (question, exact.iter().map(|hit| hit.node).collect())
        })
        .collect();
    let mut scratch = HnswScratch::default();
    for ef in [10, 16, 32, 64, 128] {
        let (mut by_crate, mut by_us) = (0, 0);
        for &(question, ref exact) in &questions {
            let hits = own.search(&[question], 10, ef);
            by_crate += hits.iter().filter(|hit| exact.contains(&(hit.d_id as u32))).count();
            let hits = by_graph(&rows, &repaired.graph, all.row(question), ef, &mut scratch);
            by_us += hits.iter().take(10).filter(|hit| exact.contains(&hit.node)).count();
        }
        let share = |found: usize| found as f64 / (10 * questions.len()) as f64;
        println!(
            "ef {ef}: recall@10 {:.4} frozen, {:.4} by hnsw_rs",
            share(by_us),
            share(by_crate)
        );
        assert!(
            by_us >= by_crate,
            "ef {ef}: {by_us} of {}, hnsw_rs {by_crate}",
            10 * questions.len()
        );
    }
}

#[test]
fn recall_is_no_worse_than_the_crates_own_on_clusters() {
    assert_no_worse_than_the_crate(&Rows::clustered(4_300, 32, 60, 0.6, 3), 4_000, &params(1));
}

#[test]
fn recall_is_no_worse_than_the_crates_own_on_real_embeddings() {
    // The 2,000 rows after the first n are the questions: with a few hundred the difference is below the noise.
    let Some(data) = real::minilm(12_000) else { return };
    assert_no_worse_than_the_crate(&data.rows, 10_000, &params(1));
}

#[test]
fn int8_scores_cost_next_to_no_recall() {
    let rows = Rows::clustered(4_000, 32, 60, 0.6, 3);
    let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 0));
    let input = BuildInput {
        rows: &rows,
        codes: &codes,
        initial: None,
    };
    let recall = |builder: &dyn GraphBuilder| {
        let graph = builder.build(&input, &params(1), JobControl::silent()).unwrap();
        let repaired = repair(graph, &rows, Metric::Cosine, &params(1), JobControl::silent()).unwrap();
        assert!(repaired.graph.reachable().iter().all(|reached| *reached));
        let mut scratch = HnswScratch::default();
        let found = (0..4_000u32).step_by(20).map(|node| {
            let exact = flat(&rows, rows.row(node), 10, Metric::Cosine, None);
            let hits = by_graph(&rows, &repaired.graph, rows.row(node), 32, &mut scratch);
            hits.iter().take(10).filter(|hit| exact.contains(hit)).count()
        });
        found.sum::<usize>() as f64 / 2_000.0
    };
    let (exact, int8) = (recall(&HnswRsBuilder), recall(&HnswRsInt8));
    assert!(int8 >= exact - 0.01, "{int8}, exactly {exact}");
}

#[test]
fn other_metrics_are_refused_by_name() {
    let rows = Rows::clustered(10, 4, 2, 0.3, 1);
    let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::L2, 0));
    let builders: [&dyn GraphBuilder; 2] = [&HnswRsBuilder, &HnswRsInt8];
    for builder in builders {
        let refused = builder
            .build(
                &BuildInput {
                    rows: &rows,
                    codes: &codes,
                    initial: None,
                },
                &params(1),
                JobControl::silent(),
            )
            .unwrap_err();
        assert!(
            refused.to_string().contains(&format!("`{}`", builder.name())),
            "{refused}"
        );
    }
}

#[test]
fn one_thread_builds_the_same_graph_again_and_the_seed_matters() {
    let rows = Rows::clustered(1_500, 16, 20, 0.4, 1);
    let once = build(&rows, &params(1));
    assert_eq!(once.graph, build(&rows, &params(1)).graph);
    assert_ne!(once.graph, build(&rows, &BuildParams { seed: 8, ..params(1) }).graph);
}

#[test]
fn threads_insert_every_row() {
    let rows = Rows::clustered(3_000, 16, 20, 0.4, 1);
    let repaired = build(&rows, &params(3));
    repaired.graph.validate(3_000).unwrap();
    assert!(repaired.graph.reachable().iter().all(|reached| *reached));
}

#[test]
fn the_largest_m_and_the_smallest_graphs() {
    for n in [1, 2, 3] {
        for m in [2, 256] {
            let rows = Rows::clustered(n, 4, 2, 0.3, 1);
            let repaired = build(
                &rows,
                &BuildParams {
                    m,
                    ef_construction: 1,
                    ..params(2)
                },
            );
            repaired.graph.validate(n).unwrap();
            assert!(repaired.graph.reachable().iter().all(|reached| *reached));
        }
    }
}

#[test]
fn bad_input_and_cancelling_are_errors() {
    let rows = Rows::clustered(10, 4, 2, 0.3, 1);
    let run = |params: BuildParams, cancel: bool, n: usize| {
        let rows = rows.first(n);
        let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 0));
        let input = BuildInput {
            rows: &rows,
            codes: &codes,
            initial: None,
        };
        let stop = if cancel { cancelled() } else { JobCancellation::new() };
        HnswRsBuilder
            .build(
                &input,
                &params,
                JobControl {
                    cancel: &stop,
                    ..JobControl::silent()
                },
            )
            .unwrap_err()
    };
    assert!(matches!(
        run(BuildParams { m: 300, ..params(1) }, false, 10),
        Error::Parameter { name: "m", .. }
    ));
    assert!(matches!(run(params(1), false, 0), Error::NoVectors));
    assert!(matches!(run(params(1), true, 10), Error::Cancelled));
    assert!(matches!(run(params(2), true, 10), Error::Cancelled));
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
        seed in 0u64..1_000,
    ) {
        let rows = Rows::clustered(n, 8, clusters, spread, seed);
        let params = BuildParams { m, ef_construction: 8, seed, threads };
        let repaired = build(&rows, &params);
        repaired.graph.validate(n).unwrap();
        prop_assert!(repaired.graph.reachable().iter().all(|reached| *reached));
        for (number, layer) in repaired.graph.layers.iter().enumerate() {
            for &node in &layer.nodes {
                prop_assert!(layer.neighbours(node).len() <= params.cap(number));
            }
        }
    }
}
