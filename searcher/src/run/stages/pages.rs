//! Pages of a dense search as parts of one ranking.
//!
//! A graph search for more hits is another search: what it finds first may differ from what a search for fewer has
//! found. So a later page is not cut from a wider search alone, which would repeat hits of the pages before and leave
//! others out. Its ranking is joined of the first page's search and wider ones,
//! [`SearchPlan::dense_searches`](crate::plan::SearchPlan::dense_searches).

use std::collections::HashSet;

use dyad_index::search::NodeSet;
use dyad_index::snapshot::{DenseParams, DocumentHit, Snapshot};
use dyad_index::{Cancel, Result, SearchHits};

/// What is searched by one or several searches.
pub(in crate::run) struct JoinedSearch<'a> {
    pub(in crate::run) snapshot: &'a Snapshot,
    /// Narrowest first.
    pub(in crate::run) searches: &'a [DenseParams],
    /// One set per shard; all documents where absent.
    pub(in crate::run) allowed: Option<&'a [NodeSet]>,
    pub(in crate::run) cancel: &'a dyn Cancel,
}

impl JoinedSearch<'_> {
    /// The ranking of each question, joined of all searches.
    pub(in crate::run) fn rankings(&self, questions: &[&[f32]]) -> Result<Vec<SearchHits<DocumentHit>>> {
        let mut joined: Vec<SearchHits<DocumentHit>> = questions.iter().map(|_| SearchHits::default()).collect();
        for params in self.searches {
            let found = self
                .snapshot
                .search_dense(questions, params, self.allowed, self.cancel)?;
            for (joined, wider) in joined.iter_mut().zip(found) {
                append_unseen(joined, wider);
            }
        }
        Ok(joined)
    }
}

/// Appends the hits of a wider search that a ranking does not have, in their order.
pub(in crate::run) fn append_unseen(ranking: &mut SearchHits<DocumentHit>, mut wider: SearchHits<DocumentHit>) {
    let place = |hit: &DocumentHit| (hit.shard, hit.node);
    if !ranking.hits.is_empty() {
        let seen: HashSet<(usize, u32)> = ranking.hits.iter().map(place).collect();
        wider.hits.retain(|hit| !seen.contains(&place(hit)));
    }
    // Each search scans the same shards or fewer.
    let scans = wider.cost.scans;
    ranking.append(wider, |hit| hit);
    ranking.cost.scans = scans;
}

#[cfg(test)]
mod tests {
    use dyad_index::search::Cost;
    use proptest::prelude::*;

    use super::*;

    /// As many documents as there are, or as are wanted: those that a search of that depth misses come in after the
    /// others.
    fn search(scores: &[u8], missed: &[bool], depth: usize) -> SearchHits<DocumentHit> {
        let is_missed = |node: usize| {
            missed
                .get((node * 7 + depth) % missed.len().max(1))
                .copied()
                .unwrap_or_default()
        };
        let mut nodes: Vec<usize> = (0..scores.len()).collect();
        nodes.sort_by_key(|node| (is_missed(*node), std::cmp::Reverse(scores[*node]), *node));
        let hit = |node: usize| DocumentHit {
            score: f32::from(scores[node]),
            shard: node % 2,
            node: node as u32,
        };
        let cost = Cost {
            scored: 5,
            scans: 1,
            ..Cost::default()
        };
        SearchHits {
            hits: nodes.into_iter().take(depth).map(hit).collect(),
            cost,
            ..SearchHits::default()
        }
    }

    proptest! {
        /// Whatever the searches find: no page repeats a hit, and together they hold all that the deepest search has
        /// found.
        #[test]
        fn pages_together_are_one_ranking(
            scores in prop::collection::vec(any::<u8>(), 0..120),
            missed in prop::collection::vec(any::<bool>(), 0..9),
            k in 1usize..12,
        ) {
            let depths: Vec<usize> = std::iter::successors(Some(k), |depth| Some(depth * 4)).take(5).collect();
            let ranking = |end: usize| {
                let needed = depths.iter().position(|depth| *depth >= end).unwrap();
                let mut joined = SearchHits::default();
                for depth in &depths[..=needed] {
                    append_unseen(&mut joined, search(&scores, &missed, *depth));
                }
                prop_assert_eq!(joined.cost.scans, 1);
                Ok(joined.hits)
            };
            let mut pages: Vec<(usize, u32)> = Vec::new();
            for offset in (0..120).step_by(k) {
                let page = ranking(offset + k)?;
                pages.extend(page.iter().skip(offset).take(k).map(|hit| (hit.shard, hit.node)));
            }
            let once: HashSet<(usize, u32)> = pages.iter().copied().collect();
            prop_assert_eq!(once.len(), pages.len(), "a document twice");
            let whole = ranking(pages.len().max(1))?;
            let first: Vec<(usize, u32)> = whole.iter().take(pages.len()).map(|hit| (hit.shard, hit.node)).collect();
            prop_assert_eq!(&pages, &first);
            let narrowest = search(&scores, &missed, k);
            prop_assert!(narrowest.hits.iter().zip(&pages).all(|(hit, page)| (hit.shard, hit.node) == *page));
            let end = 120usize.div_ceil(k) * k;
            let deepest = search(&scores, &missed, *depths.iter().find(|depth| **depth >= end).unwrap());
            prop_assert!(deepest.hits.iter().all(|hit| once.contains(&(hit.shard, hit.node))), "a document is missing");
        }
    }
}
