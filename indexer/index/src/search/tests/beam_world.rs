//! A shard to search by codes: rows around some centres, a graph of them, and searches of all kinds.

use super::super::*;
use crate::format::graph::LinksView;
use crate::graph::{Graph, GraphLayer};
use crate::layout::Arranged;
use crate::model::Metric;
use crate::quant::{Codec, Codes};

pub(super) const DIM: usize = 40;

/// Rows around 20 centres, not of unit length for L2.
fn clustered(n: usize, seed: u64, unit: bool) -> Vec<f32> {
    let mut state = seed | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    let centres: Vec<f32> = (0..20 * DIM).map(|_| next()).collect();
    let mut values: Vec<f32> = Vec::with_capacity(n * DIM);
    for row in 0..n {
        let centre = &centres[row * 7 % 20 * DIM..][..DIM];
        values.extend(centre.iter().map(|value| value + 0.6 * next()));
    }
    for row in values.chunks_mut(DIM).filter(|_| unit) {
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        for x in row {
            *x /= norm;
        }
    }
    values
}

/// Every row linked to its 12 nearest and to 16 others: navigable without any builder.
fn graph(rows: &DenseRows<'_>, metric: Metric) -> Graph {
    let n = rows.len() as u32;
    let lists: Vec<Vec<u32>> = (0..n)
        .map(|node| {
            let near = flat(rows, rows.row(node), 13, metric, None);
            let mut links: Vec<u32> = near
                .iter()
                .map(|hit| hit.node)
                .filter(|other| *other != node)
                .take(12)
                .collect();
            links.extend(
                (1..17)
                    .map(|step| (node + step * 97) % n)
                    .filter(|other| *other != node),
            );
            links.sort_unstable();
            links.dedup();
            links
        })
        .collect();
    let upper: Vec<u32> = (0..n).step_by(50).collect();
    let ring = |at: usize| {
        vec![
            upper[(at + 1) % upper.len()],
            upper[(at + upper.len() - 1) % upper.len()],
        ]
    };
    let rings: Vec<Vec<u32>> = (0..upper.len()).map(ring).collect();
    Graph {
        entry: 0,
        layers: vec![
            GraphLayer::from_lists((0..n).collect(), &lists),
            GraphLayer::from_lists(upper, &rings),
        ],
    }
}

pub(super) struct World {
    pub(super) values: Vec<f32>,
    pub(super) queries: Vec<f32>,
    pub(super) arranged: Arranged,
    pub(super) metric: Metric,
}

impl World {
    pub(super) fn new(metric: Metric) -> Self {
        let unit = metric == Metric::Cosine;
        // One sequence, so that questions are in the clusters of the rows.
        let mut values = clustered(1_560, 5, unit);
        let queries = values.split_off(1_500 * DIM);
        let rows = DenseRows::new(&values, DIM);
        let codes = Codes::encode(&rows, Codec::fit(&rows, metric, 3));
        let arranged = Arranged::new(&graph(&rows, metric), &codes).unwrap();
        Self {
            values,
            queries,
            arranged,
            metric,
        }
    }

    pub(super) fn rows(&self) -> DenseRows<'_> {
        DenseRows::new(&self.values, DIM)
    }

    pub(super) fn search(&self, queries: &[&[f32]], params: &SearchParams<'_>) -> Vec<SearchHits<Scored>> {
        self.answers(queries, |shard, found| {
            shard.search(queries, params, &mut SearchScratch::default(), found);
        })
    }

    /// The scan of codes.
    pub(super) fn scan(&self, queries: &[&[f32]], params: &SearchParams<'_>) -> Vec<SearchHits<Scored>> {
        let allowed = params.allowed.expect("a filter");
        self.answers(queries, |shard, found| {
            shard.scan_codes(queries, allowed, params, &mut SearchScratch::default(), found);
        })
    }

    pub(super) fn answers(
        &self,
        queries: &[&[f32]],
        search: impl FnOnce(&ShardView<'_, LinksView<'_>, DenseRows<'_>>, &mut dyn FnMut(usize, SearchHits<Scored>)),
    ) -> Vec<SearchHits<Scored>> {
        let (rows, view) = (self.rows(), self.arranged.layout.view());
        let codes = self.arranged.codes.view();
        let shard = ShardView {
            codes,
            links: &view,
            order: Some(view.order()),
            rows: &rows,
            metric: self.metric,
        };
        let mut found = vec![None; queries.len()];
        search(&shard, &mut |number, result| {
            assert!(
                found[number].replace(result).is_none(),
                "question {number} is answered twice"
            );
        });
        found
            .into_iter()
            .map(|result| result.expect("every question is answered"))
            .collect()
    }

    pub(super) fn recall(&self, params: &SearchParams<'_>) -> f64 {
        let queries: Vec<&[f32]> = self.queries.chunks(DIM).collect();
        self.recall_of(&self.search(&queries, params), params)
    }

    /// Mean recall of the answers to all questions.
    pub(super) fn recall_of(&self, found: &[SearchHits<Scored>], params: &SearchParams<'_>) -> f64 {
        let queries: Vec<&[f32]> = self.queries.chunks(DIM).collect();
        let (mut hits, mut wanted) = (0, 0);
        for (query, result) in queries.iter().zip(found) {
            let exact = flat(&self.rows(), query, params.k, self.metric, params.allowed);
            wanted += exact.len().min(params.k);
            hits += exact
                .iter()
                .take(params.k)
                .filter(|hit| result.hits.iter().any(|own| own == *hit))
                .count();
            if let Some(allowed) = params.allowed {
                assert!(result.hits.iter().all(|hit| allowed.contains(hit.node)));
            }
        }
        hits as f64 / wanted as f64
    }
}
