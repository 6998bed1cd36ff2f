//! Beam search over quantised codes, as a sequence of short steps, each of which prefetches the memory that the next
//! reads.
//!
//! A search alone spends most of its time waiting for memory: the codes do not fit into any cache.
//! [`super::interleaved`] runs several searches on one thread in turn, so that one computes while the cache lines of
//! the others are fetched.
//!
//! The steps of one search:
//!
//! 1. **expand** the best candidate: its links to slots that were not visited;
//! 2. **estimate** those from their sketches (one cache line each), and keep what may be good enough;
//! 3. **refine** the best candidate from its int8 row, once it is the best: most never are, and are never read;
//! 4. stop as the [`StopRule`] says;
//! 5. **rescore** the best `k` and a few more from the vectors themselves.
//!
//! `start.rs` says how a search begins, `filtered.rs` what differs through a filter, `end.rs` what becomes of questions
//! that the rule is not meant for, `rescore.rs` which candidates become hits, `left_out.rs` how a search walks past a
//! slot.

mod end;
mod filtered;
mod left_out;
mod rescore;
mod start;

use super::candidates::CandidateQueue;
use super::params::{Far, MinCompetitive, OutOfDistribution, SearchParams, StopRule};
use super::rescore::{SPARE, rescored, rescored_filtered};
use super::slot_set::SlotSet;
use super::view::ShardView;
use super::visited::VisitedSet;
use super::{Completeness, ExactRows, NodeSet, Scored, SearchHits, SlotLinks};
use crate::quant::PreparedQuery;

/// Allowed slots that an expansion looks for before it follows no more links of others.
const ENOUGH: usize = 32;
/// Candidates whose rows and links a search that has its thread for itself prefetches: the best, and those that may
/// come soon after it. One question per call takes 2 to 4 % less time at recall .956 and 5 to 7 % at .997, p99 9 %
/// there (100,000 MiniLM sentences); prefetching their neighbours' sketches too gains nothing more. Where searches are
/// interleaved, the others compute meanwhile.
const LIKELY: usize = 6;
/// The same where their rows come from the disk, each of which takes as long as all of a search in memory.
const LIKELY_ON_DISK: usize = 16;
/// Expansions after which a search among all nodes first compares the share of allowed ones that it has met with that
/// of all; it does so again after twice as many, and so on.
const PROBED: usize = 16;

/// What one call searches for, where, and when it stops: shared by the searches for all of its questions.
pub(super) struct BeamSearch<'a, L: ?Sized, R: ?Sized> {
    pub(super) shard: &'a ShardView<'a, L, R>,
    rule: StopRule,
    allowed: Option<&'a SlotSet>,
    /// Whether only those are candidates.
    two_hop: bool,
    far: Option<Far>,
    /// The rule for questions that are far from what is allowed.
    far_rule: StopRule,
    out_of_distribution: Option<OutOfDistribution>,
    /// The rule for questions that are.
    beam_rule: StopRule,
    min_competitive: Option<MinCompetitive<'a>>,
    left_out: Option<&'a [u32]>,
    rescore: bool,
    /// Candidates rescored, and others that are hits otherwise.
    wanted: usize,
}

impl<'a, L: SlotLinks + ?Sized, R: ?Sized> BeamSearch<'a, L, R> {
    pub(super) fn new(shard: &'a ShardView<'a, L, R>, params: &SearchParams<'a>) -> Self {
        let rule = StopRule::new(params, shard.codes.len());
        let SearchParams {
            two_hop,
            far,
            out_of_distribution,
            min_competitive,
            left_out,
            rescore,
            ..
        } = *params;
        let ef = far.and_then(|far| far.ef).unwrap_or(params.ef);
        let far_rule = StopRule::new(
            &SearchParams {
                ef,
                margin: None,
                max_expansions: None,
                ..*params
            },
            shard.codes.len(),
        );
        let ef = out_of_distribution.map_or(params.ef, |questions| questions.ef);
        let beam_rule = StopRule::new(
            &SearchParams {
                ef,
                margin: None,
                ..*params
            },
            shard.codes.len(),
        );
        let allowed = params.allowed.map(|allowed| allowed.slots(shard.order, shard.links));
        let is_live = |allowed: &NodeSet| params.live.is_some_and(|live| std::ptr::eq(live, allowed));
        let is_filtered = params.allowed.is_some_and(|allowed| !is_live(allowed));
        let beyond = if is_filtered {
            rescored_filtered(rule.k)
        } else {
            rescored(rule.k)
        };
        let wanted = rule.k + if rescore { beyond } else { 0 };
        Self {
            shard,
            rule,
            allowed,
            two_hop,
            far,
            far_rule,
            out_of_distribution,
            beam_rule,
            min_competitive,
            left_out,
            rescore,
            wanted,
        }
    }
}

