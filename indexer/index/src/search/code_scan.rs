//! The scan of codes: all slots that a filter allows are estimated from their sketches, those that may be among the
//! best are scored from their int8 rows, and the best of these from the vectors.
//!
//! A sketch is a cache line, where a vector is a dozen: the scan takes a tenth of the time of
//! [`exact_scan`](super::exact_scan), and loses almost nothing (see [`CONFIDENCE`]).

use super::flat::Scan;
use super::interleaved::{ScanMemory, SearchScratch};
use super::params::SearchParams;
use super::rescore::rescored_filtered;
use super::slot_set::{FIRST, SlotBlocks};
use super::view::ShardView;
use super::{Completeness, Cost, ExactRows, NodeSet, Scored, SearchHits, SlotLinks};
use crate::kernels::BLOCK_ROWS;
use crate::quant::PreparedQuery;

/// A row is scored where its estimate, raised by this many standard deviations of its error (`RaBitQ`, theorem 3.2), is
/// among the best so far. One in 44 errs by more: of the hits nearest to the threshold as many are lost, and fewer of
/// the others.
pub(super) const CONFIDENCE: f32 = 2.0;
/// Questions that are answered in one pass: they share what it costs to lay out the sketches.
const QUESTIONS: usize = 32;
/// Slots that are scored first, about, for each hit that is wanted: the threshold is the better for it.
const TAKEN: usize = 2;
/// Largest group of estimates of which only the best is ranked: as many groups as slots are to be taken, and one more,
/// have a best estimate that is not below the first threshold.
const GROUP: usize = 64;
/// Fewest groups for each slot that is to be taken.
const GROUPS: usize = 4;
/// Hits beyond twice those kept before the threshold is found again.
const SLACK: usize = 16;
/// Int8 rows that are prefetched ahead of the one that is scored.
const AHEAD: usize = 4;

/// The scan for one question.
struct ScannedQuestion<'a> {
    number: usize,
    prepared: &'a mut PreparedQuery,
    /// A slot that is no hit.
    left_out: Option<u32>,
    memory: ScanMemory,
    scan: Scan,
    cost: Cost,
    completeness: Completeness,
}

/// The best estimate of each group of `size`; NaN is none.
fn best_of_each(size: usize, estimates: &[f32], best: &mut Vec<f32>) {
    let larger = |best: f32, estimate: &f32| if *estimate > best { *estimate } else { best };
    best.clear();
    best.extend(estimates.chunks(size).map(|group| {
        let (lanes, rest) = group.as_chunks::<8>();
        // Side by side, so that they are compared in registers.
        let best = lanes.iter().fold([f32::NEG_INFINITY; 8], |best, lanes| {
            std::array::from_fn(|at| larger(best[at], &lanes[at]))
        });
        rest.iter().chain(&best).fold(f32::NEG_INFINITY, larger)
    }));
}

/// Adds the slots of a block whose bit in `rows` is set.
fn add_rows(mut rows: u64, slots: &[u32], estimates: &[f32; BLOCK_ROWS], promising: &mut Vec<Scored>) {
    while rows != 0 {
        let row = rows.trailing_zeros() as usize;
        rows &= rows - 1;
        if let Some(slot) = slots.get(row) {
            promising.push(Scored {
                node: *slot,
                score: estimates[row],
            });
        }
    }
}

