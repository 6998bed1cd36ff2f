//! The beam search over codes against the exact scan: single and interleaved, with margins, filters and cancellation.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::*;
use super::beam_world::{DIM, World};
use crate::model::Metric;

#[test]
fn a_wide_beam_finds_what_the_exact_scan_finds() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        let world = World::new(metric);
        let recall = world.recall(&SearchParams::new(10, 200));
        assert!(recall > 0.99, "{metric:?}: {recall}");
    }
}

#[test]
fn a_margin_spends_less_and_a_wider_one_finds_more() {
    let world = World::new(Metric::Cosine);
    let queries: Vec<&[f32]> = world.queries.chunks(DIM).collect();
    let cost = |margin| {
        let params = SearchParams {
            margin,
            ..SearchParams::new(10, 400)
        };
        let result = world.search(&queries, &params);
        (
            world.recall(&params),
            result.iter().map(|result| result.cost.estimated).sum::<u64>(),
        )
    };
    let (none, narrow, wide) = (cost(None), cost(Some(0.0)), cost(Some(0.3)));
    assert!(narrow.1 < wide.1 && wide.1 <= none.1, "{none:?} {narrow:?} {wide:?}");
    assert!(wide.0 > 0.98 && narrow.0 <= wide.0, "{none:?} {narrow:?} {wide:?}");
}

#[test]
fn what_is_not_competitive_is_not_searched_for() {
    let world = World::new(Metric::Cosine);
    let queries: Vec<&[f32]> = world.queries.chunks(DIM).collect();
    let plain = SearchParams {
        margin: Some(0.3),
        ..SearchParams::new(10, 400)
    };
    let cost = |result: &[SearchHits<Scored>]| result.iter().map(|result| result.cost.estimated).sum::<u64>();
    let all = world.search(&queries, &plain);
    let with = |scores: &[f32]| {
        let min_competitive = Some(MinCompetitive {
            scores,
            margin: 0.3,
            own_margin: None,
        });
        world.search(
            &queries,
            &SearchParams {
                min_competitive,
                ..plain
            },
        )
    };
    assert_eq!(with(&vec![f32::NEG_INFINITY; queries.len()]), all);
    // The third is the last that counts; the fourth and all after it are of no use.
    let thirds: Vec<f32> = all.iter().map(|result| result.hits[2].score).collect();
    let some = with(&thirds);
    let found = some
        .iter()
        .zip(&all)
        .filter(|(some, all)| some.hits[..3] == all.hits[..3])
        .count();
    assert!(found * 100 >= queries.len() * 98, "{found} of {}", queries.len());
    assert!(cost(&some) < cost(&all), "{} {}", cost(&some), cost(&all));
    // Nothing is good enough here: the search ends where it has come as near as it can.
    let none = with(&vec![2.0; queries.len()]);
    assert!(
        none.iter()
            .all(|result| result.hits.is_empty() && result.completeness == Completeness::Complete)
    );
    assert!(cost(&none) < cost(&some), "{} {}", cost(&none), cost(&some));
}

#[test]
fn interleaved_searches_find_what_single_searches_find() {
    let world = World::new(Metric::Cosine);
    let queries: Vec<&[f32]> = world.queries.chunks(DIM).collect();
    let params = SearchParams {
        margin: Some(0.1),
        ..SearchParams::new(10, 40)
    };
    let together = world.search(&queries, &params);
    for (query, together) in queries.iter().zip(&together) {
        assert_eq!(&world.search(&[query], &params)[0], together);
    }
}

#[test]
fn only_allowed_nodes_are_found() {
    let world = World::new(Metric::Cosine);
    for step in [2usize, 10, 60] {
        let mut allowed = NodeSet::new(1_500);
        allowed.extend((0..1_500).step_by(step));
        let params = SearchParams {
            allowed: Some(&allowed),
            ..SearchParams::new(10, 100)
        };
        let recall = world.recall(&params);
        assert!(recall > 0.97, "1 in {step}: {recall}");
    }
}

#[test]
fn a_cancelled_search_says_so_for_every_question() {
    let world = World::new(Metric::Cosine);
    let queries: Vec<&[f32]> = world.queries.chunks(DIM).collect();
    let checks = AtomicUsize::new(0);
    let cancel = || checks.fetch_add(1, Ordering::Relaxed) >= 1;
    let params = SearchParams {
        cancel: &cancel,
        ..SearchParams::new(10, 400)
    };
    let found = world.search(&queries, &params);
    // Once at the start, and once during the search.
    assert_eq!(checks.load(Ordering::Relaxed), 2);
    assert!(
        found
            .last()
            .is_some_and(|result| result.is_cancelled() && result.hits.is_empty())
    );
    // Searches that had begun return what they had found.
    assert!(
        found
            .iter()
            .filter(|result| result.is_cancelled() && !result.hits.is_empty())
            .count()
            >= 7
    );
    let cancel = || true;
    let found = world.search(
        &queries,
        &SearchParams {
            cancel: &cancel,
            ..params
        },
    );
    assert!(found.iter().all(|result| *result == SearchHits::cancelled()));
}

