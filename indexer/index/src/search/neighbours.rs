//! Walks from row to row, by codes alone, over links that may still grow: what graph builders search with.

use super::params::SearchParams;
use super::walk::{ShardView, Walk};
use super::{DenseRows, Scored, SearchScratch, SlotLinks};
use crate::quant::{CodesView, Prepared};

/// Finds the neighbours of rows among the rows that links lead to. Slots are nodes here.
#[derive(Debug)]
pub struct NeighbourSearch<'a, L: ?Sized> {
    /// By node.
    pub codes: CodesView<'a>,
    /// By node.
    pub links: &'a L,
}

impl<L: SlotLinks + ?Sized> NeighbourSearch<'_, L> {
    /// Searches for each of `rows` with a beam of `ef`, all at once, taking turns. `start` gives where each walk begins;
    /// `found` gets every row with its nearest others by int8 codes, best first, at most `ef`.
    pub fn nearest(
        &self,
        rows: &[u32],
        ef: usize,
        scratch: &mut SearchScratch,
        start: impl Fn(u32, &Prepared) -> u32,
        mut found: impl FnMut(u32, &[Scored]),
    ) {
        let (codes, ef) = (self.codes, ef.min(self.codes.len()));
        let none = DenseRows::new(&[], 0);
        let shard = ShardView { codes, links: self.links, order: None, rows: &none, metric: codes.codec().metric() };
        // A row finds itself first.
        let walk = Walk::new(&shard, &SearchParams { rescore: false, ..SearchParams::new(ef + 1, ef + 1) });
        let mut states = scratch.take_states(rows.len());
        for (state, row) in states.iter_mut().zip(rows) {
            codes.prepare(*row, &mut state.prepared);
            state.start(codes.len(), start(*row, &state.prepared), 0);
        }
        let mut running = true;
        while running {
            running = false;
            for state in states.iter_mut().take(rows.len()).filter(|state| !state.is_idle()) {
                running |= !state.step(&walk, &[]);
            }
        }
        for (state, row) in states.iter_mut().zip(rows) {
            let hits = &mut state.found.hits;
            hits.retain(|hit| hit.node != *row);
            hits.truncate(ef);
            found(*row, hits);
        }
        scratch.states = states;
    }
}
