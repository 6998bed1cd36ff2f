//! One walk over codes as a sequence of short steps, each of which asks for the memory that the next one reads.
//!
//! A walk alone waits for memory most of its time: codes are spread over more of it than any cache holds. [`super::beam`]
//! lets several walks take turns on one thread, so that one computes while the lines of the others are on their way.
//!
//! The order of work of one walk:
//!
//! 1. **expand** the best candidate: its links that are new;
//! 2. **estimate** those from their sketches (one cache line each), and keep what may be good enough;
//! 3. **refine** the best candidate from its int8 row, once it is the best: most never are, and are never read;
//! 4. stop when the best candidate is worse than the `rank`-th best so far by more than `margin`;
//! 5. **rescore** the best `k` and a few more from the vectors themselves.
//!
//! The margin makes the beam as wide as the question needs ("distance adaptive beam search": Al-Jazzazi et al. 2025,
//! arXiv:2505.15636), where a fixed width is too wide for easy questions and too narrow for hard ones.

use super::frontier::Frontier;
use super::seen::Seen;
use super::{ExactRows, NodeSet, Scored};
use crate::model::Metric;
use crate::quant::{CodesView, Prepared};

/// Estimates are raised by this many standard deviations before they compete: below 0 good candidates are lost to the
/// noise, far above it too many bad ones are refined. Measured on MiniLM sentences, flat between 0 and 0.4.
const OPTIMISM: f32 = 0.2;
/// Candidates rescored beyond `k`: int8 order and exact order differ by a place or two.
pub const RESCORED: usize = 4;
/// Candidates kept beyond `k`, for ties at the cut: of more equal vectors than this, those met first are kept.
const SPARE: usize = 16;

/// Links of layer 0 by slot.
pub trait SlotLinks {
    /// Appends the links of a slot; its own slot among them is padding.
    fn append(&self, slot: u32, links: &mut Vec<u32>);
    /// Asks for the memory of a slot's links.
    fn prefetch(&self, slot: u32);
}

/// What a walk reads.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a, L: ?Sized, R: ?Sized> {
    pub(super) codes: CodesView<'a>,
    pub(super) links: &'a L,
    /// Slot to node.
    pub(super) order: &'a [u32],
    /// By node.
    pub(super) rows: &'a R,
    pub(super) metric: Metric,
}

/// What to look for; see [`super::BeamParams`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Aim<'a> {
    pub(super) k: usize,
    /// The walk ends when its best candidate is worse than the `rank`-th best so far by more than `margin`.
    pub(super) rank: usize,
    pub(super) margin: f32,
    /// Candidates expanded at most.
    pub(super) most: usize,
    /// Whether a walk that `most` ended is to say so.
    pub(super) bounded: bool,
    pub(super) passing: Option<&'a NodeSet>,
    pub(super) rescore: bool,
}

impl Aim<'_> {
    fn kept(&self) -> usize {
        self.rank.max(self.k + SPARE)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Idle,
    Choose,
    Estimate,
    Refine,
    Rescore,
}

/// Memory of a walk, reused by the next one.
#[derive(Debug, Default)]
pub(super) struct Lane {
    phase: Phase,
    pub(super) query: usize,
    pub(super) prepared: Prepared,
    frontier: Frontier,
    seen: Seen,
    expanded: usize,
    fresh: Vec<u32>,
    estimates: Vec<f32>,
    products: Vec<i32>,
    /// The best refined candidates that pass, best first, by slot.
    best: Vec<Scored>,
    pub(super) hits: Vec<Scored>,
    pub(super) estimated: u64,
    pub(super) scored: u64,
    /// The walk ended at its bound.
    pub(super) cut: bool,
}

impl Lane {
    pub(super) fn idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Starts at a slot, which `estimated` sketches led to. `prepared` holds the question.
    pub(super) fn begin<L: SlotLinks + ?Sized, R: ExactRows + ?Sized>(
        &mut self,
        ground: &Ground<'_, L, R>,
        start: u32,
        estimated: u64,
    ) {
        self.frontier.clear();
        self.expanded = 0;
        self.seen.reset(ground.codes.len());
        self.best.clear();
        self.hits.clear();
        (self.estimated, self.scored, self.cut) = (estimated, 0, false);
        if self.seen.insert(start) {
            // Chosen at once, and refined then.
            self.frontier.push(f32::INFINITY, start);
        }
        self.phase = Phase::Choose;
    }

    /// One step; true when the walk is over and `hits` holds what it found.
    pub(super) fn step<L: SlotLinks + ?Sized, R: ExactRows + ?Sized>(
        &mut self,
        ground: &Ground<'_, L, R>,
        aim: &Aim<'_>,
        query: &[f32],
    ) -> bool {
        match self.phase {
            Phase::Idle => return true,
            Phase::Choose => {}
            Phase::Estimate => self.estimate(ground, aim),
            Phase::Refine => self.refine(ground, aim),
            Phase::Rescore => {
                if aim.rescore {
                    self.rescore(ground, query);
                }
                self.phase = Phase::Idle;
                return true;
            }
        }
        self.choose(ground, aim);
        false
    }

