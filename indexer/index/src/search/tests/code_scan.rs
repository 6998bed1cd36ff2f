//! The scan of codes against what estimates and scores allow, one by one.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::code_scan::CONFIDENCE;
use super::super::rescore::rescored_filtered;
use crate::model::Metric;
use crate::quant::{Codec, Codes, PreparedQuery};
use crate::rows::DenseRows;
use crate::search::{Completeness, NodeSet, SearchHits, SearchParams, SearchScratch, ShardView, SlotLinks};

const DIM: usize = 32;

/// No slot has links.
impl SlotLinks for () {
    fn append(&self, _: u32, _: &mut Vec<u32>) {}

    fn prefetch(&self, _: u32) {}
}

fn values(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count * DIM).map(|_| next()).collect()
}

/// Blocks that are laid out for one search, kept with the set, or not laid out at all.
#[test]
fn a_question_finds_the_same_alone_and_with_others_and_again() {
    let (all, questions) = (values(90_000, 1), values(35, 2));
    let rows = DenseRows::new(&all, DIM);
    let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Dot, 3));
    let other = Codes::encode(&rows, Codec::fit(&rows, Metric::Dot, 4));
    let queries: Vec<&[f32]> = questions.chunks(DIM).collect();
    let scan = |codes: &Codes, queries: &[&[f32]], allowed: &NodeSet| {
        let view = ShardView {
            codes: codes.view(),
            links: &(),
            order: None,
            rows: &rows,
            metric: Metric::Dot,
        };
        let mut hits = vec![SearchHits::default(); queries.len()];
        let params = SearchParams {
            allowed: Some(allowed),
            ..SearchParams::new(10, 10)
        };
        let found = |number: usize, found| hits[number] = found;
        view.scan_codes(queries, allowed, &params, &mut SearchScratch::default(), found);
        hits
    };
    let copy = |set: &NodeSet| {
        let mut copy = NodeSet::new(set.nodes());
        copy.extend(set.iter());
        copy
    };
    // The last is too large to be kept.
    for step in [300, 7, 3, 1] {
        let mut allowed = NodeSet::new(90_000);
        allowed.extend((0..90_000).filter(|node| node % step == 0));
        let first = scan(&codes, &queries[..1], &allowed);
        let (again, together) = (scan(&codes, &queries[..1], &allowed), scan(&codes, &queries, &allowed));
        let fresh = scan(&codes, &queries, &copy(&allowed));
        assert_eq!(
            (&first[0], &again[0], &fresh),
            (&together[0], &together[0], &together),
            "{step}"
        );
        assert!(first[0].hits.len() > 10 && first[0].completeness == Completeness::Complete);
        // In another shard of as many nodes, what is kept is not used.
        assert_eq!(
            scan(&other, &queries, &allowed),
            scan(&other, &queries, &copy(&allowed))
        );
    }
}

/// What a scan has found promising when it is cancelled is nothing to the next one, which uses its memory.
#[test]
fn a_scan_after_a_cancelled_one_finds_what_it_finds_by_itself() {
    let (all, questions) = (values(40_000, 1), values(3, 2));
    let rows = DenseRows::new(&all, DIM);
    let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Dot, 3));
    let view = ShardView {
        codes: codes.view(),
        links: &(),
        order: None,
        rows: &rows,
        metric: Metric::Dot,
    };
    let queries: Vec<&[f32]> = questions.chunks(DIM).collect();
    let half = |odd: u32| {
        let mut set = NodeSet::new(40_000);
        set.extend((0..40_000).filter(|node| node % 2 == odd));
        set
    };
    let scan = |set: &NodeSet, most: usize, scratch: &mut SearchScratch| {
        let checks = AtomicUsize::new(0);
        let cancel = || checks.fetch_add(1, Ordering::Relaxed) >= most;
        let params = SearchParams {
            allowed: Some(set),
            cancel: &cancel,
            ..SearchParams::new(10, 10)
        };
        let mut hits = vec![SearchHits::default(); queries.len()];
        view.scan_codes(&queries, set, &params, scratch, |number, found| hits[number] = found);
        hits
    };
    let [even, odd] = [0, 1].map(|odd| scan(&half(odd), usize::MAX, &mut SearchScratch::default()));
    // A threshold is there after 32 blocks of 79.
    for blocks in [1, 20, 33, 40, 50, 70, 78] {
        let mut scratch = SearchScratch::default();
        assert!(
            scan(&half(0), blocks, &mut scratch)
                .iter()
                .all(SearchHits::is_cancelled)
        );
        assert_eq!(scan(&half(1), usize::MAX, &mut scratch), odd, "{blocks}: other nodes");
        assert!(
            scan(&half(0), blocks, &mut scratch)
                .iter()
                .all(SearchHits::is_cancelled)
        );
        assert_eq!(scan(&half(0), usize::MAX, &mut scratch), even, "{blocks}: again");
    }
}

