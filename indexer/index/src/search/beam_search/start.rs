//! How a search begins, and begins again: the state of before is forgotten, and the rule chosen.

use super::super::params::StopRule;
use super::super::{Completeness, Cost, SlotLinks};
use super::{BeamSearch, Competitive, Fetch, SearchState};

impl SearchState {
    /// Starts at the slot `start`; the descent to it took `estimated` estimates. `prepared` holds the question, whose
    /// number is `query`.
    pub(in crate::search) fn start<L: SlotLinks + ?Sized, R: ?Sized>(
        &mut self,
        search: &BeamSearch<'_, L, R>,
        start: u32,
        estimated: u64,
    ) {
        self.competitive = search.min_competitive.and_then(|others| {
            let score = others
                .scores
                .get(self.query)
                .copied()
                .filter(|score| score.is_finite())?;
            let (length, own) = (self.prepared.length(), others.own_margin.unwrap_or(search.rule.margin));
            Some(Competitive {
                least: score - others.margin * length,
                own_margin: own * length,
            })
        });
        self.expanded = 0;
        self.met_allowed = 0;
        self.found.hits.clear();
        self.found.cost = Cost {
            estimated,
            ..Cost::default()
        };
        let is_complete = search.allowed.is_none_or(|allowed| allowed.is_complete);
        self.found.completeness = if is_complete {
            Completeness::Complete
        } else {
            Completeness::Damaged
        };
        self.is_out_of_distribution = false;
        self.is_far = self.starts_far(search, start);
        self.start_at(search, start);
    }

    /// Forgets what was visited, and starts at a slot, and at allowed ones where those alone are candidates.
    pub(super) fn start_at<L: SlotLinks + ?Sized, R: ?Sized>(&mut self, search: &BeamSearch<'_, L, R>, start: u32) {
        self.start = start;
        self.rule = self.chosen_rule(search);
        self.is_walked = search.left_out(self.query) == Some(start);
        self.candidates.clear();
        self.visited.reset(search.shard.codes.len());
        if let Some(slot) = search.left_out(self.query) {
            self.visited.insert(slot);
        }
        self.best.clear();
        self.fetch = Fetch::Links;
        if self.is_far {
            // Without a margin it means nothing.
            self.competitive = None;
        }
        if self.is_given_up(search) {
            self.found.worsen(Completeness::Limited);
        } else if self.visited.insert(start) || search.left_out(self.query) == Some(start) {
            // Infinite, so that it is the first candidate, and refined at once.
            self.candidates.push(f32::INFINITY, start);
        }
        if let Some(allowed) = self.two_hop(search).filter(|_| self.candidates.peek().is_some()) {
            self.start_among(search, allowed);
        }
    }

    fn chosen_rule<L: ?Sized, R: ?Sized>(&self, search: &BeamSearch<'_, L, R>) -> StopRule {
        let rule = if self.is_far {
            search.far_rule
        } else if self.is_out_of_distribution {
            search.beam_rule
        } else {
            search.rule
        };
        StopRule {
            margin: rule.margin * self.prepared.length(),
            ..rule
        }
    }
}
