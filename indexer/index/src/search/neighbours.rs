//! Searches for the neighbours of stored rows, by codes alone, while links are still being added: for graph builders.

use super::beam_search::BeamSearch;
use super::params::SearchParams;
use super::view::ShardView;
use super::{DenseRows, Scored, SearchScratch, SlotLinks};
use crate::quant::{CodesView, PreparedQuery};

/// Finds the neighbours of rows among the rows that links lead to. Slots are nodes here.
#[derive(Debug)]
pub struct NeighbourSearch<'a, L: ?Sized> {
    /// The codes of the rows, by node.
    pub codes: CodesView<'a>,
    /// The links of the graph, by node.
    pub links: &'a L,
}

impl<L: SlotLinks + ?Sized> NeighbourSearch<'_, L> {
    /// Searches for each of `rows` with a beam of `ef`, all interleaved. `start` returns the entry point of each
    /// search; `found` is called with every row and its at most `ef` nearest others by int8 codes, best first.
    pub fn nearest(
        &self,
        rows: &[u32],
        ef: usize,
        scratch: &mut SearchScratch,
        start: impl Fn(u32, &PreparedQuery) -> u32,
        mut found: impl FnMut(u32, &[Scored]),
    ) {
        let (codes, ef) = (self.codes, ef.min(self.codes.len()));
        let none = DenseRows::new(&[], 0);
        let shard = ShardView {
            codes,
            links: self.links,
            order: None,
            rows: &none,
            metric: codes.codec().metric(),
        };
        // A row finds itself first.
        let search = BeamSearch::new(
            &shard,
            &SearchParams {
                rescore: false,
                ..SearchParams::new(ef + 1, ef + 1)
            },
        );
        let mut states = scratch.take_states(rows.len());
        for (state, row) in states.iter_mut().zip(rows) {
            codes.prepare(*row, &mut state.prepared);
            let entry = start(*row, &state.prepared);
            state.start(&search, entry, 0);
        }
        let mut running = true;
        while running {
            running = false;
            for state in states.iter_mut().take(rows.len()).filter(|state| !state.is_idle()) {
                running |= !state.step(&search, &[]);
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