/// What other shards have found for a question.
#[derive(Debug, Clone, Copy)]
struct Competitive {
    /// Candidates below this lead to no hit.
    least: f32,
    /// Candidates that are farther below the nearest so far lead to none that is nearer.
    own_margin: f32,
}

/// The memory that a search prefetched in its last step, and reads in its next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Fetch {
    /// None: there is no search.
    #[default]
    Idle,
    /// Links of the best candidate.
    Links,
    /// Links of its neighbours that are not allowed.
    SecondLinks,
    /// Sketches of unvisited slots.
    Sketches,
    /// The best candidate's int8 row, and its links.
    Row,
    /// Vectors of the best candidates.
    Vectors,
}

/// The state of one search; its memory is reused by the next one.
#[derive(Debug, Default)]
pub(super) struct SearchState {
    /// Number of the question.
    pub(super) query: usize,
    /// When the search ends; its margin is for the question's length.
    rule: StopRule,
    pub(super) prepared: PreparedQuery,
    pub(super) found: SearchHits<Scored>,
    fetch: Fetch,
    candidates: CandidateQueue,
    visited: VisitedSet,
    expanded: usize,
    /// Allowed slots that were scored.
    met_allowed: u64,
    /// Whether few nodes near the question are allowed.
    is_far: bool,
    /// Whether the question is out of distribution.
    is_out_of_distribution: bool,
    /// Whether the slot that is left out has been followed after all.
    is_walked: bool,
    /// The entry point.
    start: u32,
    unvisited: Vec<u32>,
    /// Neighbours of the best candidate that are not allowed.
    passed: Vec<u32>,
    /// Links of one of these: the allowed slots, and others.
    links: (Vec<u32>, Vec<u32>),
    products: Vec<i32>,
    estimates: Vec<f32>,
    /// The best refined candidates that are allowed, best first, by slot.
    best: Vec<Scored>,
    /// What is competitive, where other shards have hits.
    competitive: Option<Competitive>,
}

impl SearchState {
    pub(super) fn is_idle(&self) -> bool {
        self.fetch == Fetch::Idle
    }

    /// One step; true when the search is over and `found` holds its hits.
    pub(super) fn step<L: SlotLinks + ?Sized, R: ExactRows + ?Sized>(
        &mut self,
        search: &BeamSearch<'_, L, R>,
        query: &[f32],
    ) -> bool {
        match self.fetch {
            Fetch::Idle => return true,
            Fetch::Links => {}
            Fetch::SecondLinks => {
                self.fetch = self.expand_again(search);
                return false;
            }
            Fetch::Sketches => self.estimate(search),
            Fetch::Row => self.refine(search),
            Fetch::Vectors => {
                self.rescore(search, query);
                return true;
            }
        }
        let shard = search.shard;
        let links_are_here = self.fetch != Fetch::Sketches;
        let threshold = self.threshold();
        self.fetch = match self.candidates.peek().filter(|best| best.score >= threshold) {
            None => self.end(search),
            Some(_) if self.expanded >= self.rule.max_expansions => {
                if self.rule.limited {
                    self.found.worsen(Completeness::Limited);
                    self.choose(search)
                } else {
                    self.end(search)
                }
            }
            Some(_) if self.expanded >= PROBED && self.expanded.is_power_of_two() && self.meets_few_allowed(search) => {
                self.is_far = true;
                self.restart(search)
            }
            Some(best) if !best.refined => {
                shard.codes.prefetch_row(best.slot);
                shard.links.prefetch(best.slot);
                Fetch::Row
            }
            Some(best) if links_are_here => self.expand(search, best.slot),
            Some(best) => {
                shard.links.prefetch(best.slot);
                Fetch::Links
            }
        };
        false
    }

    /// The score below which a candidate is not expanded: that of the `rank`-th best so far, less the margin. Where
    /// other shards have better hits, what is not competitive with those is expanded only to find the nearest node of
    /// this shard.
    fn threshold(&self) -> f32 {
        let rule = &self.rule;
        let own = self
            .best
            .get(rule.rank - 1)
            .map_or(f32::NEG_INFINITY, |worst| worst.score - rule.margin);
        match (self.competitive, self.best.first()) {
            (Some(others), Some(nearest)) => own.max(others.least.min(nearest.score - others.own_margin)),
            _ => own,
        }
    }

