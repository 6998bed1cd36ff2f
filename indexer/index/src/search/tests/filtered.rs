//! Searches through filters: the scan of codes, and the beam among allowed nodes, against the exact scan.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::super::*;
use super::beam_world::{DIM, World};
use crate::model::Metric;

const ROWS: u32 = 1_500;

fn set(allows: impl Fn(u32) -> bool) -> NodeSet {
    let mut set = NodeSet::new(ROWS as usize);
    set.extend((0..ROWS).filter(|node| allows(*node)));
    set
}

/// The nodes that are not among the `near` nearest to a question.
fn far(world: &World, metric: Metric, query: &[f32], near: usize) -> NodeSet {
    let mut left = set(|_| true);
    for hit in flat(&world.rows(), query, near, metric, None) {
        left.remove(hit.node);
    }
    left
}

#[test]
fn a_scan_of_codes_finds_what_the_exact_scan_finds() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        let world = World::new(metric);
        let queries: Vec<&[f32]> = world.queries.chunks(DIM).collect();
        for step in [1, 2, 10, 60] {
            let allowed = set(|node| node % step == 0);
            let params = SearchParams {
                allowed: Some(&allowed),
                ..SearchParams::new(10, 10)
            };
            let found = world.scan(&queries, &params);
            assert!(
                found
                    .iter()
                    .all(|hits| hits.cost.estimated == allowed.len() as u64 && hits.cost.scans == 1)
            );
            let recall = world.recall_of(&found, &params);
            assert!(recall > 0.99, "{metric:?}, 1 in {step}: {recall}");
            for (query, together) in queries.iter().zip(&found).take(20) {
                assert_eq!(&world.scan(&[query], &params)[0], together);
            }
        }
        // Where the nearest are not allowed, the others score nearly the same.
        let near = |query: &&[f32]| {
            let allowed = far(&world, metric, query, 700);
            let found = world.scan(
                &[query],
                &SearchParams {
                    allowed: Some(&allowed),
                    ..SearchParams::new(10, 10)
                },
            );
            let exact = flat(&world.rows(), query, 10, metric, Some(&allowed));
            exact[..10].iter().filter(|hit| found[0].hits.contains(hit)).count()
        };
        let found: usize = queries.iter().take(20).map(near).sum();
        assert!(found >= 190, "{metric:?}: {found} of 200");
    }
}

proptest! {
    #[test]
    fn a_scan_has_as_many_hits_as_there_are(
        allowed in prop::collection::btree_set(0..ROWS, 0..700),
        k in prop_oneof![0usize..4, 0usize..800],
        query in 0usize..60,
    ) {
        // Built once for all cases.
        static WORLD: std::sync::OnceLock<World> = std::sync::OnceLock::new();
        let world = WORLD.get_or_init(|| World::new(Metric::Cosine));
        let query = &world.queries[query * DIM..][..DIM];
        let of = set(|node| allowed.contains(&node));
        let params = SearchParams { allowed: Some(&of), ..SearchParams::new(k, k) };
        let hits = world.scan(&[query], &params).remove(0);
        prop_assert!(hits.hits.len() >= k.min(allowed.len()), "{} of {}", hits.hits.len(), allowed.len());
        prop_assert!(hits.hits.is_sorted_by(|a, b| a > b), "best first, each once");
        for hit in &hits.hits {
            prop_assert!(allowed.contains(&hit.node));
            prop_assert_eq!(hit.score.to_bits(), world.rows().score(hit.node, query, Metric::Cosine).to_bits());
        }
    }
}

#[test]
fn a_scan_that_is_cancelled_or_of_another_dimension_finds_nothing() {
    let world = World::new(Metric::Cosine);
    let queries: Vec<&[f32]> = world.queries.chunks(DIM).take(3).collect();
    let allowed = set(|_| true);
    let checks = AtomicUsize::new(0);
    let cancel = || checks.fetch_add(1, Ordering::Relaxed) >= 2;
    let params = SearchParams {
        allowed: Some(&allowed),
        cancel: &cancel,
        ..SearchParams::new(10, 10)
    };
    for hits in world.scan(&queries, &params) {
        assert!(hits.is_cancelled() && hits.hits.is_empty());
        assert_eq!(hits.cost.estimated, 512, "two blocks");
    }
    let params = SearchParams {
        allowed: Some(&allowed),
        ..SearchParams::new(3, 3)
    };
    let found = world.scan(&[queries[0], &[1.0; DIM + 1], queries[1]], &params);
    assert!(found[0].hits.len() >= 3 && found[1] == SearchHits::default() && found[2].hits.len() >= 3);
}

