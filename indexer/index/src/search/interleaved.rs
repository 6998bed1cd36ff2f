//! Beam searches of one shard for many questions, interleaved on one thread to hide the latency of memory.

use super::beam_search::{BeamSearch, SearchState};
use super::params::SearchParams;
use super::view::ShardView;
use super::{Completeness, ExactRows, Scored, SearchHits, SlotLinks, UpperLayers};
use crate::kernels::{BLOCK_ROWS, Lookup};
use crate::quant::SketchBlocks;

/// Searches interleaved on one thread: enough to hide the latency of memory, few enough that their own state stays in
/// the L2 cache.
const INTERLEAVED: usize = 8;
/// The same where rows come from the disk, which answers many requests at a time.
const INTERLEAVED_ON_DISK: usize = 32;
/// Steps between two checks for cancellation.
const STEPS_BETWEEN_CHECKS: u64 = 256;

/// Memory of the scan of codes for one question, reused for the next ones.
#[derive(Debug, Default)]
pub(super) struct ScanMemory {
    pub(super) lookup: Lookup,
    /// Estimates of the sampled slots first, then of the block that is scored.
    pub(super) estimates: Vec<[f32; BLOCK_ROWS]>,
    /// Slots that may be among the best, whose int8 rows are on their way.
    pub(super) promising: Vec<Scored>,
}

/// Scratch memory of the searches on one thread, reused by the next ones.
#[derive(Debug, Default)]
pub struct SearchScratch {
    pub(super) states: Vec<SearchState>,
    slots: Vec<u32>,
    pub(super) products: Vec<i32>,
    pub(super) scores: Vec<f32>,
    pub(super) blocks: SketchBlocks,
    pub(super) scans: Vec<ScanMemory>,
}

impl SearchScratch {
    /// The states of `searches` searches, all idle; the caller puts them back when it is done.
    pub(super) fn take_states(&mut self, searches: usize) -> Vec<SearchState> {
        let mut states = std::mem::take(&mut self.states);
        states.resize_with(searches.max(states.len()), SearchState::default);
        states
    }
}

impl<L: SlotLinks + UpperLayers + ?Sized, R: ExactRows + ?Sized> ShardView<'_, L, R> {
    /// Searches for every question of `queries`. `found` is called once for each, with its number and its hits, in no
    /// fixed order. There are `k` hits and a few more, so that the caller can break ties before it keeps `k`; of many
    /// vectors that tie with the k-th only some are among them. Questions of another dimension find nothing.
    pub fn search(
        &self,
        queries: &[&[f32]],
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
        mut found: impl FnMut(usize, SearchHits<Scored>),
    ) {
        let search = BeamSearch::new(self, params);
        let mut pending = queries.iter().copied().enumerate();
        let mut cancelled = !queries.is_empty() && params.cancel.is_cancelled();
        let interleaved = if self.codes.are_on_disk() {
            INTERLEAVED_ON_DISK
        } else {
            INTERLEAVED
        };
        let mut states = scratch.take_states(interleaved.min(queries.len()));
        let mut running = 0;
        if !cancelled {
            for state in states.iter_mut().take(interleaved) {
                running += usize::from(search.start_next(&mut pending, state, scratch, &mut found));
            }
        }
        let mut steps = 0u64;
        while running > 0 {
            for state in states.iter_mut().filter(|state| !state.is_idle()) {
                let query = queries.get(state.query).copied().unwrap_or(&[]);
                let over = if queries.len() == 1 {
                    state.step_alone(&search, query)
                } else {
                    state.step(&search, query)
                };
                steps += 1;
                cancelled |= steps.is_multiple_of(STEPS_BETWEEN_CHECKS) && params.cancel.is_cancelled();
                if cancelled {
                    state.finish(&search, query);
                    state.found.completeness = Completeness::Cancelled;
                } else if !over {
                    continue;
                }
                found(state.query, state.found.clone());
                if cancelled || !search.start_next(&mut pending, state, scratch, &mut found) {
                    running -= 1;
                }
            }
        }
        scratch.states = states;
        pending.for_each(|(number, _)| found(number, SearchHits::cancelled()));
    }

    /// Searches for one question.
    pub fn search_one(
        &self,
        query: &[f32],
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
    ) -> SearchHits<Scored> {
        let mut hits = SearchHits::default();
        self.search(&[query], params, scratch, |_, found| hits = found);
        hits
    }
}

impl<L: SlotLinks + UpperLayers + ?Sized, R: ExactRows + ?Sized> BeamSearch<'_, L, R> {
    /// Starts the search for the next pending question; false where none is left.
    fn start_next<'q>(
        &self,
        pending: &mut impl Iterator<Item = (usize, &'q [f32])>,
        state: &mut SearchState,
        scratch: &mut SearchScratch,
        found: &mut impl FnMut(usize, SearchHits<Scored>),
    ) -> bool {
        let codec = self.shard.codes.codec();
        for (number, query) in pending {
            if query.len() == codec.dim() {
                state.query = number;
                codec.prepare(query, &mut state.prepared);
                let (start, estimated, completeness) = self.shard.descend(state, self.left_out(number), scratch);
                state.start(self, start, estimated);
                state.found.worsen(completeness);
                return true;
            }
            found(number, SearchHits::default());
        }
        false
    }
}

impl<L: SlotLinks + UpperLayers + ?Sized, R: ?Sized> ShardView<'_, L, R> {
    /// Greedy descent through the upper layers by estimated scores, to an entry point of layer 0. Returns the slot, the
    /// number of estimates, and whether the layers are damaged. `left_out` is passed by.
    fn descend(
        &self,
        state: &SearchState,
        left_out: Option<u32>,
        scratch: &mut SearchScratch,
    ) -> (u32, u64, Completeness) {
        let SearchScratch {
            slots,
            products,
            scores,
            ..
        } = scratch;
        let mut current = self.links.entry();
        let (mut best, mut estimated, mut completeness) = (f32::NEG_INFINITY, 0, Completeness::Complete);
        for layer in (1..=self.links.max_layer()).rev() {
            loop {
                let Some(links) = self.links.upper(layer, current) else {
                    completeness = Completeness::Damaged;
                    break;
                };
                slots.clear();
                slots.extend_from_slice(links);
                self.codes.prefetch_lines(slots);
                self.codes.estimate(&state.prepared, slots, 0.0, products, scores);
                estimated += slots.len() as u64;
                let before = current;
                for (slot, score) in slots.iter().zip(scores.iter()) {
                    if *score > best && Some(*slot) != left_out {
                        (best, current) = (*score, *slot);
                    } else if score.is_nan() && !self.codes.is_valid(*slot) {
                        completeness = Completeness::Damaged;
                    }
                }
                if current == before {
                    break;
                }
            }
        }
        (current, estimated, completeness)
    }
}
