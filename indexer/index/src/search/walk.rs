//! Greedy descent through the upper layers, then a beam on layer 0 (Malkov and Yashunin 2018, algorithms 2 and 5).

use super::{GraphLinks, Scored, Scratch, SearchParams, VectorRows};
use crate::model::Metric;

/// What a walk found, and what it cost.
#[derive(Debug, Clone, Default)]
pub struct Walk {
    /// All candidates of the beam, best first: up to `max(k, ef)`, so that the caller can break ties before it cuts at `k`.
    pub hits: Vec<Scored>,
    /// Scores computed.
    pub distance_computations: u64,
}

/// Searches the graph by the scores of `metric`. `query` has the rows' dimension; a link to a node that does not exist is passed over.
pub fn walk(
    rows: &(impl VectorRows + ?Sized),
    links: &(impl GraphLinks + ?Sized),
    query: &[f32],
    metric: Metric,
    params: &SearchParams,
    scratch: &mut Scratch,
) -> Walk {
    let n = rows.len();
    let entry = links.entry();
    if entry as usize >= n {
        return Walk::default();
    }
    let score = |node: u32| metric.score(query, rows.row(node));
    let mut computed = 1;
    let mut here = Scored { node: entry, score: score(entry) };
    for layer in (1..=links.max_layer()).rev() {
        loop {
            let before = here;
            for &node in links.links(layer, before.node).iter().filter(|node| (**node as usize) < n) {
                computed += 1;
                here = here.max(Scored { node, score: score(node) });
            }
            if here == before {
                break;
            }
        }
    }

    scratch.reset(n, params.ef.max(params.k).max(1));
    scratch.visit(here.node);
    scratch.frontier.push(here);
    scratch.best.offer(here);
    while let Some(next) = scratch.frontier.pop() {
        if scratch.best.floor().is_some_and(|worst| next < *worst) {
            break;
        }
        for &node in links.links(0, next.node) {
            if node as usize >= n || !scratch.visit(node) {
                continue;
            }
            computed += 1;
            let candidate = Scored { node, score: score(node) };
            if scratch.best.offer(candidate) {
                scratch.frontier.push(candidate);
            }
        }
    }
    Walk { hits: scratch.best.drain_sorted(), distance_computations: computed }
}
