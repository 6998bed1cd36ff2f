//! Beams and adaptive searches find what a plain beam over the vectors finds on the same graph, whatever the question
//! is like.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use dyad_index::search::{NodeSet, SlotLinks as _, UpperLayers as _, VectorRows as _};
use dyad_index::shard::DenseShard;
use dyad_index::{Metric, Scored, SearchParams};
use proptest::prelude::*;

use super::filtered::served_by;
use super::synthetic::{Normal, Rows};
use crate::control::JobControl;
use crate::graph_build::{BuildParams, certify_live, stored_ground_truth};

const DIM: usize = 24;
const DOCUMENTS: usize = 1_500;
const QUESTIONS: usize = 150;
/// What a search may find less than the plain beam: of [`QUESTIONS`] times ten hits, eleven.
const LESS: f64 = 0.0075;

/// A question's place among the documents.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Like a document.
    Near,
    /// Moved away from all documents by this many of their lengths: a modality gap.
    Behind(f32),
    /// As many times as far from the origin.
    Out(f32),
    /// Halfway between two documents.
    Between,
}

#[derive(Debug, Clone)]
struct Case {
    metric: Metric,
    kind: Kind,
    seed: u64,
    /// Documents lie around as many centres.
    clusters: usize,
    k: usize,
    ef: usize,
    /// Of all documents.
    allowed: Option<f64>,
    /// One in as many is deleted.
    deleted: Option<u32>,
    /// Share of the documents that are copies of others, or zeros.
    repeats: Repeats,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Repeats {
    None,
    Copies(f32),
    Zeros(f32),
}

fn cases() -> impl Strategy<Value = Case> {
    let metric = prop_oneof![Just(Metric::Cosine), Just(Metric::Dot), Just(Metric::L2)];
    let kind = prop_oneof![
        Just(Kind::Near),
        prop_oneof![Just(0.3), Just(1.0), Just(3.0)].prop_map(Kind::Behind),
        prop_oneof![Just(0.2), Just(2.0), Just(5.0)].prop_map(Kind::Out),
        Just(Kind::Between),
    ];
    let (k, ef) = (
        prop_oneof![Just(1usize), Just(10), Just(60)],
        prop_oneof![Just(64usize), Just(128), Just(256)],
    );
    let allowed = prop_oneof![2 => Just(None), 1 => Just(Some(0.5)), 1 => Just(Some(0.1))];
    let deleted = prop_oneof![2 => Just(None), 1 => Just(Some(5u32))];
    let repeats = prop_oneof![
        2 => Just(Repeats::None),
        1 => prop_oneof![Just(0.1), Just(0.3), Just(0.6)].prop_map(Repeats::Copies),
        1 => prop_oneof![Just(0.01), Just(0.3)].prop_map(Repeats::Zeros),
    ];
    let clusters = prop_oneof![Just(1usize), Just(12)];
    (metric, kind, any::<u64>(), clusters, k, ef, allowed, deleted, repeats).prop_map(
        |(metric, kind, seed, clusters, k, ef, allowed, deleted, repeats)| Case {
            metric,
            kind,
            seed,
            clusters,
            k,
            ef,
            allowed,
            deleted,
            repeats,
        },
    )
}

fn length(row: &[f32]) -> f32 {
    row.iter().map(|value| value * value).sum::<f32>().sqrt()
}

/// Documents around centres that are not around the origin; of length 1 for the cosine, of any other for the inner
/// product.
fn documents(case: &Case, random: &mut Normal) -> Vec<Vec<f32>> {
    let mut vector = |scale: f32| -> Vec<f32> { (0..DIM).map(|_| scale * random.draw()).collect() };
    let middle = vector(0.5);
    let centres: Vec<Vec<f32>> = (0..case.clusters).map(|_| vector(0.6)).collect();
    let mut one = |number: usize| -> Vec<f32> {
        let own = vector(0.5);
        let centre = &centres[number % centres.len()];
        own.iter()
            .zip(centre)
            .zip(&middle)
            .map(|((own, centre), middle)| own + centre + middle)
            .collect()
    };
    let mut rows: Vec<Vec<f32>> = (0..DOCUMENTS + QUESTIONS).map(&mut one).collect();
    if case.metric == Metric::Cosine {
        for row in &mut rows {
            let length = length(row);
            for value in row {
                *value /= length;
            }
        }
    }
    let of_all = |share: f32| (share * DOCUMENTS as f32) as usize;
    match case.repeats {
        // Of every other document, some of many.
        Repeats::Copies(share) => (0..of_all(share)).for_each(|at| {
            let original = of_all(share) + at % (DOCUMENTS - of_all(share)) / 3;
            rows[at] = rows[original.min(DOCUMENTS - 1)].clone();
        }),
        // A vector of zeros has no cosine.
        Repeats::Zeros(share) if case.metric != Metric::Cosine => {
            rows[..of_all(share)].iter_mut().for_each(|row| row.fill(0.0));
        }
        Repeats::Zeros(_) | Repeats::None => {}
    }
    rows
}

fn question(case: &Case, rows: &[Vec<f32>], number: usize, direction: &[f32]) -> Vec<f32> {
    let own = &rows[DOCUMENTS + number];
    let mut row: Vec<f32> = match case.kind {
        Kind::Near => own.clone(),
        Kind::Out(times) => own.iter().map(|value| times * value).collect(),
        Kind::Behind(gap) => {
            let moved = gap * length(own) / length(direction);
            own.iter()
                .zip(direction)
                .map(|(value, direction)| value + moved * direction)
                .collect()
        }
        Kind::Between => own
            .iter()
            .zip(&rows[number])
            .map(|(one, other)| f32::midpoint(*one, *other))
            .collect(),
    };
    if case.metric == Metric::Cosine {
        let length = length(&row);
        for value in &mut row {
            *value /= length;
        }
    }
    row
}

/// A graph and its vectors, and the nodes of each vector.
struct PlainBeam<'a> {
    shard: &'a DenseShard,
    rows: &'a Rows,
    metric: Metric,
    /// By node.
    groups: Vec<Vec<u32>>,
}