impl<L: SlotLinks + ?Sized, R: ExactRows + ?Sized> ShardView<'_, L, R> {
    /// The `k` nearest of `allowed` for every question, with a few more and ties, as [`Self::search`] gives them. Of
    /// `params` only `k`, `left_out` and `cancel` count. A cancelled scan finds nothing.
    pub fn scan_codes(
        &self,
        queries: &[&[f32]],
        allowed: &NodeSet,
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
        mut found: impl FnMut(usize, SearchHits<Scored>),
    ) {
        let mut states = scratch.take_states(QUESTIONS.min(queries.len()));
        let numbered: Vec<(usize, &[f32])> = queries.iter().copied().enumerate().collect();
        for batch in numbered.chunks(QUESTIONS) {
            let mut questions = Vec::with_capacity(batch.len());
            for ((number, query), state) in batch.iter().zip(&mut states) {
                if query.len() != self.codes.codec().dim() {
                    found(*number, SearchHits::default());
                    continue;
                }
                self.codes.codec().prepare(query, &mut state.prepared);
                let mut memory = scratch.scans.pop().unwrap_or_default();
                state.prepared.look_up(CONFIDENCE, &mut memory.lookup);
                let left_out = params.left_out.and_then(|slots| slots.get(*number));
                // A scan that was cancelled has left some.
                memory.estimates.clear();
                memory.promising.clear();
                questions.push(ScannedQuestion {
                    number: *number,
                    prepared: &mut state.prepared,
                    left_out: left_out.map(|slot| self.links.representative(*slot)),
                    memory,
                    scan: Scan::new(params.k + rescored_filtered(params.k), allowed.len(), SLACK),
                    cost: Cost {
                        scans: 1,
                        ..Cost::default()
                    },
                    completeness: Completeness::Complete,
                });
            }
            if questions.is_empty() {
                continue;
            }
            self.scan_blocks(&mut questions, allowed, params, scratch);
            for mut question in questions {
                scratch.scans.push(std::mem::take(&mut question.memory));
                let query = queries.get(question.number).copied().unwrap_or(&[]);
                found(question.number, self.rescored(question, allowed, query, params.k));
            }
        }
        scratch.states = states;
    }

    /// Goes through the allowed slots, block by block, for all questions.
    fn scan_blocks(
        &self,
        questions: &mut [ScannedQuestion<'_>],
        allowed: &NodeSet,
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
    ) {
        let mut blocks = SlotBlocks::new(allowed.slots(self.order, self.links), self.codes, questions.len());
        let (mut first, mut has_threshold) = (Vec::with_capacity(allowed.len().min(FIRST)), false);
        while blocks.advance(&mut scratch.blocks) {
            if params.cancel.is_cancelled() {
                for question in questions.iter_mut() {
                    question.completeness = Completeness::Cancelled;
                }
                return;
            }
            for question in questions.iter_mut() {
                self.estimate(question, &blocks, scratch);
                if has_threshold {
                    self.score_promising(question, blocks.slots());
                }
            }
            if !has_threshold {
                first.extend_from_slice(blocks.slots());
                if first.len() >= FIRST {
                    has_threshold = true;
                    for question in questions.iter_mut() {
                        self.score_first(question, &first, scratch);
                    }
                }
            }
        }
        for question in questions.iter_mut() {
            if has_threshold {
                self.score_promising(question, &[]);
            } else {
                self.score_first(question, &first, scratch);
            }
            if blocks.is_damaged() {
                question.completeness = Completeness::Damaged;
            }
        }
    }

    /// Scores the first slots that may be among the best: those with the best estimates, which gives a threshold, then
    /// the others above it.
    fn score_first(&self, question: &mut ScannedQuestion<'_>, first: &[u32], scratch: &mut SearchScratch) {
        let best = &mut scratch.scores;
        let ScanMemory {
            lookup,
            mut estimates,
            mut promising,
        } = std::mem::take(&mut question.memory);
        let taken = question.scan.max_hits().saturating_mul(TAKEN);
        let size = (first.len() / taken.saturating_mul(GROUPS).max(1)).clamp(1, GROUP);
        best_of_each(size, estimates.as_flattened(), best);
        let enough = taken < best.len();
        let least = if enough {
            *best.select_nth_unstable_by(taken, |a, b| b.total_cmp(a)).1
        } else {
            f32::NEG_INFINITY
        };
        promising.clear();
        for (slots, estimates) in first.chunks(BLOCK_ROWS).zip(&estimates) {
            add_rows(self.codes.not_below(estimates, least), slots, estimates, &mut promising);
        }
        self.score(question, &promising, AHEAD);
        question.scan.compact();
        let threshold = question.scan.threshold;
        if threshold < least {
            promising.clear();
            for (slots, estimates) in first.chunks(BLOCK_ROWS).zip(&estimates) {
                let rows = self.codes.not_below(estimates, threshold) & !self.codes.not_below(estimates, least);
                add_rows(rows, slots, estimates, &mut promising);
            }
            self.score(question, &promising, AHEAD);
        }
        estimates.clear();
        promising.clear();
        question.memory = ScanMemory {
            lookup,
            estimates,
            promising,
        };
    }

    /// Adds the estimates of a block.
    fn estimate(&self, question: &mut ScannedQuestion<'_>, blocks: &SlotBlocks<'_>, scratch: &mut SearchScratch) {
        let SearchScratch {
            blocks: sketches,
            products,
            scores,
            ..
        } = scratch;
        let ScannedQuestion {
            prepared,
            memory,
            cost,
            completeness,
            ..
        } = question;
        cost.estimated += blocks.slots().len() as u64;
        for (at, slots) in blocks.slots().chunks(BLOCK_ROWS).enumerate() {
            let mut estimates = [f32::NAN; BLOCK_ROWS];
            if let Some((sketches, first)) = blocks.sketches(sketches) {
                self.codes
                    .estimate_block(&memory.lookup, sketches, first + at, &mut estimates);
            } else {
                self.codes.estimate(prepared, slots, CONFIDENCE, products, scores);
                estimates
                    .iter_mut()
                    .zip(scores.iter())
                    .for_each(|(to, from)| *to = *from);
                if scores.iter().any(|score| !score.is_finite()) && slots.iter().any(|slot| !self.codes.is_valid(*slot))
                {
                    *completeness = Completeness::Damaged;
                }
            }
            memory.estimates.push(estimates);
        }
    }

    /// Scores the promising slots of the block before, whose rows have come in the meantime, and finds those of a block
    /// of which the estimates are the last ones.
    fn score_promising(&self, question: &mut ScannedQuestion<'_>, slots: &[u32]) {
        let mut promising = std::mem::take(&mut question.memory.promising);
        self.score(question, &promising, 0);
        promising.clear();
        for (slots, estimates) in slots.chunks(BLOCK_ROWS).zip(&question.memory.estimates) {
            add_rows(
                self.codes.not_below(estimates, question.scan.threshold),
                slots,
                estimates,
                &mut promising,
            );
        }
        question.memory.estimates.clear();
        for one in &promising {
            self.codes.prefetch_code(one.node);
        }
        question.memory.promising = promising;
    }

    /// Scores slots by their int8 rows, as long as their estimates are not below the threshold; prefetches those
    /// `ahead` of the one that is scored, where that has not been done.
    fn score(&self, question: &mut ScannedQuestion<'_>, promising: &[Scored], ahead: usize) {
        let ScannedQuestion {
            prepared,
            left_out,
            scan,
            cost,
            completeness,
            ..
        } = question;
        promising
            .iter()
            .take(ahead)
            .for_each(|next| self.codes.prefetch_code(next.node));
        for (
            at,
            Scored {
                node: slot,
                score: estimate,
            },
        ) in promising.iter().enumerate()
        {
            if let Some(next) = promising.get(at + ahead).filter(|_| ahead > 0) {
                self.codes.prefetch_code(next.node);
            }
            if *estimate < scan.threshold || *left_out == Some(*slot) {
                continue;
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
    fn rescored(
        &self,
        question: ScannedQuestion<'_>,
        allowed: &NodeSet,
        query: &[f32],
        k: usize,
    ) -> SearchHits<Scored> {
        let ScannedQuestion {
            prepared,
            scan,
            mut cost,
            mut completeness,
            ..
        } = question;
        if completeness == Completeness::Cancelled {
            return SearchHits {
                cost,
                ..SearchHits::cancelled()
            };
        }
        if k == 0 {
            return SearchHits {
                cost,
                completeness,
                ..SearchHits::default()
            };
        }
        let mut best = scan.finish();
        self.prefetch_vectors(&best);
        cost.scored += best.len() as u64;
        let mut hits = Vec::with_capacity(best.len());
        let (slots, wanted) = (allowed.slots(self.order, self.links), k + rescored_filtered(k));
        let mut is_intact = self.rescore(&mut best, query, prepared);
        is_intact &= self.add_hits(&best, Some(slots), wanted, &mut hits);
        if !is_intact {
            completeness = Completeness::Damaged;
        }
        SearchHits {
            hits,
            cost,
            completeness,
        }
    }
}
