//! Beam search through a filter.
//!
//! A filtered search need not pay for the nodes that the filter leaves out (`SearchParams::two_hop`): where the links of a candidate lead
//! to few allowed slots, the links of the others are followed in their place, without a look at their codes (ACORN-1: Patel et al.
//! 2024, arXiv:2403.04871); and because all that is near the usual entry point may be left out, it starts from allowed slots as well.
//! A search for a question near which few are allowed becomes one of this kind, with a wider beam ([`Far`]): among all nodes, it would expand
//! very many that are not.

use super::super::node_set::SlotSet;
use super::super::params::Far;
use super::super::{Scored, SlotLinks};
use super::{BeamSearch, ENOUGH, Fetch, SearchState};

/// Allowed links expected among those that are counted around the entry point, and by how many standard deviations fewer are too few.
const EXPECTED: f64 = 12.0;
const DEVIATIONS: f64 = 2.5;
/// Entry points of a filtered search beyond the usual one: the nearest of a sample of the allowed slots.
const ENTRIES: usize = 16;

impl SearchState {
    /// More entry points, all of them allowed.
    pub(super) fn start_among<L: ?Sized, R: ?Sized>(&mut self, search: &BeamSearch<'_, L, R>, allowed: &SlotSet) {
        let (products, estimates) = (&mut self.products, &mut self.estimates);
        search.shard.codes.estimate(&self.prepared, &allowed.sample, 0.0, products, estimates);
        self.found.cost.estimated += allowed.sample.len() as u64;
        let sampled = allowed.sample.iter().zip(&self.estimates).filter(|(_, score)| !score.is_nan());
        let mut sampled: Vec<Scored> = sampled.map(|(slot, score)| Scored { node: *slot, score: *score }).collect();
        let entries = ENTRIES.min(sampled.len());
        if let Some(last) = entries.checked_sub(1) {
            sampled.select_nth_unstable_by(last, |a, b| b.cmp(a));
        }
        for entry in sampled.iter().take(entries) {
            if self.visited.insert(entry.node) {
                self.candidates.push(entry.score, entry.node);
            }
        }
    }

    /// Whether far fewer of the links around the slot `start` than of all nodes are allowed.
    pub(super) fn starts_far<L: SlotLinks + ?Sized, R: ?Sized>(
        &mut self,
        search: &BeamSearch<'_, L, R>,
        start: u32,
    ) -> bool {
        let (Some(Far { share, .. }), Some(allowed)) = (search.far, search.allowed) else { return false };
        let links = &search.shard.links;
        let (near, others) = (&mut self.unvisited, &mut self.passed);
        near.clear();
        links.append(start, near);
        let first = near.len();
        for at in 0..first {
            if near.len() as f64 * share >= EXPECTED {
                break;
            }
            let next = near[at];
            links.append(next, near);
        }
        let expected = near.len() as f64 * share;
        allowed.partition(near, others);
        (near.len() as f64) < expected - DEVIATIONS * expected.sqrt()
    }

    /// Whether a search for such a question is not worth its while.
    pub(super) fn is_given_up<L: ?Sized, R: ?Sized>(&self, search: &BeamSearch<'_, L, R>) -> bool {
        self.is_far && search.far.is_some_and(|far| far.ef.is_none())
    }

    /// The allowed slots, where only those are candidates.
    pub(super) fn two_hop<'a, L: ?Sized, R: ?Sized>(&self, search: &BeamSearch<'a, L, R>) -> Option<&'a SlotSet> {
        search.allowed.filter(|_| search.two_hop || self.is_far)
    }

    /// Whether the share of allowed nodes among those that were scored is less than half of that among all.
    pub(super) fn meets_few_allowed<L: ?Sized, R: ?Sized>(&self, search: &BeamSearch<'_, L, R>) -> bool {
        let met = self.found.cost.scored as f64;
        let is_few = |far: Far| (self.met_allowed as f64) < met * far.share / 2.0;
        self.two_hop(search).is_none() && search.far.is_some_and(is_few)
    }

    /// Follows the links of neighbours that are not allowed, each of them once in a search, until enough slots that are allowed are found.
    pub(super) fn expand_again<L: SlotLinks + ?Sized, R: ?Sized>(&mut self, search: &BeamSearch<'_, L, R>) -> Fetch {
        let Some(allowed) = search.allowed else { return Fetch::Sketches };
        let (mut links, mut others) = std::mem::take(&mut self.links);
        for slot in &self.passed {
            if self.unvisited.len() >= ENOUGH {
                break;
            }
            if self.visited.insert(*slot) {
                links.clear();
                search.shard.links.append(*slot, &mut links);
                self.visited.check_all(&links);
                allowed.partition(&mut links, &mut others);
                self.visited.insert_all(&mut links);
                self.unvisited.extend_from_slice(&links);
            }
        }
        self.links = (links, others);
        search.shard.codes.prefetch_lines(&self.unvisited);
        Fetch::Sketches
    }
}
