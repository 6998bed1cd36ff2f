//! Searches of a shard with deleted documents, as the searcher makes them, and what they find at one beam width.

use std::collections::HashSet;

use dyad_index::search::{NodeSet, SearchHits, SearchParams, SlotLinks as _};
use dyad_index::shard::DenseShard;
use dyad_index::{Certificate, ExpansionPoint, RecallPoint, Scored};
use rayon::prelude::*;

use super::recall::{average_recall, recall_share, summarize_expansions};

/// A question; where it is a document, its node.
pub(super) struct LiveQuestion {
    pub(super) row: Vec<f32>,
    pub(super) node: Option<u32>,
}

/// What is found at one beam width by searches that their margin alone ends.
pub(super) struct UnboundedSearch {
    /// The beam width.
    pub(super) ef: usize,
    /// Hits and cost by question.
    pub(super) found: Vec<SearchHits<Scored>>,
    /// Whether every search compared all live nodes.
    pub(super) scans: bool,
}

impl UnboundedSearch {
    pub(super) fn expansions(&self, ef: usize) -> ExpansionPoint {
        summarize_expansions(ef, self.found.iter().map(|found| found.cost.expanded).collect())
    }
}

/// The live nodes as searches are told of them: not at all where no node is deleted.
pub(super) fn some_are_deleted<'a>(shard: &DenseShard, live: &'a NodeSet) -> Option<&'a NodeSet> {
    (live.len() < shard.len()).then_some(live)
}

/// What is searched.
pub(super) struct LiveSearch<'a> {
    pub(super) shard: &'a DenseShard,
    pub(super) live: &'a NodeSet,
    /// By node.
    pub(super) slots: &'a [u32],
}

impl LiveSearch<'_> {
    /// The documents that have the vector of a question: itself, where it is one, and its copies.
    pub(super) fn same_vector(&self, asked: &LiveQuestion) -> Vec<u32> {
        let slot = asked.node.and_then(|node| self.slots.get(node as usize));
        slot.map_or_else(Vec::new, |slot| self.shard.same_vector(*slot))
    }

    /// The first document of each vector.
    pub(super) fn distinct(&self, list: &[Scored]) -> Vec<Scored> {
        let links = self.shard.graph();
        if !links.has_copies() {
            return list.to_vec();
        }
        let mut seen = HashSet::new();
        let mut is_first = |hit: &Scored| {
            let slot = self.slots.get(hit.node as usize).copied().unwrap_or(u32::MAX);
            seen.insert(links.representative(slot))
        };
        list.iter().copied().filter(|hit| is_first(hit)).collect()
    }

    /// The hits of a question, itself left out where it is a document, deleted or not.
    pub(super) fn search(
        &self,
        asked: &LiveQuestion,
        certificate: &Certificate,
        params: &SearchParams<'_>,
    ) -> SearchHits<Scored> {
        let left_out = asked
            .node
            .and_then(|node| self.slots.get(node as usize))
            .map(std::slice::from_ref);
        let (live, certificate) = (some_are_deleted(self.shard, self.live), Some(certificate));
        self.shard.search(
            &asked.row,
            &SearchParams {
                live,
                certificate,
                left_out,
                ..*params
            },
        )
    }
}

pub(super) fn search_unbounded(
    searched: &LiveSearch<'_>,
    asked: &[LiveQuestion],
    ef: usize,
    certificate: &Certificate,
) -> UnboundedSearch {
    let params = SearchParams {
        adaptive: true,
        expansion_bound: Some(usize::MAX),
        ..SearchParams::new(10, ef)
    };
    let found: Vec<SearchHits<Scored>> = asked
        .par_iter()
        .map(|asked| searched.search(asked, certificate, &params))
        .collect();
    let scans = found
        .iter()
        .all(|found| found.cost.scans > 0 && found.cost.expanded == 0);
    UnboundedSearch { ef, found, scans }
}

/// Whether recall@100 is measured at a beam width.
pub(super) fn is_wide(ef: usize, lists: &[Vec<Scored>]) -> bool {
    ef > 100 && lists.iter().all(|list| list.len() >= 100)
}

/// Questions, and the nearest live nodes of each, by which a shard is measured.
#[derive(Clone, Copy)]
pub(super) struct LiveMeasurement<'a> {
    /// The shard.
    pub(super) searched: &'a LiveSearch<'a>,
    /// The questions.
    pub(super) asked: &'a [LiveQuestion],
    /// The exact nearest live nodes of each question, best first.
    pub(super) lists: &'a [Vec<Scored>],
}

impl LiveMeasurement<'_> {
    /// Measures beams of one width.
    pub(super) fn measure(&self, ef: usize, certificate: &Certificate) -> RecallPoint {
        let Self { searched, asked, lists } = *self;
        let wide = is_wide(ef, lists);
        let one = |(asked, list): (&LiveQuestion, &Vec<Scored>)| {
            let search = |k: usize| searched.search(asked, certificate, &SearchParams::new(k, ef));
            let found = search(10);
            let at_100 = if wide {
                recall_share(&search(100).hits, list, 100)
            } else {
                0.0
            };
            (
                recall_share(&found.hits, list, 10),
                at_100,
                found.cost.total(),
                found.cost.scored,
            )
        };
        let measured: Vec<(f64, f64, u64, u64)> = asked.par_iter().zip(lists).map(one).collect();
        average_recall(ef, wide, &measured)
    }

    /// Measures adaptive searches as they are served: what is found without a bound on expansions is searched again
    /// where it has needed as many as the bound, or more.
    pub(super) fn measure_adaptive(
        &self,
        unbounded: &UnboundedSearch,
        ef: usize,
        certificate: &Certificate,
    ) -> RecallPoint {
        let Self { searched, asked, lists } = *self;
        let wide = is_wide(ef, lists);
        let bound = certificate.expansion_bound(10, ef.max(10));
        let one = |((asked, list), unbounded): ((&LiveQuestion, &Vec<Scored>), &SearchHits<Scored>)| {
            let search = |k: usize| {
                searched.search(
                    asked,
                    certificate,
                    &SearchParams {
                        adaptive: true,
                        ..SearchParams::new(k, ef)
                    },
                )
            };
            // A scan expands nothing.
            let expanded = unbounded.cost.expanded;
            let is_cut = expanded > 0 && bound.is_some_and(|bound| expanded >= bound as u64);
            let found = if is_cut { search(10) } else { unbounded.clone() };
            let at_100 = if wide {
                recall_share(&search(100).hits, list, 100)
            } else {
                0.0
            };
            (
                recall_share(&found.hits, list, 10),
                at_100,
                found.cost.total(),
                found.cost.scored,
            )
        };
        let measured: Vec<(f64, f64, u64, u64)> = asked.par_iter().zip(lists).zip(&unbounded.found).map(one).collect();
        average_recall(ef, wide, &measured)
    }
}
