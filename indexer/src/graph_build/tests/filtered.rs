//! Recall through filters: measured as it is served, for any number of threads.

use std::time::Instant;

use dyad_index::format::RowType;
use dyad_index::ground_truth::CertificateQuestions;
use dyad_index::quant::{Codec, Codes};
use dyad_index::search::{NodeSet, SearchHits, SearchScratch, VectorRows, filter_scans};
use dyad_index::shard::{self, DENSE_FILE, DenseShard, ShardInput, ShardMeta};
use dyad_index::{
    Arranged, BuildRecord, Certificate, GROUND_TRUTH_FILE, GroundTruth, Metric, ModelRecord, Scored, SearchParams,
};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use super::real;
use super::synthetic::Rows;
use crate::control::JobControl;
use crate::graph_build::certify;
use crate::graph_build::certify_filtered::{
    FILTER_SEED, FilteredQuestion, QUESTIONS, SCAN_STEP, SHARES, SearchedShard, certify_filtered,
};
use crate::graph_build::certify_questions::ShardVectors;
use crate::graph_build::native::Native;
use crate::graph_build::{
    BuildInput, BuildParams, GraphBuild, GraphBuilder as _, RecallGate, certify_live, order, repair,
};

const SEED: u64 = 3;

/// A shard that is built, written and opened.
pub(super) fn served(rows: &Rows, params: &BuildParams) -> (tempfile::TempDir, DenseShard) {
    served_by(rows, Metric::Cosine, params)
}

/// The same by any metric.
pub(super) fn served_by(rows: &Rows, metric: Metric, params: &BuildParams) -> (tempfile::TempDir, DenseShard) {
    let build = GraphBuild {
        rows,
        metric,
        row_type: RowType::F32,
        codec: None,
        builder: &Native,
        params,
        initial: None,
        gate: RecallGate::default(),
        control: JobControl::silent(),
        label: "",
    };
    let mut made = build.run().unwrap();
    let (name, fingerprint) = ("m".into(), "f00d".into());
    let model = ModelRecord {
        name,
        fingerprint,
        dim: rows.dim(),
        full_dim: None,
        metric,
        max_tokens: 64,
    };
    let BuildParams {
        m,
        ef_construction,
        seed,
        threads,
    } = *params;
    let build = BuildRecord {
        builder: "native".into(),
        m,
        ef_construction,
        seed,
        threads,
        tool: "test".into(),
    };
    let keys: Vec<String> = (0..rows.len()).map(|node| format!("{node:06}")).collect();
    made.arranged.layout.sort_copies(|node| &keys[node as usize]);
    let input = ShardInput {
        meta: &ShardMeta { model, build },
        vectors: rows,
        row_type: RowType::F32,
        arranged: &made.arranged,
        keys: &keys,
        certificate: &made.certificate,
    };
    let dir = tempfile::tempdir().unwrap();
    shard::write(&dir.path().join(DENSE_FILE), &input).unwrap();
    made.ground_truth.write(&dir.path().join(GROUND_TRUTH_FILE)).unwrap();
    let shard = DenseShard::open(&dir.path().join(DENSE_FILE)).unwrap();
    (dir, shard)
}

/// Share of the exact hits that a search through the shard's own file finds, mean over questions.
fn recall(shard: &DenseShard, asked: &[u32], params: &SearchParams<'_>) -> (f64, bool) {
    let one = |node: &u32| {
        let mut row = Vec::new();
        shard.rows().decode(*node, &mut row);
        let found = shard.search(&row, params);
        let exact = shard.search_exact(&row, params.k, params.allowed).hits;
        let last = exact.last().unwrap().score;
        let near = found.hits.iter().filter(|hit: &&Scored| hit.score >= last).count();
        assert_eq!(exact.len(), params.k);
        (near as f64 / params.k as f64, found.cost.scans == 1)
    };
    let all: Vec<(f64, bool)> = asked.par_iter().map(one).collect();
    (
        all.iter().map(|one| one.0).sum::<f64>() / all.len() as f64,
        all.iter().all(|one| one.1),
    )
}

