//! Beam search through a filter.
//!
//! A filtered search need not pay for the nodes that the filter leaves out (`SearchParams::two_hop`): where the links
//! of a candidate lead to few allowed slots, the links of the others are followed in their place, without a look at
//! their codes (ACORN-1: Patel et al. 2024, arXiv:2403.04871); and because all that is near the usual entry point may
//! be left out, it starts from allowed slots as well. A search for a question near which few are allowed becomes one of
//! this kind, with a wider beam ([`Far`]): among all nodes, it would expand very many that are not.

use super::super::params::Far;
use super::super::slot_set::SlotSet;
use super::super::{Completeness, Scored, SlotLinks};
use super::{BeamSearch, ENOUGH, Fetch, SearchState};

/// Allowed slots expected among those that are counted around the entry point.
const EXPECTED: f64 = 12.0;
/// Standard deviations below what is expected from which allowed nodes are too few: by chance in one search of 160.
const DEVIATIONS: f64 = 2.5;
/// Entry points of a filtered search beyond the usual one: the nearest of a sample of the allowed slots.
const ENTRIES: usize = 16;

/// Whether a count is below what is expected by more than chance makes it (Poisson).
fn is_too_few(counted: f64, expected: f64) -> bool {
    counted < expected - DEVIATIONS * expected.sqrt()
}

impl SearchState {
    /// More entry points, all of them allowed.
    pub(super) fn start_among<L: ?Sized, R: ?Sized>(&mut self, search: &BeamSearch<'_, L, R>, allowed: &SlotSet) {
        let (products, estimates) = (&mut self.products, &mut self.estimates);
        search
            .shard
            .codes
            .estimate(&self.prepared, &allowed.sample, 0.0, products, estimates);
        self.found.cost.estimated += allowed.sample.len() as u64;
        let sampled = allowed
            .sample
            .iter()
            .zip(&self.estimates)
            .filter(|(_, score)| !score.is_nan());
        let mut sampled: Vec<Scored> = sampled
            .map(|(slot, score)| Scored {
                node: *slot,
                score: *score,
            })
            .collect();
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

    /// Whether far fewer of the slots around the slot `start` than of all are allowed.
    pub(super) fn starts_far<L: SlotLinks + ?Sized, R: ?Sized>(
        &mut self,
        search: &BeamSearch<'_, L, R>,
        start: u32,
    ) -> bool {
        let (Some(Far { share, .. }), Some(allowed)) = (search.far, search.allowed) else {
            return false;
        };
        let links = &search.shard.links;
        let (near, others) = (&mut self.unvisited, &mut self.passed);
        near.clear();
        links.append(start, near);
        self.visited.reset(search.shard.codes.len());
        // Each counts once; a row is filled up with its own slot.
        self.visited.insert(start);
        self.visited.insert_all(near);
        for at in 0..near.len() {
            if near.len() as f64 * share >= EXPECTED {
                break;
            }
            others.clear();
            links.append(near[at], others);
            self.visited.insert_all(others);
            near.extend_from_slice(others);
        }
        if self.visited.has_invalid_link() {
            self.found.worsen(Completeness::Damaged);
        }
        let counted = near.len();
        allowed.partition(near, others);
        is_too_few(near.len() as f64, counted as f64 * share)
    }

    /// Whether a search for such a question is not worth its while.
    pub(super) fn is_given_up<L: ?Sized, R: ?Sized>(&self, search: &BeamSearch<'_, L, R>) -> bool {
        self.is_far && search.far.is_some_and(|far| far.ef.is_none())
    }

    /// The allowed slots, where only those are candidates.
    pub(super) fn two_hop<'a, L: ?Sized, R: ?Sized>(&self, search: &BeamSearch<'a, L, R>) -> Option<&'a SlotSet> {
        search.allowed.filter(|_| search.two_hop || self.is_far)
    }

    /// Whether far fewer of the nodes that were scored than of all are allowed, in a search among all nodes.
    pub(super) fn meets_few_allowed<L: ?Sized, R: ?Sized>(&self, search: &BeamSearch<'_, L, R>) -> bool {
        let met = self.found.cost.scored as f64;
        let is_few = |far: Far| is_too_few(self.met_allowed as f64, met * far.share);
        self.two_hop(search).is_none() && search.far.is_some_and(is_few)
    }

    /// Follows the links of neighbours that are not allowed, each of them once in a search, until enough slots that are
    /// allowed are found.
    pub(super) fn expand_again<L: SlotLinks + ?Sized, R: ?Sized>(&mut self, search: &BeamSearch<'_, L, R>) -> Fetch {
        let Some(allowed) = search.allowed else {
            return Fetch::Sketches;
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_too_few_only_where_more_are_expected_for_certain() {
        assert!(is_too_few(0.0, EXPECTED) && is_too_few(3.0, EXPECTED) && !is_too_few(4.0, EXPECTED));
        // Of a rare filter none may be met among the first nodes.
        assert!(!is_too_few(0.0, 20.0 / 40.0) && !is_too_few(0.0, 0.0));
        assert!(is_too_few(240.0, 300.0) && !is_too_few(270.0, 300.0));
    }
}
