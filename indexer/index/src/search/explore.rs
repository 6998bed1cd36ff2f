//! Walks from row to row, by codes alone, over links that may still grow: what graph builders search with.

use super::Lanes;
use super::lane::{Aim, Ground, Lane, SlotLinks};
use super::{DenseRows, Scored};
use crate::quant::{CodesView, Prepared};

/// Finds the neighbours of rows among the rows that links lead to. Slots are nodes here.
#[derive(Debug, Clone, Copy)]
pub struct Explorer<'a, L: ?Sized> {
    /// By node.
    pub codes: CodesView<'a>,
    /// By node.
    pub links: &'a L,
    /// `0..n`.
    pub identity: &'a [u32],
}

impl<L: SlotLinks + ?Sized> Explorer<'_, L> {
    /// Searches for each of `rows` with a beam of `ef`, all at once, taking turns. `start` gives where each walk begins;
    /// `found` gets every row with its nearest others by int8 codes, best first, at most `ef`.
    pub fn nearest(
        &self,
        rows: &[u32],
        ef: usize,
        memory: &mut Lanes,
        start: impl Fn(u32, &Prepared) -> u32,
        mut found: impl FnMut(u32, &[Scored]),
    ) {
        let ef = ef.min(self.codes.len());
        let rank = ef + 1;
        let aim = Aim { k: rank, rank, margin: 0.0, most: usize::MAX, bounded: false, passing: None, rescore: false };
        let nothing = DenseRows::new(&[], 0);
        let metric = self.codes.codec().metric();
        let ground = Ground { codes: self.codes, links: self.links, order: self.identity, rows: &nothing, metric };
        let mut lanes = std::mem::take(&mut memory.walks);
        if lanes.len() < rows.len() {
            lanes.resize_with(rows.len(), Lane::default);
        }
        for (lane, row) in lanes.iter_mut().zip(rows) {
            self.codes.prepare(*row, &mut lane.prepared);
            lane.query = *row as usize;
            let from = start(*row, &lane.prepared);
            lane.begin(&ground, from, 0);
        }
        let mut running = true;
        while running {
            running = false;
            for lane in lanes.iter_mut().take(rows.len()).filter(|lane| !lane.idle()) {
                running |= !lane.step(&ground, &aim, &[]);
            }
        }
        for (lane, row) in lanes.iter_mut().zip(rows) {
            lane.hits.retain(|hit| hit.node != *row);
            lane.hits.truncate(ef);
            found(*row, &lane.hits);
        }
        memory.walks = lanes;
    }
}
