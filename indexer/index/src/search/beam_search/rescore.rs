//! The last steps of a search: the best candidates become hits, and are scored from their vectors.

use super::super::{Completeness, ExactRows, Scored};
use super::{BeamSearch, Fetch, SearchState};

impl SearchState {
    /// Ends the search early, with the best candidates so far.
    pub(in super::super) fn finish<L: ?Sized, R: ExactRows + ?Sized>(
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

    /// Selects the candidates to rescore. From here on, hits are nodes and not slots.
    pub(super) fn choose<L: ?Sized, R: ExactRows + ?Sized>(&mut self, search: &BeamSearch<'_, L, R>) -> Fetch {
        let (hits, wanted) = (&mut self.found.hits, search.wanted);
        let mut damaged = self.visited.has_invalid_link();
        let (demanded, margin) = self.min_competitive;
        for candidate in self.best.iter().take_while(|candidate| candidate.score >= demanded - margin) {
            // Equal vectors have equal codes: ties with the last are kept, so that the caller can break them by key.
            if hits.len() >= wanted && hits.last().is_some_and(|last| last.score > candidate.score) {
                break;
            }
            if let Some(node) = search.shard.node(candidate.node) {
                hits.push(Scored { node, score: candidate.score });
                if search.rescore {
                    search.shard.rows.prefetch(node);
                }
            } else {
                damaged = true;
            }
        }
        if damaged {
            self.found.worsen(Completeness::Damaged);
        }
        Fetch::Vectors
    }

    pub(super) fn rescore<L: ?Sized, R: ExactRows + ?Sized>(&mut self, search: &BeamSearch<'_, L, R>, query: &[f32]) {
        self.fetch = Fetch::Idle;
        if search.rescore {
            let (hits, rows) = (&mut self.found.hits, search.shard.rows);
            self.found.cost.scored += hits.len() as u64;
            for hit in &mut *hits {
                hit.score = rows.score(hit.node, query, search.shard.metric);
            }
            // Sorting would put scores that are not numbers first.
            let mut damaged = hits.iter().any(|hit| hit.score.is_nan() && !rows.is_valid(hit.node));
            hits.retain(|hit| !hit.score.is_nan());
            hits.sort_unstable_by(|a, b| b.cmp(a));
            // A node in two slots: the slot order is damaged.
            let chosen = hits.len();
            hits.dedup_by_key(|hit| hit.node);
            damaged |= hits.len() < chosen;
            if damaged {
                self.found.worsen(Completeness::Damaged);
            }
        }
    }
}
