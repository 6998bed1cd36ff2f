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
/// Slots whose estimates are kept: the best of them are scored first, so that there is a threshold for all others from the start.
const FIRST: usize = 8192;
/// The best are found by a sample of every eighth of these estimates.
const SAMPLED: usize = 8;
/// Slots that are scored first, about, for each hit that is wanted.
const TAKEN: usize = 2;
/// Hits beyond twice those kept before the threshold is found again.
const SLACK: usize = 64;
/// Int8 rows that are prefetched ahead of the one that is scored.
const AHEAD: usize = 4;

/// The scan for one question.
struct Question<'a> {
    number: usize,
    prepared: &'a mut Prepared,
    scan: Scan,
    /// Of the first slots, until there is a threshold.
    estimates: Vec<f32>,
    cost: Cost,
    completeness: Completeness,
}

/// Estimates that are compared together: few groups hold one that is high enough.
const GROUP: usize = 16;

/// The slots whose estimates are not below `least`, with these.
fn not_below(least: f32, slots: &[u32], estimates: &[f32], found: &mut Vec<Scored>) {
    found.clear();
    let mut look = |slots: &[u32], estimates: &[f32]| {
        let each = slots.iter().zip(estimates).filter(|(_, estimate)| **estimate >= least);
        found.extend(each.map(|(slot, estimate)| Scored { node: *slot, score: *estimate }));
    };
    let ((groups, rest), (of_groups, of_rest)) = (estimates.as_chunks::<GROUP>(), slots.as_chunks::<GROUP>());
    for (estimates, slots) in groups.iter().zip(of_groups) {
        // A sum, so that they are compared in registers.
        if estimates.iter().map(|estimate| u32::from(*estimate >= least)).sum::<u32>() > 0 {
            look(slots, estimates);
        }
    }
    look(of_rest, rest);
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
                    estimates: Vec::with_capacity(allowed.len().min(FIRST)),
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
        let mut first = Vec::with_capacity(allowed.len().min(FIRST));
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
            if params.cancel.is_cancelled() {
                for question in questions.iter_mut() {
                    question.completeness = Completeness::Cancelled;
                }
                return;
            }
            let is_first = first.len() < FIRST;
            for question in questions.iter_mut() {
                let SearchScratch { products, scores, .. } = scratch;
                self.codes.estimate(question.prepared, &block, CONFIDENCE, products, scores);
                question.cost.estimated += block.len() as u64;
                if is_first {
                    question.estimates.extend_from_slice(scores);
                } else {
                    self.score_promising(question, &block, scratch);
                }
            }
            if is_first {
                first.extend_from_slice(&block);
                if first.len() >= FIRST || next.is_empty() {
                    for question in questions.iter_mut() {
                        self.score_first(question, &first, scratch);
                    }
                }
            }
        }
        if !allowed.is_complete {
            for question in questions.iter_mut() {
                question.completeness = Completeness::Damaged;
            }
        }
    }

    /// Scores the first slots that may be among the best: those with the best estimates, which gives a threshold, then the others above it.
    fn score_first(&self, question: &mut Question<'_>, first: &[u32], scratch: &mut SearchScratch) {
        let SearchScratch { scores: sample, promising, .. } = scratch;
        let estimates = std::mem::take(&mut question.estimates);
        let wanted = question.scan.wanted().saturating_add(1);
        sample.clear();
        sample.extend(estimates.iter().step_by(SAMPLED).filter(|estimate| !estimate.is_nan()));
        let mut rank = TAKEN.saturating_mul(wanted).div_ceil(SAMPLED);
        let least = loop {
            let enough = rank < sample.len();
            let least =
                if enough { *sample.select_nth_unstable_by(rank, |a, b| b.total_cmp(a)).1 } else { f32::NEG_INFINITY };
            not_below(least, first, &estimates, promising);
            if !enough || promising.len() >= wanted {
                break least;
            }
            rank *= 2;
        };
        self.score(question, promising);
        question.scan.compact();
        let threshold = question.scan.threshold;
        if threshold < least {
            not_below(threshold, first, &estimates, promising);
            promising.retain(|one| one.score < least);
            self.score(question, promising);
        }
        self.look_for_damage(question, first, &estimates);
    }

    /// Scores the slots of a block, of which `scratch` has the estimates, that may be among the best.
    fn score_promising(&self, question: &mut Question<'_>, block: &[u32], scratch: &mut SearchScratch) {
        let SearchScratch { scores, promising, .. } = scratch;
        not_below(question.scan.threshold, block, scores, promising);
        self.score(question, promising);
        self.look_for_damage(question, block, scores);
    }

    /// Notes codes that are damaged, by their estimates.
    fn look_for_damage(&self, question: &mut Question<'_>, slots: &[u32], estimates: &[f32]) {
        let none = estimates.iter().fold(true, |none, estimate| none & !estimate.is_nan());
        if !none && slots.iter().zip(estimates).any(|(slot, estimate)| estimate.is_nan() && !self.codes.is_valid(*slot))
        {
            question.completeness = Completeness::Damaged;
        }
    }

    /// Scores slots by their int8 rows, as long as their estimates are not below the threshold.
    fn score(&self, question: &mut Question<'_>, promising: &[Scored]) {
        let Question { prepared, scan, cost, completeness, .. } = question;
        promising.iter().take(AHEAD).for_each(|next| self.codes.prefetch_row(next.node));
        for (at, Scored { node: slot, score: estimate }) in promising.iter().enumerate() {
            if let Some(next) = promising.get(at + AHEAD) {
                self.codes.prefetch_row(next.node);
            }
            if *estimate < scan.threshold {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Metric;
    use crate::quant::{Codec, Codes};
    use crate::rows::DenseRows;
    use crate::search::SearchScratch;

    const DIM: usize = 32;

    fn values(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        (0..count * DIM).map(|_| next()).collect()
    }

    /// Whatever is scored first: nothing is lost whose estimate and score are not below the last hit's score, in the first slots and in the blocks
    /// after them.
    #[test]
    fn all_that_estimate_and_score_allow_is_found() {
        let (all, questions) = (values(15_000, 1), values(7, 2));
        let rows = DenseRows::new(&all, DIM);
        let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Dot, 3));
        let codes = codes.view();
        let view = ShardView { codes, links: &(), order: None, rows: &rows, metric: Metric::Dot };
        let queries: Vec<&[f32]> = questions.chunks(DIM).collect();
        for (step, k) in [(1, 10), (1, 600), (2, 1), (2, 10), (40, 10), (40, 1_000)] {
            let mut allowed = NodeSet::new(15_000);
            (0..15_000).filter(|node| node % step == 0).for_each(|node| _ = allowed.insert(node));
            let slots: Vec<u32> = allowed.iter().collect();
            let params = SearchParams { allowed: Some(&allowed), ..SearchParams::new(k, k) };
            let (mut prepared, mut products, mut estimates) = (Prepared::default(), Vec::new(), Vec::new());
            let mut answered = 0;
            view.scan_codes(&queries, &allowed, &params, &mut SearchScratch::default(), |number, found| {
                answered += 1;
                codes.codec().prepare(queries[number], &mut prepared);
                codes.estimate(&prepared, &slots, CONFIDENCE, &mut products, &mut estimates);
                let hits: Vec<u32> = found.hits.iter().map(|hit| hit.node).collect();
                assert!(hits.len() >= slots.len().min(k + rescored_filtered(k)), "{step} {k}: {}", hits.len());
                let last = hits.iter().map(|node| codes.score(&prepared, *node)).fold(f32::INFINITY, f32::min);
                for (slot, estimate) in slots.iter().zip(&estimates) {
                    let is_due = *estimate >= last && codes.score(&prepared, *slot) >= last;
                    assert!(!is_due || hits.contains(slot), "{step} {k}: slot {slot}");
                }
                assert_eq!((found.cost.estimated, found.cost.scans), (slots.len() as u64, 1));
                assert!(
                    k > 10 || step > 2 || found.cost.scored < slots.len() as u64 / 2,
                    "{step} {k}: {}",
                    found.cost.scored
                );
            });
            assert_eq!(answered, queries.len());
        }
    }
}
