//! The end of a search by its rule, or by another where the rule was not meant for the question.

use super::super::{Completeness, ExactRows, SlotLinks};
use super::{BeamSearch, Fetch, SearchState};

impl SearchState {
    /// Ends the search as its rule says; that of a question which the rule is not meant for begins again.
    #[cold]
    pub(super) fn end<L: SlotLinks + ?Sized, R: ExactRows + ?Sized>(&mut self, search: &BeamSearch<'_, L, R>) -> Fetch {
        if let Some(slot) = search
            .left_out(self.query)
            .filter(|_| self.best.len() < search.rule.k && !self.is_walked)
        {
            // The only link between other slots may be through it.
            self.is_walked = true;
            self.candidates.push(f32::INFINITY, slot);
            search.shard.links.prefetch(slot);
            return Fetch::Links;
        }
        // Where other shards have nearer documents, this one's tell nothing of the question.
        let unknown = !self.is_far && !self.is_out_of_distribution && self.competitive.is_none();
        let Some(questions) = search.out_of_distribution.filter(|_| unknown) else {
            return self.choose(search);
        };
        let kth = self.best.get(search.rule.k - 1);
        if kth.is_none_or(|kth| kth.score >= questions.below * self.prepared.length()) {
            return self.choose(search);
        }
        self.is_out_of_distribution = true;
        self.found.cost.out_of_distribution = 1;
        // A beam would expand no more.
        if self.expanded >= search.beam_rule.rank {
            return self.choose(search);
        }
        self.restart(search)
    }

    /// Begins again, by another rule.
    #[cold]
    pub(super) fn restart<L: SlotLinks + ?Sized, R: ?Sized>(&mut self, search: &BeamSearch<'_, L, R>) -> Fetch {
        // It may not be met again.
        if self.visited.has_invalid_link() {
            self.found.worsen(Completeness::Damaged);
        }
        self.start_at(search, self.start);
        Fetch::Links
    }
}
