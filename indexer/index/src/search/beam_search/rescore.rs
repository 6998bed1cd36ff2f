//! The last steps of a search: the best candidates become hits, and are scored from their vectors.

use super::super::{Completeness, ExactRows, SlotLinks};
use super::{BeamSearch, Fetch, SearchState};

impl SearchState {
    /// Ends the search early, with the best candidates so far.
    pub(in super::super) fn finish<L: SlotLinks + ?Sized, R: ExactRows + ?Sized>(
        &mut self,
        search: &BeamSearch<'_, L, R>,
        query: &[f32],
    ) {
        if !matches!(self.fetch, Fetch::Idle | Fetch::Vectors) {
            self.fetch = self.choose(search);
        }
        if self.fetch == Fetch::Vectors {
            self.rescore(search, query);
        }
    }

    /// Selects the candidates to rescore.
    pub(super) fn choose<L: SlotLinks + ?Sized, R: ExactRows + ?Sized>(
        &mut self,
        search: &BeamSearch<'_, L, R>,
    ) -> Fetch {
        if self.visited.has_invalid_link() {
            self.found.worsen(Completeness::Damaged);
        }
        let least = self.competitive.map_or(f32::NEG_INFINITY, |others| others.least);
        let competitive = self.best.partition_point(|candidate| candidate.score >= least);
        let last = self
            .best
            .get(search.wanted.saturating_sub(1))
            .map_or(f32::NEG_INFINITY, |last| last.score);
        // Equal vectors may be two slots: ties with the last are kept, so that the caller can break them by key.
        let wanted = self.best.partition_point(|candidate| candidate.score >= last);
        self.best.truncate(competitive.min(wanted));
        if search.rescore {
            search.shard.prefetch_vectors(&self.best);
        }
        Fetch::Vectors
    }

    /// Makes hits of the candidates that were selected.
    pub(super) fn rescore<L: SlotLinks + ?Sized, R: ExactRows + ?Sized>(
        &mut self,
        search: &BeamSearch<'_, L, R>,
        query: &[f32],
    ) {
        self.fetch = Fetch::Idle;
        let mut is_intact = true;
        if search.rescore {
            self.found.cost.scored += self.best.len() as u64;
            is_intact = search.shard.rescore(&mut self.best, query, &mut self.prepared);
        }
        is_intact &= search
            .shard
            .add_hits(&self.best, search.allowed, search.wanted, &mut self.found.hits);
        if !is_intact {
            self.found.worsen(Completeness::Damaged);
        }
    }
}
