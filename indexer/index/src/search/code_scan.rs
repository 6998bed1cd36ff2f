//! The scan of codes: all slots that a filter allows are estimated from their sketches, those that may be among the best are scored from
//! their int8 rows, and the best of these from the vectors.
//!
//! A sketch is a cache line, where a vector is a dozen: the scan takes a tenth of the time of [`exact_scan`](super::exact_scan), and loses
//! almost nothing (see [`CONFIDENCE`]).

use super::beam_search::rescored_filtered;
use super::flat::{SCAN_BATCH, Scan};
use super::interleaved::SearchScratch;
use super::params::SearchParams;
use super::view::ShardView;
use super::{Completeness, Cost, ExactRows, Hits, NodeSet, Scored};
use crate::quant::Prepared;

/// A row is scored where its estimate, raised by this many standard deviations of its error (`RaBitQ`, theorem 3.2), is among the best so
/// far. One in 44 errs by more: of the hits nearest to the threshold as many are lost, and fewer of the others.
const CONFIDENCE: f32 = 2.0;
/// Slots that are estimated together. Their sketches are prefetched, and are in the cache for all questions of the scan.
const BLOCK: usize = 256;
/// Hits beyond twice those kept before the threshold is found again.
const SLACK: usize = 64;
/// Int8 rows that are prefetched ahead of the one that is scored.
const AHEAD: usize = 4;

/// The scan for one question.
struct Question<'a> {
    number: usize,
    prepared: &'a mut Prepared,
    scan: Scan,
    cost: Cost,
    completeness: Completeness,
}

impl<L: ?Sized, R: ExactRows + ?Sized> ShardView<'_, L, R> {
    /// The `k` nearest of `allowed` for every question, with a few more and ties, as [`Self::search`] gives them. Of `params` only `k`
    /// and `cancel` count. A cancelled scan finds nothing.
    pub fn scan_codes(
        &self,
        queries: &[&[f32]],
        allowed: &NodeSet,
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
        mut found: impl FnMut(usize, Hits<Scored>),
    ) {
        let mut states = scratch.take_states(SCAN_BATCH.min(queries.len()));
        let numbered: Vec<(usize, &[f32])> = queries.iter().copied().enumerate().collect();
        for batch in numbered.chunks(SCAN_BATCH) {
            let mut questions = Vec::with_capacity(batch.len());
            for ((number, query), state) in batch.iter().zip(&mut states) {
                if query.len() != self.codes.codec().dim() {
                    found(*number, Hits::default());
                    continue;
                }
                self.codes.codec().prepare(query, &mut state.prepared);
                questions.push(Question {
                    number: *number,
                    prepared: &mut state.prepared,
                    scan: Scan::new(params.k + rescored_filtered(params.k), allowed.len(), SLACK),
                    cost: Cost { scans: 1, ..Cost::default() },
                    completeness: Completeness::Complete,
                });
            }
            self.scan_blocks(&mut questions, allowed, params, scratch);
            for question in questions {
                let query = queries.get(question.number).copied().unwrap_or(&[]);
                found(question.number, self.rescored(question, query, params.k));
            }
        }
        scratch.states = states;
    }

    /// Goes through the allowed slots, block by block, for all questions.
    fn scan_blocks(
        &self,
        questions: &mut [Question<'_>],
        allowed: &NodeSet,
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
    ) {
        let allowed = allowed.slots(self.order);
        let mut left = allowed.bits.ones().map(|slot| slot as u32);
        let (mut block, mut next) = (Vec::with_capacity(BLOCK), Vec::with_capacity(BLOCK));
        next.extend(left.by_ref().take(BLOCK));
        self.codes.prefetch_lines(&next);
        while !next.is_empty() {
            std::mem::swap(&mut block, &mut next);
            next.clear();
            next.extend(left.by_ref().take(BLOCK));
            self.codes.prefetch_lines(&next);
            let cancelled = params.cancel.is_cancelled();
            for question in questions.iter_mut() {
                if cancelled {
                    question.completeness = Completeness::Cancelled;
                } else {
                    self.scan_block(question, &block, scratch);
                }
            }
            if cancelled {
                return;
            }
        }
        if !allowed.is_complete {
            for question in questions.iter_mut() {
                question.completeness = Completeness::Damaged;
            }
        }
    }

    fn scan_block(&self, question: &mut Question<'_>, block: &[u32], scratch: &mut SearchScratch) {
        let SearchScratch { products, scores, promising, .. } = scratch;
        let Question { prepared, scan, cost, completeness, .. } = question;
        self.codes.estimate(prepared, block, CONFIDENCE, products, scores);
        cost.estimated += block.len() as u64;
        promising.clear();
        for (slot, score) in block.iter().zip(scores.iter()) {
            if *score >= scan.threshold {
                promising.push(Scored { node: *slot, score: *score });
            } else if score.is_nan() && !self.codes.is_valid(*slot) {
                *completeness = Completeness::Damaged;
            }
        }
        // The best first, so that the threshold soon leaves the others out.
        promising.sort_unstable_by(|a, b| b.cmp(a));
        promising.iter().take(AHEAD).for_each(|next| self.codes.prefetch_row(next.node));
        for (at, Scored { node: slot, score: estimate }) in promising.iter().enumerate() {
            if *estimate < scan.threshold {
                break;
            }
            if let Some(next) = promising.get(at + AHEAD) {
                self.codes.prefetch_row(next.node);
            }
            let score = self.codes.score(prepared, *slot);
            cost.scored += 1;
            if score >= scan.threshold {
                scan.add(Scored { node: *slot, score });
            } else if score.is_nan() && !self.codes.is_valid(*slot) {
                *completeness = Completeness::Damaged;
            }
        }
    }

    /// The hits of a finished scan, by the scores of their vectors.
    fn rescored(&self, question: Question<'_>, query: &[f32], k: usize) -> Hits<Scored> {
        let Question { scan, mut cost, mut completeness, .. } = question;
        if completeness == Completeness::Cancelled {
            return Hits { cost, ..Hits::cancelled() };
        }
        if k == 0 {
            return Hits { cost, completeness, ..Hits::default() };
        }
        let best = scan.finish();
        let nodes: Vec<u32> = best.iter().filter_map(|hit| self.node(hit.node)).collect();
        for node in &nodes {
            self.rows.prefetch(*node);
        }
        cost.scored += nodes.len() as u64;
        let mut hits = Vec::with_capacity(nodes.len());
        for node in nodes {
            let score = self.rows.score(node, query, self.metric);
            if !score.is_nan() {
                hits.push(Scored { node, score });
            } else if !self.rows.is_valid(node) {
                completeness = Completeness::Damaged;
            }
        }
        hits.sort_unstable_by(|a, b| b.cmp(a));
        // A node in two slots: the slot order is damaged.
        let scored = hits.len();
        hits.dedup_by_key(|hit| hit.node);
        if hits.len() < scored {
            completeness = Completeness::Damaged;
        }
        Hits { hits, cost, completeness }
    }
}