    /// Ends the walk where it stands.
    pub(super) fn finish_now<L: ?Sized, R: ExactRows + ?Sized>(
        &mut self,
        ground: &Ground<'_, L, R>,
        aim: &Aim<'_>,
        query: &[f32],
    ) {
        if self.phase != Phase::Idle {
            if self.phase != Phase::Rescore {
                self.finish(ground, aim);
            }
            if aim.rescore {
                self.rescore(ground, query);
            }
            self.phase = Phase::Idle;
        }
    }

    /// What a candidate must exceed to be worth a look.
    fn threshold(&self, aim: &Aim<'_>) -> f32 {
        self.best.get(aim.rank - 1).map_or(f32::NEG_INFINITY, |worst| worst.score - aim.margin)
    }

    fn choose<L: SlotLinks + ?Sized, R: ExactRows + ?Sized>(&mut self, ground: &Ground<'_, L, R>, aim: &Aim<'_>) {
        let links_are_here = self.phase != Phase::Estimate;
        let threshold = self.threshold(aim);
        match self.frontier.top() {
            Some(top) if top.score >= threshold && self.expanded < aim.most => {
                if !top.refined {
                    ground.codes.prefetch_row(top.slot);
                    ground.links.prefetch(top.slot);
                    self.phase = Phase::Refine;
                } else if links_are_here {
                    self.expand(ground, top.slot);
                } else {
                    ground.links.prefetch(top.slot);
                    self.phase = Phase::Choose;
                }
            }
            Some(top) => {
                self.cut = aim.bounded && top.score >= threshold;
                self.finish(ground, aim);
            }
            None => self.finish(ground, aim),
        }
    }

    fn expand<L: SlotLinks + ?Sized, R: ?Sized>(&mut self, ground: &Ground<'_, L, R>, slot: u32) {
        self.frontier.pop();
        self.expanded += 1;
        self.fresh.clear();
        ground.links.append(slot, &mut self.fresh);
        self.seen.insert_all(&mut self.fresh);
        ground.codes.prefetch_lines(&self.fresh);
        self.phase = Phase::Estimate;
    }

    fn estimate<L: ?Sized, R: ?Sized>(&mut self, ground: &Ground<'_, L, R>, aim: &Aim<'_>) {
        let (products, estimates) = (&mut self.products, &mut self.estimates);
        ground.codes.estimate(&self.prepared, &self.fresh, OPTIMISM, products, estimates);
        self.estimated += self.fresh.len() as u64;
        let threshold = self.threshold(aim);
        for (slot, score) in self.fresh.iter().zip(&self.estimates) {
            if *score > threshold {
                self.frontier.push(*score, *slot);
            }
        }
    }

    fn refine<L: ?Sized, R: ?Sized>(&mut self, ground: &Ground<'_, L, R>, aim: &Aim<'_>) {
        let Some(top) = self.frontier.top() else { return };
        let score = ground.codes.score(&self.prepared, top.slot);
        self.scored += 1;
        if score.is_nan() {
            self.frontier.pop();
            return;
        }
        self.frontier.refine_top(score);
        let passes = aim
            .passing
            .is_none_or(|passing| ground.order.get(top.slot as usize).is_some_and(|node| passing.contains(*node)));
        let kept = aim.kept();
        if passes && (self.best.len() < kept || self.best.last().is_some_and(|last| score > last.score)) {
            let at = self.best.partition_point(|known| known.score >= score);
            self.best.truncate(kept - 1);
            self.best.insert(at, Scored { node: top.slot, score });
        }
    }

    /// Chooses what is rescored. Hits are nodes from here on.
    fn finish<L: ?Sized, R: ExactRows + ?Sized>(&mut self, ground: &Ground<'_, L, R>, aim: &Aim<'_>) {
        let wanted = if aim.rescore { aim.k + RESCORED } else { aim.k };
        for candidate in &self.best {
            // Equal vectors have equal codes: what ties with the last is kept, for the caller to break ties by key.
            if self.hits.len() >= wanted && self.hits.last().is_some_and(|last| last.score > candidate.score) {
                break;
            }
            // A damaged order may lead to no row.
            let node = ground.order.get(candidate.node as usize).filter(|node| (**node as usize) < ground.order.len());
            let Some(&node) = node else { continue };
            self.hits.push(Scored { node, score: candidate.score });
            if aim.rescore {
                ground.rows.prefetch(node);
            }
        }
        self.scored += if aim.rescore { self.hits.len() as u64 } else { 0 };
        self.phase = Phase::Rescore;
    }

    fn rescore<L: ?Sized, R: ExactRows + ?Sized>(&mut self, ground: &Ground<'_, L, R>, query: &[f32]) {
        for hit in &mut self.hits {
            hit.score = ground.rows.score(hit.node, query, ground.metric);
        }
        // A damaged row, or none; the order of hits would put it first.
        self.hits.retain(|hit| !hit.score.is_nan());
        self.hits.sort_unstable_by(|a, b| b.cmp(a));
    }
}
