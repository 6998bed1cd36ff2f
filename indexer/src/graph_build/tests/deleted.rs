//! What is claimed of a shard between a deletion and the next measurement of recall.

use dyad_index::ground_truth::{CertificateQuestions, NearestNodes};
use dyad_index::search::NodeSet;
use dyad_index::shard::DenseShard;
use dyad_index::{Certificate, GROUND_TRUTH_FILE, GroundTruth, SearchParams};
use rayon::prelude::*;

use super::filtered::served;
use super::synthetic::Rows;
use crate::control::JobControl;
use crate::graph_build::calibration::invert_order;
use crate::graph_build::{BuildParams, certify_live};

/// A search as the certificate measures it.
#[derive(Clone, Copy)]
struct SearchedWidth {
    k: usize,
    ef: usize,
    adaptive: bool,
}

/// Recall of adaptive searches for the shard's questions among live nodes, served with the certificate of the whole
/// shard; and whether nearly all of them walked the graph.
fn recall(shard: &DenseShard, questions: &[u32], live: &NodeSet, k: usize, ef: usize) -> (f64, bool) {
    recall_by(
        shard,
        shard.certificate(),
        questions,
        live,
        SearchedWidth { k, ef, adaptive: true },
    )
}

/// The same, served with a certificate.
fn recall_by(
    shard: &DenseShard,
    certificate: &Certificate,
    questions: &[u32],
    live: &NodeSet,
    SearchedWidth { k, ef, adaptive }: SearchedWidth,
) -> (f64, bool) {
    let slots = invert_order(shard.graph().order());
    let one = |node: &u32| {
        let mut row = Vec::new();
        shard.rows().decode(*node, &mut row);
        let left_out = [slots[*node as usize]];
        let params = SearchParams {
            adaptive,
            left_out: Some(&left_out),
            live: (live.len() < shard.len()).then_some(live),
            certificate: Some(certificate),
            ..SearchParams::new(k, ef)
        };
        let mut exact = shard.search_exact(&row, k + 1, Some(live)).hits;
        exact.retain(|hit| hit.node != *node);
        exact.truncate(k);
        let found = shard.search(&row, &params);
        let last = exact.last().unwrap().score;
        let near = found.hits.iter().filter(|hit| hit.score >= last).count();
        (near as f64 / exact.len() as f64, found.cost.scans == 0)
    };
    let all: Vec<(f64, bool)> = questions.par_iter().map(one).collect();
    let walked = all.iter().filter(|one| one.1).count();
    // One whose nearest are all deleted may be given up for a scan.
    (
        all.iter().map(|one| one.0).sum::<f64>() / all.len() as f64,
        walked as f64 > 0.99 * all.len() as f64,
    )
}

#[test]
fn recall_falls_by_no_more_than_the_share_of_the_nearest_that_was_deleted() {
    let rows = Rows::clustered(60_000, 8, 200, 0.7, 2);
    let params = BuildParams {
        m: 6,
        ef_construction: 12,
        seed: 3,
        threads: 2,
    };
    let (_dir, shard) = served(&rows, &params);
    let path = shard.path().with_file_name(GROUND_TRUTH_FILE);
    let truth = GroundTruth::open(&path, 8, shard.len()).unwrap();
    let nearest = NearestNodes::open(&path, 8, shard.len()).unwrap();
    let CertificateQuestions::Nodes(questions) = &truth.questions else {
        panic!("documents are the questions")
    };
    let list = |at: usize| &truth.neighbours[at * truth.depth()..(at + 1) * truth.depth()];
    let every = |step: usize| (0..shard.len() as u32).step_by(step).collect::<Vec<u32>>();
    let first_of_many: Vec<u32> = (0..60).flat_map(|at| list(at)[..3].to_vec()).collect();
    let around_one = list(7)[..900].to_vec();
    let mut whole = NodeSet::new(shard.len());
    whole.extend(0..shard.len() as u32);
    for deleted in [every(200), every(30), first_of_many, around_one] {
        let mut live = whole.clone();
        let count = deleted.into_iter().filter(|node| live.remove(*node)).count();
        let lost = nearest.most_lost(|node| whole.contains(node), &live, count);
        // In two steps it is at most as little as in one.
        let mut half = whole.clone();
        let gone: Vec<u32> = whole.iter().filter(|node| !live.contains(*node)).collect();
        gone[..count / 2].iter().for_each(|node| _ = half.remove(*node));
        let steps = nearest.most_lost(|node| whole.contains(node), &half, count / 2)
            + nearest.most_lost(|node| half.contains(node), &live, count - count / 2);
        assert!(lost > 0.0 && lost <= steps + 1e-9, "{count}: {lost} and {steps}");
        for (k, ef) in [(10, 16), (10, 32), (100, 128)] {
            let [(before, _), (after, walked)] = [&whole, &live].map(|live| recall(&shard, questions, live, k, ef));
            assert!(
                after >= before - lost - 1e-9,
                "{count}, k {k}, ef {ef}: {before} {after} {lost}"
            );
            assert!(ef > 16 || (walked && before < 0.99), "{count}: {before}, {walked}");
        }
    }
}