#[test]
fn a_beam_among_allowed_nodes_pays_for_those_alone() {
    let world = World::new(Metric::Cosine);
    let queries: Vec<&[f32]> = world.queries.chunks(DIM).collect();
    for step in [1, 2, 4, 8] {
        let allowed = set(|node| node % step == 0);
        let all = SearchParams {
            allowed: Some(&allowed),
            ..SearchParams::new(10, 60)
        };
        let params = SearchParams { two_hop: true, ..all };
        let (found, among_all) = (world.search(&queries, &params), world.search(&queries, &all));
        let recall = world.recall_of(&found, &params);
        assert!(recall > 0.95, "1 in {step}: {recall}");
        let scored = |all: &[SearchHits<Scored>]| all.iter().map(|hits| hits.cost.scored).sum::<u64>();
        // Among all nodes, as many times more have to be scored as fewer are allowed.
        assert!(
            step == 1 || scored(&found) * (step as u64) < scored(&among_all) * 2,
            "1 in {step}"
        );
        for (query, together) in queries.iter().zip(&found).take(10) {
            assert_eq!(&world.search(&[query], &params)[0], together);
        }
    }
}

#[test]
fn a_beam_among_allowed_nodes_starts_where_there_are_some() {
    let world = World::new(Metric::Cosine);
    let (mut found, mut given_up) = (0, 0);
    for query in world.queries.chunks(DIM) {
        let allowed = far(&world, Metric::Cosine, query, 700);
        let params = SearchParams {
            allowed: Some(&allowed),
            two_hop: true,
            ..SearchParams::new(10, 300)
        };
        let hits = world.search(&[query], &params).remove(0);
        let exact = flat(&world.rows(), query, 10, Metric::Cosine, Some(&allowed));
        found += exact.iter().take(10).filter(|hit| hits.hits.contains(hit)).count();
        // Among all nodes, the search would expand the 700 nearest first.
        let all = SearchParams {
            two_hop: false,
            far: Some(Far { share: 0.32, ef: None }),
            ..params
        };
        given_up += usize::from(world.search(&[query], &all)[0].completeness == Completeness::Limited);
        let third = set(|node| node % 3 == 0);
        let spread = world.search(
            &[query],
            &SearchParams {
                allowed: Some(&third),
                ..all
            },
        );
        assert_eq!(spread[0].completeness, Completeness::Complete);
    }
    assert!(found >= 500, "{found} of 600");
    assert_eq!(given_up, 60);
}

#[test]
fn damage_that_hides_allowed_nodes_is_told() {
    let allowed = set(|node| node % 3 == 0);
    let params = SearchParams {
        allowed: Some(&allowed),
        two_hop: true,
        ..SearchParams::new(10, ROWS as usize)
    };
    let mut world = World::new(Metric::Cosine);
    let query = world.queries[..DIM].to_vec();
    assert_eq!(world.search(&[&query], &params)[0].completeness, Completeness::Complete);
    // Links of nodes that are not allowed lead nowhere.
    let degree = world.arranged.layout.degree;
    for (slot, links) in world.arranged.layout.links.chunks_mut(degree).enumerate() {
        if !world.arranged.layout.order[slot].is_multiple_of(3) {
            links[0] = ROWS + 7;
        }
    }
    assert_eq!(world.search(&[&query], &params)[0].completeness, Completeness::Damaged);
    // A slot that is none of an allowed node any more: neither way of searching can find that.
    let mut world = World::new(Metric::Cosine);
    let slot = world
        .arranged
        .layout
        .order
        .iter()
        .position(|node| node % 3 == 0)
        .unwrap();
    world.arranged.layout.order[slot] = ROWS;
    // What a set knows of a shard it knows of that one.
    let allowed = set(|node| node % 3 == 0);
    let params = SearchParams {
        allowed: Some(&allowed),
        ..params
    };
    assert_eq!(world.search(&[&query], &params)[0].completeness, Completeness::Damaged);
    assert_eq!(world.scan(&[&query], &params)[0].completeness, Completeness::Damaged);
}