/// Checks every point of the table, and returns the widths measured for each share.
fn check(shard: &DenseShard, certificate: &Certificate, live: &NodeSet) -> Vec<Vec<usize>> {
    let truth = GroundTruth::open(&shard.path().with_file_name(GROUND_TRUTH_FILE), 8, shard.len()).unwrap();
    let CertificateQuestions::Nodes(all) = &truth.questions else {
        panic!("documents are the questions")
    };
    let step = all.len().div_ceil(QUESTIONS);
    let asked: Vec<(usize, u32)> = all.iter().copied().enumerate().step_by(step).collect();
    let mut widths = Vec::new();
    for (table, share) in certificate.filtered.as_ref().unwrap().iter().zip(SHARES) {
        assert!((table.share - share).abs() < 1e-12);
        let mut allowed = NodeSet::new(shard.len());
        allowed
            .extend(order::choose_numbers(shard.len(), share, SEED ^ FILTER_SEED).filter(|node| live.contains(*node)));
        for (_, node) in &asked {
            _ = allowed.remove(*node);
        }
        let known = |at: usize| {
            let nearest = &truth.neighbours[at * truth.depth()..(at + 1) * truth.depth()];
            nearest.iter().filter(|node| allowed.contains(**node)).count()
        };
        let live = (live.len() < shard.len()).then_some(live);
        for (place, point) in table.recall.iter().enumerate() {
            let measured = |k: usize| {
                let params = SearchParams {
                    allowed: Some(&allowed),
                    live,
                    certificate: Some(certificate),
                    adaptive: true,
                    ..SearchParams::new(k, point.ef)
                };
                let scans = filter_scans(point.ef, allowed.len(), shard.len());
                let asked = asked.iter().step_by(if scans { SCAN_STEP } else { 1 });
                let of: Vec<u32> = asked.filter(|(at, _)| known(*at) >= k).map(|(_, node)| *node).collect();
                recall(shard, &of, &params)
            };
            let (at_10, scanned) = measured(10);
            assert!(
                (at_10 - point.recall_at_10).abs() < 1e-9,
                "{share} at {point:?}: {at_10}"
            );
            if let Some(at_100) = point.recall_at_100 {
                assert!((measured(100).0 - at_100).abs() < 1e-9, "{share} at {point:?}");
            }
            let last = place + 1 == table.recall.len();
            assert!(
                !scanned || last,
                "{share}: wider beams than {} are scanned too",
                point.ef
            );
            assert!(scanned || !last || point.ef == 512, "{share}: the last point is a scan");
            assert_eq!(
                point.recall_at_100.is_some(),
                point.ef > 100 || scanned,
                "{share}: {point:?}"
            );
        }
        widths.push(table.recall.iter().map(|point| point.ef).collect());
    }
    widths
}

#[test]
fn recall_through_filters_is_what_the_shard_serves_with_and_without_deletions() {
    let rows = Rows::clustered(90_000, 8, 300, 0.7, 2);
    let params = BuildParams {
        m: 6,
        ef_construction: 12,
        seed: SEED,
        threads: 2,
    };
    let (_dir, shard) = served(&rows, &params);
    let mut live = NodeSet::new(shard.len());
    live.extend(0..shard.len() as u32);
    // A quarter: only allowed nodes are candidates. Fewer are always scanned, and so are all for wider beams.
    let expected = [vec![16, 32, 64], vec![16, 32]];
    assert_eq!(check(&shard, shard.certificate(), &live), expected);
    let wide = shard.certificate().filtered.as_ref().unwrap()[0].recall.last().unwrap();
    assert!(wide.recall_at_10 > 0.99, "{wide:?}");

    let truth = GroundTruth::open(&shard.path().with_file_name(GROUND_TRUTH_FILE), 8, shard.len()).unwrap();
    (0..shard.len() as u32)
        .filter(|node| node % 5 == 0)
        .for_each(|node| _ = live.remove(node));
    let certificate = certify_live(&shard, &truth, &live, JobControl::silent()).unwrap();
    let widths = check(&shard, &certificate, &live);
    assert_eq!(
        widths.first().map(Vec::as_slice),
        Some([16, 32, 64].as_slice()),
        "{widths:?}"
    );

    // Nearly all that is near one question is deleted: the margins of the others reach as far as before.
    live.extend(0..shard.len() as u32);
    truth.neighbours[150..truth.depth()]
        .iter()
        .for_each(|node| _ = live.remove(*node));
    let certificate = certify_live(&shard, &truth, &live, JobControl::silent()).unwrap();
    let deepest = certificate.calibration.last().unwrap().rank;
    assert!(deepest >= truth.depth() / 4, "{deepest} of {}", truth.depth());
}