/// From the width on at which all live nodes are scanned, one measurement stands for the wider ones.
#[test]
fn each_width_has_the_recall_that_is_served_whether_it_walks_or_scans() {
    let rows = Rows::clustered(20_000, 8, 100, 0.7, 2);
    let params = BuildParams {
        m: 6,
        ef_construction: 12,
        seed: 3,
        threads: 2,
    };
    let (_dir, shard) = served(&rows, &params);
    let truth = GroundTruth::open(&shard.path().with_file_name(GROUND_TRUTH_FILE), 8, shard.len()).unwrap();
    let CertificateQuestions::Nodes(questions) = &truth.questions else {
        panic!("documents are the questions")
    };
    let mut live = NodeSet::new(shard.len());
    live.extend((0..shard.len() as u32).filter(|node| node % 9 != 4));
    let certificate = certify_live(&shard, &truth, &live, JobControl::silent()).unwrap();
    // As it was measured, and not as a beam where that is better.
    let measured_by = Certificate {
        recall: Vec::new(),
        adaptive: Vec::new(),
        ..certificate.clone()
    };
    for (points, adaptive) in [(&certificate.recall, false), (&certificate.adaptive, true)] {
        let mut walks = 0;
        for point in points {
            let served = |k| {
                recall_by(
                    &shard,
                    &measured_by,
                    questions,
                    &live,
                    SearchedWidth {
                        k,
                        ef: point.ef,
                        adaptive,
                    },
                )
            };
            let (at_10, walked) = served(10);
            assert!((at_10 - point.recall_at_10).abs() < 1e-9, "{point:?}: {at_10}");
            if let Some(at_100) = point.recall_at_100 {
                let (got, _) = served(100);
                assert!((got - at_100).abs() < 1e-9, "{point:?}: {got}");
            }
            assert_eq!(point.recall_at_100.is_some(), point.ef > 100);
            walks += usize::from(walked);
        }
        assert!(walks > 0 && walks < points.len() - 2, "{walks} widths walk the graph");
    }
}

#[test]
fn where_the_nearest_are_not_known_all_that_was_deleted_was_near() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(GROUND_TRUTH_FILE);
    let lost = |neighbours: Vec<u32>, nodes: usize, deleted: &[u32]| {
        let questions = CertificateQuestions::Vectors {
            dim: 1,
            values: vec![0.0; 2],
        };
        GroundTruth {
            questions,
            neighbours,
            nodes,
        }
        .write(&path)
        .unwrap();
        let nearest = NearestNodes::open(&path, 1, nodes).unwrap();
        let mut live = NodeSet::new(nodes);
        live.extend((0..nodes as u32).filter(|node| !deleted.contains(node)));
        nearest.most_lost(|_| true, &live, deleted.len())
    };
    let close = |got: f64, expected: f64| assert!((got - expected).abs() < 1e-12, "{got} is not {expected}");
    // No lists, as in shards of earlier releases; lists of three of a thousand; lists of all.
    close(lost(Vec::new(), 1000, &[5, 6]), 0.2);
    close(lost(Vec::new(), 1000, &(0..200).collect::<Vec<_>>()), 1.0);
    close(lost(vec![0, 1, 2, 7, 8, 9], 1000, &[1, 2]), 0.2);
    close(lost(vec![0, 1, 2, 2, 1, 0], 3, &[1]), 1.0 / 3.0);
    close(
        lost((0..200).chain(400..600).collect(), 1000, &[3, 50, 150, 401, 402, 999]),
        0.15,
    );
}
