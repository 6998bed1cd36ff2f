//! The textbook search over full vectors: greedy descent through the upper layers, then a beam on layer 0 (HNSW: Malkov
//! and Yashunin 2018, algorithms 2 and 5).

use std::collections::BinaryHeap;

use super::visited::VisitedSet;
use super::{Cost, GraphLinks, Scored, SearchHits, TopK, VectorRows};
use crate::model::Metric;

/// Scratch memory of a search, reused by the next one. One per thread.
#[derive(Debug, Default)]
pub struct HnswScratch {
    visited: VisitedSet,
    candidates: BinaryHeap<Scored>,
    best: TopK<Scored>,
}

/// All candidates of a beam of `ef`, by the scores of `metric`; the caller breaks ties before it keeps the best `k`.
/// `query` has the rows' dimension; links to nodes that do not exist are ignored.
pub fn hnsw_search(
    rows: &(impl VectorRows + ?Sized),
    graph: &(impl GraphLinks + ?Sized),
    query: &[f32],
    metric: Metric,
    ef: usize,
    scratch: &mut HnswScratch,
) -> SearchHits<Scored> {
    let (n, entry) = (rows.len(), graph.entry());
    if entry as usize >= n {
        return SearchHits::default();
    }
    let mut cost = Cost::default();
    let mut scored = |node: u32| {
        cost.scored += 1;
        Scored {
            node,
            score: metric.score(query, rows.row(node)),
        }
    };
    let mut current = scored(entry);
    for layer in (1..=graph.max_layer()).rev() {
        loop {
            let before = current;
            for &node in graph
                .links(layer, before.node)
                .iter()
                .filter(|node| (**node as usize) < n)
            {
                current = current.max(scored(node));
            }
            if current == before {
                break;
            }
        }
    }

    let HnswScratch {
        visited,
        candidates,
        best,
    } = scratch;
    visited.reset(n);
    candidates.clear();
    best.reset(ef.max(1));
    visited.insert(current.node);
    candidates.push(current);
    best.offer(current);
    while let Some(next) = candidates.pop() {
        if best.threshold().is_some_and(|worst| next < *worst) {
            break;
        }
        for &node in graph.links(0, next.node) {
            if visited.insert(node) {
                let candidate = scored(node);
                if best.offer(candidate) {
                    candidates.push(candidate);
                }
            }
        }
    }
    SearchHits {
        hits: best.drain_sorted(),
        cost,
        ..SearchHits::default()
    }
}
