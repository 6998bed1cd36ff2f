//! Documents with the same vector: all of them are found, in the order of their keys, whatever the filter and whichever
//! way a search goes.

use std::collections::HashSet;

use dyad_index::search::{NodeSet, SlotLinks as _, VectorRows as _};
use dyad_index::shard::DenseShard;
use dyad_index::{GROUND_TRUTH_FILE, Metric, Scored, SearchParams};

use super::filtered::served_by;
use super::initial::make;
use super::synthetic::Rows;
use crate::control::JobControl;
use crate::graph_build::{BuildParams, InitialGraph, certify_live, stored_ground_truth};

const DOCUMENTS: usize = 3_000;
const DIM: usize = 24;
const PARAMS: BuildParams = BuildParams {
    m: 12,
    ef_construction: 80,
    seed: 5,
    threads: 2,
};

/// Of every ten documents one has the vector of document 7, and two have that of an earlier one.
fn original(document: usize) -> usize {
    match document % 10 {
        3 => 7,
        4 | 5 => document / 100 * 10,
        _ => document,
    }
}

fn rows() -> Rows {
    let distinct = Rows::clustered(DOCUMENTS, DIM, 60, 0.8, 4);
    let values = (0..DOCUMENTS)
        .flat_map(|document| distinct.row(original(document) as u32).to_vec())
        .collect();
    Rows::of(values, DIM)
}

/// Hits of a beam that is wide enough to find all that there is are those of the exact scan; a scan of codes may lose a
/// vector, and all of its documents.
fn assert_exact(shard: &DenseShard, rows: &Rows, params: &SearchParams<'_>, among: &NodeSet) -> usize {
    let mut scans = 0;
    for node in (0..DOCUMENTS as u32).step_by(41).chain([7, 13, 23]) {
        let query = rows.row(node);
        let mut exact = shard.search_exact(query, params.k, Some(among)).hits;
        let found = shard.search(query, params);
        let vectors = |hits: &[Scored]| hits.iter().map(|hit| hit.score.to_bits()).collect::<HashSet<u32>>();
        if found.cost.scans > 0 {
            scans += 1;
            let (all, some) = (vectors(&exact), vectors(&found.hits));
            assert!(
                all.difference(&some).count() <= 1,
                "a scan loses {:?}",
                all.difference(&some)
            );
            exact = shard.search_exact(query, DOCUMENTS, Some(among)).hits;
            exact.retain(|hit| some.contains(&hit.score.to_bits()));
            exact.truncate(params.k);
        }
        assert_eq!(
            found.hits,
            exact,
            "{} hits of document {node} among {}",
            params.k,
            among.len()
        );
    }
    scans
}

#[test]
fn every_document_of_a_vector_is_found() {
    let rows = rows();
    let hash = |node: u32| node.wrapping_mul(2_654_435_761) >> 8;
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        let (_dir, shard) = served_by(&rows, metric, &PARAMS);
        let links = shard.graph();
        let copies = (0..DOCUMENTS as u32)
            .filter(|slot| links.representative(*slot) != *slot)
            .count();
        assert_eq!(
            copies,
            (0..DOCUMENTS)
                .filter(|document| original(*document) != *document)
                .count()
        );
        assert_eq!(links.unreached(&dyad_index::Never), Some(0));
        for k in [1, 10, 40] {
            let all = NodeSet::all(DOCUMENTS);
            assert_eq!(
                assert_exact(&shard, &rows, &SearchParams::new(k, 600), &all),
                0,
                "no scan"
            );
            // Half of them, whether by a filter or because the others are deleted; few enough for a scan; and copies
            // without what they are copies of.
            for divisor in [2, 6] {
                let mut some = NodeSet::new(DOCUMENTS);
                some.extend((0..DOCUMENTS as u32).filter(|node| hash(*node) % divisor == 0));
                let filtered = SearchParams {
                    allowed: Some(&some),
                    ..SearchParams::new(k, 600)
                };
                let scans = assert_exact(&shard, &rows, &filtered, &some);
                assert!(divisor == 2 || scans > 0, "{scans}");
                let live = SearchParams {
                    live: Some(&some),
                    ..SearchParams::new(k, 600)
                };
                assert_exact(&shard, &rows, &live, &some);
            }
            let mut copies = NodeSet::new(DOCUMENTS);
            copies.extend((0..DOCUMENTS as u32).filter(|node| original(*node as usize) != *node as usize));
            let filtered = SearchParams {
                allowed: Some(&copies),
                ..SearchParams::new(k, 600)
            };
            assert_exact(&shard, &rows, &filtered, &copies);
        }
    }
}

#[test]
fn the_certificate_of_a_build_is_what_the_shard_serves() {
    // One document in a hundred is zero, as the nearest of many questions under Euclidean distance.
    let mut rows = rows();
    let zeros = |node: &u32| node % 100 == 1;
    let row = |node: u32| {
        if zeros(&node) {
            vec![0.0; DIM]
        } else {
            rows.row(node).to_vec()
        }
    };
    rows = Rows::of((0..DOCUMENTS as u32).flat_map(row).collect(), DIM);
    for metric in [Metric::Dot, Metric::L2] {
        let (_dir, shard) = served_by(&rows, metric, &PARAMS);
        let truth = stored_ground_truth(&shard, &shard.path().with_file_name(GROUND_TRUTH_FILE)).unwrap();
        let served = certify_live(&shard, &truth, &NodeSet::all(DOCUMENTS), JobControl::silent()).unwrap();
        let built = shard.certificate();
        for (built, served) in built.recall.iter().zip(&served.recall) {
            assert_eq!(built, served, "{metric:?}: beams");
        }
        for (built, served) in built.adaptive.iter().zip(&served.adaptive) {
            assert_eq!(built, served, "{metric:?}: adaptive searches");
        }
        assert_eq!(built.filtered, served.filtered, "{metric:?}");
    }
}

#[test]
fn a_build_starts_from_a_graph_whose_representatives_are_deleted() {
    let rows = rows();
    let (_dir, shard) = served_by(&rows, Metric::Cosine, &PARAMS);
    // Of most vectors with copies the first document is gone, and another has its links.
    let kept: Vec<u32> = (0..DOCUMENTS as u32)
        .filter(|node| *node != 7 && node % 20 != 0)
        .collect();
    let values = kept.iter().flat_map(|node| rows.row(*node).to_vec()).collect();
    let left = Rows::of(values, DIM);
    let initial = InitialGraph::new(shard.graph(), &kept).unwrap();
    let (grown, fresh) = (make(&left, Some(&initial), None), make(&left, None, None));
    assert_eq!(
        (grown.certificate.unreachable, grown.certificate.vectors),
        (0, kept.len() as u64)
    );
    assert_eq!(grown.arranged.layout.copies, fresh.arranged.layout.copies);
    for (grown, fresh) in grown.certificate.recall.iter().zip(&fresh.certificate.recall) {
        let at = (grown.recall_at_10, fresh.recall_at_10);
        assert!(at.0 > at.1 - 0.01, "ef {}: {at:?}", grown.ef);
    }
}
