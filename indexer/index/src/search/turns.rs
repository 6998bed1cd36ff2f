//! Walks over a shard's codes: one question, or many that take turns on one thread.

use super::params::SearchParams;
use super::walk::{SearchState, ShardView, Walk};
use super::{Completeness, ExactRows, Hits, Scored, SlotLinks, UpperLayers};

/// Walks that take turns on one thread: enough to hide the latency of memory, few enough that their own memory stays
/// in the second-level cache.
const TURNS: usize = 8;
/// Steps between two looks at whether to end.
const STEPS_BETWEEN_LOOKS: u64 = 256;

/// Memory of searches on one thread, reused by the next ones.
#[derive(Debug, Default)]
pub struct SearchScratch {
    pub(super) states: Vec<SearchState>,
    slots: Vec<u32>,
    products: Vec<i32>,
    scores: Vec<f32>,
}

impl SearchScratch {
    /// The states of this many walks, all idle, to be given back after.
    pub(super) fn take_states(&mut self, walks: usize) -> Vec<SearchState> {
        let mut states = std::mem::take(&mut self.states);
        states.resize_with(walks.max(states.len()), SearchState::default);
        states
    }
}

impl<L: SlotLinks + UpperLayers + ?Sized, R: ExactRows + ?Sized> ShardView<'_, L, R> {
    /// Searches for every question of `queries`; `found` gets the number of each once, and its hits, in no fixed order: `k`
    /// and a few more, so that the caller can break ties before it cuts. Of many equal vectors at the cut only some are
    /// there. Questions of another dimension find nothing.
    pub fn search(
        &self,
        queries: &[&[f32]],
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
        mut found: impl FnMut(usize, Hits<Scored>),
    ) {
        let walk = Walk::new(self, params);
        let mut waiting = queries.iter().copied().enumerate();
        let mut cancelled = !queries.is_empty() && params.cancel.is_cancelled();
        let mut states = scratch.take_states(TURNS.min(queries.len()));
        let mut running = 0;
        if !cancelled {
            for state in states.iter_mut().take(TURNS) {
                running += usize::from(self.start_next(&mut waiting, state, scratch, &mut found));
            }
        }
        let mut steps = 0u64;
        while running > 0 {
            for state in states.iter_mut().filter(|state| !state.is_idle()) {
                let query = queries.get(state.query).copied().unwrap_or(&[]);
                let over = state.step(&walk, query);
                steps += 1;
                cancelled |= steps.is_multiple_of(STEPS_BETWEEN_LOOKS) && params.cancel.is_cancelled();
                if cancelled {
                    state.finish(&walk, query);
                    state.found.completeness = Completeness::Cancelled;
                } else if !over {
                    continue;
                }
                found(state.query, state.found.clone());
                if cancelled || !self.start_next(&mut waiting, state, scratch, &mut found) {
                    running -= 1;
                }
            }
        }
        scratch.states = states;
        waiting.for_each(|(number, _)| found(number, Hits::cancelled()));
    }

    /// Searches for one question.
    pub fn search_one(&self, query: &[f32], params: &SearchParams<'_>, scratch: &mut SearchScratch) -> Hits<Scored> {
        let mut hits = Hits::default();
        self.search(&[query], params, scratch, |_, found| hits = found);
        hits
    }

    /// Starts the walk of the next question that waits; false where none does.
    fn start_next<'q>(
        &self,
        waiting: &mut impl Iterator<Item = (usize, &'q [f32])>,
        state: &mut SearchState,
        scratch: &mut SearchScratch,
        found: &mut impl FnMut(usize, Hits<Scored>),
    ) -> bool {
        let codec = self.codes.codec();
        for (number, query) in waiting {
            if query.len() == codec.dim() {
                state.query = number;
                codec.prepare(query, &mut state.prepared);
                let (start, estimated, completeness) = self.descend(state, scratch);
                state.start(self.codes.len(), start, estimated);
                state.found.worsen(completeness);
                return true;
            }
            found(number, Hits::default());
        }
        false
    }

    /// Greedy descent through the upper layers, by estimates: the layers are a hint where to start, no more. The slot, the
    /// number of estimates, and whether the layers are damaged.
    fn descend(&self, state: &SearchState, scratch: &mut SearchScratch) -> (u32, u64, Completeness) {
        let SearchScratch { slots, products, scores, .. } = scratch;
        let mut here = self.links.entry();
        let (mut best, mut estimated, mut completeness) = (f32::NEG_INFINITY, 0, Completeness::Complete);
        for layer in (1..=self.links.max_layer()).rev() {
            loop {
                let Some(links) = self.links.upper(layer, here) else {
                    completeness = Completeness::Damaged;
                    break;
                };
                slots.clear();
                slots.extend_from_slice(links);
                self.codes.prefetch_lines(slots);
                self.codes.estimate(&state.prepared, slots, 0.0, products, scores);
                estimated += slots.len() as u64;
                let before = here;
                for (slot, score) in slots.iter().zip(scores.iter()) {
                    if *score > best {
                        (best, here) = (*score, *slot);
                    } else if score.is_nan() && !self.codes.is_sound(*slot) {
                        completeness = Completeness::Damaged;
                    }
                }
                if here == before {
                    break;
                }
            }
        }
        (here, estimated, completeness)
    }
}