#[test]
fn a_bound_ends_the_longest_searches_and_they_are_complete() {
    let world = World::new(Metric::Cosine);
    let queries: Vec<&[f32]> = world.queries.chunks(DIM).collect();
    let search = |expansion_bound| {
        let params = SearchParams {
            margin: Some(0.1),
            expansion_bound,
            ..SearchParams::new(10, 50)
        };
        world.search(&queries, &params)
    };
    let free = search(None);
    let mut expanded: Vec<u64> = free.iter().map(|result| result.cost.expanded).collect();
    expanded.sort_unstable();
    let bound = expanded[expanded.len() / 2];
    assert!(bound > 10 && bound < *expanded.last().unwrap(), "{expanded:?}");
    for (bounded, free) in search(Some(bound as usize)).iter().zip(&free) {
        assert_eq!(bounded.cost.expanded, free.cost.expanded.min(bound));
        assert_eq!(bounded.completeness, Completeness::Complete);
        if free.cost.expanded <= bound {
            assert_eq!(bounded, free);
        }
    }
    // Never fewer than the hits wanted, never more than `ef` allows.
    assert!(
        search(Some(0))
            .iter()
            .all(|result| result.cost.expanded <= 10 && result.hits.len() >= 10)
    );
    assert_eq!(search(Some(usize::MAX)), free);
}

#[test]
fn a_search_that_max_expansions_ends_is_limited() {
    let world = World::new(Metric::Cosine);
    let queries: Vec<&[f32]> = world.queries.chunks(DIM).collect();
    let search = |max_expansions| {
        world.search(
            &queries,
            &SearchParams {
                max_expansions,
                ..SearchParams::new(10, 50)
            },
        )
    };
    let (free, wide, narrow) = (search(None), search(Some(1_500)), search(Some(5)));
    assert_eq!(free, wide);
    assert!(free.iter().all(|result| result.completeness == Completeness::Complete));
    assert!(narrow.iter().all(|result| result.completeness == Completeness::Limited));
    assert!(
        narrow
            .iter()
            .zip(&free)
            .all(|(narrow, free)| narrow.cost.estimated < free.cost.estimated)
    );
}

#[test]
fn no_beam_is_wider_than_there_are_rows() {
    let world = World::new(Metric::Cosine);
    let queries: Vec<&[f32]> = world.queries.chunks(DIM).take(2).collect();
    for margin in [None, Some(0.5)] {
        let found = world.search(
            &queries,
            &SearchParams {
                margin,
                ..SearchParams::new(usize::MAX, usize::MAX)
            },
        );
        assert_eq!(found[0].hits.len(), 1_500);
    }
}

#[test]
fn codes_alone_rank_and_score_nearly_as_vectors_do() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        codes_alone(metric);
    }
}

fn codes_alone(metric: Metric) {
    let world = World::new(metric);
    let queries: Vec<&[f32]> = world.queries.chunks(DIM).collect();
    let params = SearchParams {
        rescore: false,
        ..SearchParams::new(10, 200)
    };
    for (query, result) in queries.iter().zip(world.search(&queries, &params)) {
        let exact = flat(&world.rows(), query, 1, metric, None);
        let size = if metric == Metric::Cosine {
            1.0f32
        } else {
            query.iter().map(|x| x * x).sum()
        };
        assert!(
            (result.hits[0].score - exact[0].score).abs() < 0.01 * size,
            "{metric:?}"
        );
        assert!(result.hits.len() >= 10);
    }
}

#[test]
fn a_slot_that_leads_to_no_row_is_no_hit() {
    let mut world = World::new(Metric::Cosine);
    world.arranged.layout.order.fill(1_500);
    let queries: Vec<&[f32]> = world.queries.chunks(DIM).take(1).collect();
    for rescore in [true, false] {
        let found = world.search(
            &queries,
            &SearchParams {
                rescore,
                ..SearchParams::new(10, 20)
            },
        );
        assert!(found[0].cost.scored > 10 && found[0].hits.is_empty(), "{found:?}");
    }
}

#[test]
fn another_dimension_finds_nothing() {
    let world = World::new(Metric::Cosine);
    assert_eq!(
        world.search(&[&[1.0; DIM + 1]], &SearchParams::new(3, 10)),
        [SearchHits::default()]
    );
}

#[test]
fn a_search_for_neighbours_finds_the_nearest_other_rows() {
    let world = World::new(Metric::Cosine);
    let rows = world.rows();
    let view = world.arranged.layout.view();
    let search = NeighbourSearch {
        codes: world.arranged.codes.view(),
        links: &view,
    };
    let slots = [0, 7, 700, 1_499];
    let mut seen = 0;
    search.nearest(
        &slots,
        60,
        &mut SearchScratch::default(),
        |_, _| 0,
        |slot, hits| {
            seen += 1;
            let node = |slot: u32| view.order()[slot as usize];
            let exact = flat(&rows, rows.row(node(slot)), 6, Metric::Cosine, None);
            let found: Vec<u32> = hits.iter().map(|hit| node(hit.node)).collect();
            assert!(!found.contains(&node(slot)) && found.len() <= 60);
            let wanted = exact.iter().filter(|hit| hit.node != node(slot)).take(5);
            assert!(
                wanted.filter(|hit| found.contains(&hit.node)).count() >= 4,
                "slot {slot}"
            );
        },
    );
    assert_eq!(seen, slots.len());
}