impl<'a> PlainBeam<'a> {
    fn new(shard: &'a DenseShard, rows: &'a Rows, metric: Metric) -> Self {
        let bits = |node: u32| {
            rows.row(node)
                .iter()
                .map(|value| (value + 0.0).to_bits())
                .collect::<Vec<u32>>()
        };
        let mut by_vector: HashMap<Vec<u32>, Vec<u32>> = HashMap::new();
        (0..DOCUMENTS as u32).for_each(|node| by_vector.entry(bits(node)).or_default().push(node));
        let groups = (0..DOCUMENTS as u32)
            .map(|node| by_vector[&bits(node)].clone())
            .collect();
        Self {
            shard,
            rows,
            metric,
            groups,
        }
    }

    /// The nearest allowed nodes that a beam of width `ef` finds, which keeps the best vectors of allowed nodes,
    /// compares vectors, and follows every link that is better than its worst.
    fn search(&self, query: &[f32], ef: usize, allowed: &NodeSet) -> Vec<Scored> {
        let links = self.shard.graph();
        let nodes = |slot: u32| &self.groups[links.order()[slot as usize] as usize];
        let score = |slot: u32| self.metric.score(query, self.rows.row(nodes(slot)[0]));
        let is_allowed = |slot: u32| nodes(slot).iter().any(|node| allowed.contains(*node));
        let start = links.entry();
        let mut visited = vec![false; self.shard.len()];
        visited[start as usize] = true;
        let mut candidates = BinaryHeap::from([Scored {
            node: start,
            score: score(start),
        }]);
        let mut best: BinaryHeap<Reverse<Scored>> = BinaryHeap::new();
        best.extend(
            candidates
                .iter()
                .copied()
                .filter(|entry| is_allowed(entry.node))
                .map(Reverse),
        );
        let mut near = Vec::new();
        while let Some(next) = candidates.pop() {
            if best.len() >= ef && best.peek().is_some_and(|worst| next.score < worst.0.score) {
                break;
            }
            near.clear();
            links.append(next.node, &mut near);
            for &slot in &near {
                if std::mem::replace(&mut visited[slot as usize], true) {
                    continue;
                }
                let found = Scored {
                    node: slot,
                    score: score(slot),
                };
                if best.len() < ef || best.peek().is_some_and(|worst| found.score > worst.0.score) {
                    candidates.push(found);
                    if is_allowed(slot) {
                        best.push(Reverse(found));
                    }
                    if best.len() > ef {
                        best.pop();
                    }
                }
            }
        }
        let sorted = best.into_sorted_vec().into_iter();
        let documents = sorted.flat_map(|Reverse(found)| {
            let allowed = nodes(found.node).iter().filter(|node| allowed.contains(**node));
            allowed
                .map(move |node| Scored { node: *node, ..found })
                .collect::<Vec<_>>()
        });
        documents.collect()
    }
}

