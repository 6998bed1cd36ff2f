//! Searches that walk past one slot, as if its vector were not in the graph: certificates ask for a document among the
//! others.

use super::super::{Scored, SlotLinks};
use super::{BeamSearch, SearchState};
use crate::quant::{CodesView, PreparedQuery};

impl<L: SlotLinks + ?Sized, R: ?Sized> BeamSearch<'_, L, R> {
    /// The slot that a question's search walks past.
    pub(in super::super) fn left_out(&self, query: usize) -> Option<u32> {
        let slot = self
            .left_out?
            .get(query)
            .map(|slot| self.shard.links.representative(*slot));
        slot.filter(|slot| (*slot as usize) < self.shard.codes.len())
    }
}

impl SearchState {
    /// Replaces a link of `slot` to the slot that is left out, among those that are followed next, by the link that a
    /// graph without the latter would have: to the nearest of its own neighbours that is nearer to `slot` than to any
    /// other link of `slot` (the rule of Malkov and Yashunin 2016, algorithm 4). Where there is none, the link is
    /// missing.
    ///
    /// With nothing in its place, recall@10 of 5,000 Gaussian vectors of 32 values is .957 at ef 64 and .626 at ef 16
    /// by cosine, where questions that are no documents have .979 and .754. With it, .979 and .732.
    #[cold]
    pub(super) fn bridge<L: SlotLinks + ?Sized, R: ?Sized>(&mut self, search: &BeamSearch<'_, L, R>, slot: u32) {
        let Some(left_out) = search.left_out(self.query).filter(|left_out| *left_out != slot) else {
            return;
        };
        let Some(at) = self.unvisited.iter().position(|link| *link == left_out) else {
            return;
        };
        self.unvisited.swap_remove(at);
        let (codes, links) = (&search.shard.codes, &mut self.unvisited);
        let mut beyond = Vec::new();
        search.shard.links.append(left_out, &mut beyond);
        beyond.retain(|link| is_slot(codes, *link) && *link != slot && *link != left_out && !links.contains(link));
        let mut prepared = PreparedQuery::default();
        codes.prepare_exact(slot, &mut prepared);
        let score = |link: &u32| Scored {
            node: *link,
            score: codes.score(&prepared, *link),
        };
        let mut nearest: Vec<Scored> = beyond.iter().map(score).collect();
        nearest.sort_unstable_by(|a, b| b.cmp(a));
        let is_diverse = |candidate: &Scored| {
            codes.prepare_exact(candidate.node, &mut prepared);
            let mut others = links.iter().filter(|link| is_slot(codes, **link) && **link != slot);
            others.all(|link| codes.score(&prepared, *link) < candidate.score)
        };
        if let Some(link) = nearest.into_iter().find(is_diverse) {
            links.push(link.node);
        }
    }
}

fn is_slot(codes: &CodesView<'_>, link: u32) -> bool {
    (link as usize) < codes.len()
}