/// However sketches are read, and in the first blocks or later ones: a row whose factors are damaged is no hit, and is
/// told.
#[test]
fn damage_is_told_however_sketches_are_read() {
    const NODES: usize = 70_000;
    let (all, questions) = (values(NODES, 1), values(2, 2));
    let rows = DenseRows::new(&all, DIM);
    let intact = Codes::encode(&rows, Codec::fit(&rows, Metric::Dot, 3));
    let queries: Vec<&[f32]> = questions.chunks(DIM).collect();
    let words = intact.lines.len() / NODES;
    let [nan, infinite] = [f32::NAN, f32::INFINITY].map(|factor| u64::from(factor.to_bits()));
    // Sketch factor, error and bias.
    for (word, value) in [
        (1, nan),
        (1, infinite << 32),
        (2, infinite << 32),
        (2, (1 << 31 | infinite) << 32),
    ] {
        for at in [2_001, 67_003] {
            let mut codes = intact.clone();
            let damaged = &mut codes.lines[at * words + word];
            *damaged = if value < 1 << 32 {
                value | *damaged >> 32 << 32
            } else {
                value | *damaged & 0xFFFF_FFFF
            };
            let view = ShardView {
                codes: codes.view(),
                links: &(),
                order: None,
                rows: &rows,
                metric: Metric::Dot,
            };
            // Of all nodes nothing is kept: their sketches are laid out for one scan.
            for (step, has_it) in [(1, true), (2, true), (2, false)] {
                let mut allowed = NodeSet::new(NODES);
                allowed.extend((0..NODES as u32).filter(|node| step == 1 || node % 2 == u32::from(has_it)));
                let params = SearchParams {
                    allowed: Some(&allowed),
                    ..SearchParams::new(10, 10)
                };
                let mut answered = 0;
                // The first alone, again, and together.
                for queries in [&queries[..1], &queries[..1], &queries] {
                    view.scan_codes(queries, &allowed, &params, &mut SearchScratch::default(), |_, found| {
                        answered += 1;
                        assert_eq!(
                            found.completeness == Completeness::Damaged,
                            has_it,
                            "{word} {value:x} {at} {step}"
                        );
                        assert!(found.hits.len() >= 10);
                    });
                }
                assert_eq!(answered, 4);
            }
        }
    }
}

/// Whatever is scored first: nothing is lost whose estimate and score are not below the last hit's score, in the first
/// slots and in the blocks after them.
#[test]
fn all_that_estimate_and_score_allow_is_found() {
    let (all, questions) = (values(15_000, 1), values(7, 2));
    let rows = DenseRows::new(&all, DIM);
    let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Dot, 3));
    let codes = codes.view();
    let view = ShardView {
        codes,
        links: &(),
        order: None,
        rows: &rows,
        metric: Metric::Dot,
    };
    let queries: Vec<&[f32]> = questions.chunks(DIM).collect();
    for (step, k) in [(1, 10), (1, 600), (2, 1), (2, 10), (40, 10), (40, 1_000)] {
        let mut allowed = NodeSet::new(15_000);
        (0..15_000)
            .filter(|node| node % step == 0)
            .for_each(|node| _ = allowed.insert(node));
        let slots: Vec<u32> = allowed.iter().collect();
        let params = SearchParams {
            allowed: Some(&allowed),
            ..SearchParams::new(k, k)
        };
        let (mut prepared, mut products, mut estimates) = (PreparedQuery::default(), Vec::new(), Vec::new());
        let mut answered = 0;
        view.scan_codes(
            &queries,
            &allowed,
            &params,
            &mut SearchScratch::default(),
            |number, found| {
                answered += 1;
                codes.codec().prepare(queries[number], &mut prepared);
                codes.estimate(&prepared, &slots, CONFIDENCE, &mut products, &mut estimates);
                let hits: Vec<u32> = found.hits.iter().map(|hit| hit.node).collect();
                assert!(
                    hits.len() >= slots.len().min(k + rescored_filtered(k)),
                    "{step} {k}: {}",
                    hits.len()
                );
                let last = hits
                    .iter()
                    .map(|node| codes.score(&prepared, *node))
                    .fold(f32::INFINITY, f32::min);
                for (slot, estimate) in slots.iter().zip(&estimates) {
                    let is_due = *estimate >= last && codes.score(&prepared, *slot) >= last;
                    assert!(!is_due || hits.contains(slot), "{step} {k}: slot {slot}");
                }
                assert_eq!((found.cost.estimated, found.cost.scans), (slots.len() as u64, 1));
                assert!(
                    k > 10 || step > 2 || found.cost.scored < slots.len() as u64 / 2,
                    "{step} {k}: {}",
                    found.cost.scored
                );
            },
        );
        assert_eq!(answered, queries.len());
    }
}