#[test]
fn the_same_graph_has_the_same_certificate_for_any_number_of_threads() {
    let rows = Rows::clustered(26_000, 8, 80, 0.7, 2);
    let params = BuildParams {
        m: 6,
        ef_construction: 12,
        seed: SEED,
        threads: 1,
    };
    let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 0));
    let input = BuildInput {
        rows: &rows,
        codes: &codes,
        initial: None,
    };
    let graph = Native.build(&input, &params, JobControl::silent()).unwrap();
    let repaired = repair(graph, &rows, Metric::Cosine, &params, JobControl::silent()).unwrap();
    let arranged = Arranged::new(&repaired.graph, &codes).unwrap();
    let rows = ShardVectors {
        given: &rows,
        served_as: RowType::F16,
        groups: None,
    };
    let [one, three] = [1, 3].map(|threads| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let gate = RecallGate::default();
        pool.install(|| certify(&repaired, &arranged, rows, &gate, SEED, JobControl::silent()))
            .unwrap()
    });
    assert_eq!(one, three);
    let filtered = one.certificate.filtered.unwrap();
    assert_eq!(filtered.iter().map(|table| table.recall.len()).collect::<Vec<_>>(), [2]);
}

/// `cargo test --profile ci -p dyad-indexer --lib -- --ignored --nocapture what_filters_add`
#[test]
#[ignore = "a measurement"]
fn what_filters_add_to_a_build_and_to_a_delete() {
    let Some(real) = real::minilm(100_000) else { return };
    let params = BuildParams {
        m: 16,
        ef_construction: 200,
        seed: SEED,
        threads: 2,
    };
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let started = Instant::now();
    let (_dir, shard) = pool.install(|| served(&real.rows, &params));
    let built = started.elapsed();
    let truth = GroundTruth::open(&shard.path().with_file_name(GROUND_TRUTH_FILE), 384, shard.len()).unwrap();
    let CertificateQuestions::Nodes(nodes) = &truth.questions else {
        panic!("documents are the questions")
    };
    let lists: Vec<Vec<Scored>> = truth
        .neighbours
        .chunks(truth.depth())
        .zip(nodes)
        .map(|(nearest, own)| {
            let score = |&node: &u32| Metric::Cosine.score(real.rows.row(*own), real.rows.row(node));
            nearest
                .iter()
                .map(|node| Scored {
                    node: *node,
                    score: score(node),
                })
                .collect()
        })
        .collect();
    let asked: Vec<FilteredQuestion<'_>> = nodes
        .iter()
        .zip(&lists)
        .map(|(node, nearest)| FilteredQuestion {
            row: real.rows.row(*node),
            same: std::slice::from_ref(node),
            nearest,
        })
        .collect();
    let search = |queries: &[&[f32]], params: &SearchParams<'_>, _: &mut SearchScratch| {
        let mut all = vec![SearchHits::default(); queries.len()];
        shard.search_batch(queries, params, |number, hits| all[number] = hits);
        all
    };
    let searched = SearchedShard {
        nodes: shard.len(),
        live: None,
        certificate: shard.certificate(),
        seed: SEED,
    };
    let started = Instant::now();
    let filtered = pool
        .install(|| certify_filtered(&asked, &searched, search, JobControl::silent()))
        .unwrap();
    let through_filters = started.elapsed();
    let mut live = NodeSet::new(shard.len());
    live.extend((0..shard.len() as u32).filter(|node| node % 10 > 0));
    let started = Instant::now();
    pool.install(|| certify_live(&shard, &truth, &live, JobControl::silent()))
        .unwrap();
    let deleted = started.elapsed();
    eprintln!("built in {built:?}, of which {through_filters:?} through filters; measured again in {deleted:?}");
    eprintln!("{:?}", shard.certificate().recall);
    for table in &filtered {
        eprintln!("{table:?}");
    }
}