    fn expand<L: SlotLinks + ?Sized, R: ?Sized>(&mut self, search: &BeamSearch<'_, L, R>, slot: u32) -> Fetch {
        let shard = search.shard;
        self.candidates.pop();
        self.expanded += 1;
        self.found.cost.expanded += 1;
        self.unvisited.clear();
        shard.links.append(slot, &mut self.unvisited);
        if search.left_out.is_some() {
            self.bridge(search, slot);
        }
        let two_hop = self.two_hop(search);
        if let Some(allowed) = two_hop {
            allowed.partition(&mut self.unvisited, &mut self.passed);
            // Marked once they are followed: those after enough allowed ones are left to the next expansion that meets
            // them.
            self.visited.retain_unvisited(&mut self.passed);
        }
        self.visited.insert_all(&mut self.unvisited);
        if two_hop.is_some() && self.unvisited.len() < ENOUGH && !self.passed.is_empty() {
            self.passed.iter().for_each(|slot| shard.links.prefetch(*slot));
            return Fetch::SecondLinks;
        }
        shard.codes.prefetch_lines(&self.unvisited);
        Fetch::Sketches
    }

    fn estimate<L: ?Sized, R: ?Sized>(&mut self, search: &BeamSearch<'_, L, R>) {
        let optimism = self.rule.optimism;
        let (products, estimates) = (&mut self.products, &mut self.estimates);
        search
            .shard
            .codes
            .estimate(&self.prepared, &self.unvisited, optimism, products, estimates);
        self.found.cost.estimated += self.unvisited.len() as u64;
        let threshold = self.threshold();
        if let Some(odd) = self.estimates.iter().position(|score| score.is_nan()) {
            self.check_codes(search, self.unvisited[odd]);
        }
        // No branch until those above the threshold are at the front: which these are is as good as random.
        let (slots, scores, mut kept) = (self.unvisited.as_mut_slice(), self.estimates.as_mut_slice(), 0);
        for at in 0..slots.len().min(scores.len()) {
            let (slot, score) = (slots[at], scores[at]);
            (slots[kept], scores[kept]) = (slot, score);
            kept += usize::from(score > threshold);
        }
        for (slot, score) in slots.iter().zip(scores).take(kept) {
            self.candidates.push(*score, *slot);
        }
    }

    /// A step of a search that has its thread for itself: what the steps after the next read is asked for early enough
    /// to be there.
    pub(super) fn step_alone<L: SlotLinks + ?Sized, R: ExactRows + ?Sized>(
        &mut self,
        search: &BeamSearch<'_, L, R>,
        query: &[f32],
    ) -> bool {
        let has_new = self.fetch == Fetch::Sketches;
        let over = self.step(search, query);
        if has_new && !over {
            self.prefetch_likely(search);
        }
        over
    }

    fn prefetch_likely<L: SlotLinks + ?Sized, R: ?Sized>(&self, search: &BeamSearch<'_, L, R>) {
        let likely = if search.shard.codes.are_on_disk() {
            LIKELY_ON_DISK
        } else {
            LIKELY
        };
        for candidate in self.candidates.likely(likely) {
            if !candidate.refined {
                search.shard.codes.prefetch_row(candidate.slot);
            }
            search.shard.links.prefetch(candidate.slot);
        }
    }

    /// Called for a slot whose score is not a number: either its codes are damaged, or the question has such values.
    #[cold]
    fn check_codes<L: ?Sized, R: ?Sized>(&mut self, search: &BeamSearch<'_, L, R>, slot: u32) {
        if !search.shard.codes.is_valid(slot) {
            self.found.worsen(Completeness::Damaged);
        }
    }

    fn refine<L: SlotLinks + ?Sized, R: ?Sized>(&mut self, search: &BeamSearch<'_, L, R>) {
        let Some(candidate) = self.candidates.peek() else {
            return;
        };
        let score = search.shard.codes.score(&self.prepared, candidate.slot);
        self.found.cost.scored += 1;
        if score.is_nan() {
            self.check_codes(search, candidate.slot);
            self.candidates.pop();
            return;
        }
        self.candidates.refine_top(score);
        let rule = &self.rule;
        let kept = rule.rank.max(rule.k + SPARE).max(search.wanted);
        let is_good = self.best.len() < kept || self.best.last().is_some_and(|last| score > last.score);
        let is_allowed = search
            .allowed
            .is_none_or(|allowed| allowed.bits.contains(candidate.slot as usize))
            && search.left_out(self.query) != Some(candidate.slot);
        self.met_allowed += u64::from(is_allowed);
        if is_good && is_allowed {
            let at = self.best.partition_point(|known| known.score >= score);
            self.best.truncate(kept - 1);
            self.best.insert(
                at,
                Scored {
                    node: candidate.slot,
                    score,
                },
            );
        }
    }
}