/// Hits that are as near as the last of the nearest, of as many.
fn share(hits: &[Scored], nearest: &[Scored], k: usize) -> f64 {
    let nearest = &nearest[..k.min(nearest.len())];
    let Some(last) = nearest.last() else { return 1.0 };
    // Scores of the shard are those of its rows, which it stores as they were given.
    let near = hits
        .iter()
        .take(nearest.len())
        .filter(|hit| hit.score >= last.score - 1e-6 * last.score.abs());
    near.count() as f64 / nearest.len() as f64
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let mut random = Normal::new(case.seed);
    let all = documents(case, &mut random);
    let rows = Rows::of(all[..DOCUMENTS].concat(), DIM);
    let direction: Vec<f32> = (0..DIM).map(|_| random.draw()).collect();
    let params = BuildParams {
        m: 12,
        ef_construction: 60,
        seed: case.seed,
        threads: 2,
    };
    let (_dir, shard) = served_by(&rows, case.metric, &params);
    let mut live = NodeSet::all(DOCUMENTS);
    let gone = |node: &u32| case.deleted.is_some_and(|step| node.is_multiple_of(step));
    (0..DOCUMENTS as u32)
        .filter(gone)
        .for_each(|node| _ = live.remove(node));
    let measured = case.deleted.map(|_| {
        let truth = stored_ground_truth(&shard, &shard.path().with_file_name(dyad_index::GROUND_TRUTH_FILE)).unwrap();
        certify_live(&shard, &truth, &live, JobControl::silent()).unwrap()
    });
    let mut filter = live.clone();
    if let Some(share) = case.allowed {
        let is_out = |node: &u32| f64::from(node.wrapping_mul(2_654_435_761)) > share * f64::from(u32::MAX);
        (0..DOCUMENTS as u32)
            .filter(is_out)
            .for_each(|node| _ = filter.remove(node));
    }
    let beam = SearchParams {
        live: case.deleted.map(|_| &live),
        certificate: measured.as_ref(),
        allowed: case.allowed.map(|_| &filter),
        ..SearchParams::new(case.k, case.ef)
    };
    let adaptive = SearchParams { adaptive: true, ..beam };
    let beam_over_vectors = PlainBeam::new(&shard, &rows, case.metric);
    let (mut plain, mut fixed, mut adapted) = (0.0, 0.0, 0.0);
    for number in 0..QUESTIONS {
        let query = question(case, &all, number, &direction);
        let nearest = shard.search_exact(&query, case.k, Some(&filter)).hits;
        plain += share(&beam_over_vectors.search(&query, case.ef, &filter), &nearest, case.k);
        fixed += share(&shard.search(&query, &beam).hits, &nearest, case.k);
        adapted += share(&shard.search(&query, &adaptive).hits, &nearest, case.k);
    }
    let [plain, fixed, adapted] = [plain, fixed, adapted].map(|sum| sum / QUESTIONS as f64);
    prop_assert!(fixed >= plain - LESS, "beam {fixed}, plain {plain}");
    // Adaptive searches are as good at the width that is taken where a request names none.
    prop_assert!(
        case.ef < 128 || adapted >= plain - LESS,
        "adaptive {adapted}, plain {plain}"
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 0, ..ProptestConfig::default() })]
    #[test]
    fn searches_find_what_a_plain_beam_finds(case in cases()) {
        check(&case)?;
    }
}

/// `cargo test --profile ci -p dyad-indexer --lib -- --ignored --nocapture many_cases`
#[test]
#[ignore = "takes minutes"]
fn searches_find_what_a_plain_beam_finds_in_many_cases() {
    let config = ProptestConfig {
        cases: 400,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(case in cases())| check(&case)?);
}

#[test]
fn the_hits_of_a_question_do_not_depend_on_its_length_where_inner_products_rank() {
    let case = Case {
        metric: Metric::Dot,
        kind: Kind::Near,
        seed: 11,
        clusters: 5,
        k: 10,
        ef: 64,
        allowed: None,
        deleted: None,
        repeats: Repeats::None,
    };
    let all = documents(&case, &mut Normal::new(case.seed));
    let rows = Rows::of(all[..DOCUMENTS].concat(), DIM);
    let params = BuildParams {
        m: 12,
        ef_construction: 60,
        seed: 1,
        threads: 2,
    };
    let (_dir, shard) = served_by(&rows, case.metric, &params);
    for adaptive in [false, true] {
        let params = SearchParams {
            adaptive,
            ..SearchParams::new(case.k, case.ef)
        };
        for row in &all[DOCUMENTS..] {
            let nodes = |times: f32| {
                let query: Vec<f32> = row.iter().map(|value| times * value).collect();
                let found = shard.search(&query, &params);
                (found.hits.iter().map(|hit| hit.node).collect::<Vec<_>>(), found.cost)
            };
            let once = nodes(1.0);
            // Powers of two are exact.
            for times in [1.0 / 128.0, 0.25, 4.0, 128.0] {
                assert_eq!(nodes(times), once, "{times} times as long");
            }
            for times in [0.01, 3.0, 10.0, 100.0] {
                let common = nodes(times).0.iter().filter(|node| once.0.contains(node)).count();
                assert!(common >= 9, "{times} times as long: {common} of 10");
            }
        }
    }
}
