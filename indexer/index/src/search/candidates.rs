//! The candidate queue of a beam search: a max-heap of integers that sort as the candidates' scores do.

use std::collections::BinaryHeap;

/// Set once the candidate's score comes from its int8 code; until then it comes from its sketch.
const REFINED: u32 = 1 << 31;
/// Slots that fit next to the flag.
pub const MAX_SLOTS: usize = REFINED as usize;

/// A candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) score: f32,
    pub(super) slot: u32,
    pub(super) refined: bool,
}

impl Candidate {
    /// Score in the upper half, as an integer that sorts as the score does (`f32::total_cmp`); slot and flag below.
    fn key(self) -> u64 {
        let bits = self.score.to_bits().cast_signed();
        let ordered = (bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()).cast_unsigned() ^ REFINED;
        let tag = self.slot | if self.refined { REFINED } else { 0 };
        u64::from(ordered) << 32 | u64::from(tag)
    }

    fn from_key(key: u64) -> Self {
        let ordered = ((key >> 32) as u32 ^ REFINED).cast_signed();
        let bits = ordered ^ ((ordered >> 31).cast_unsigned() >> 1).cast_signed();
        let tag = key as u32;
        let score = f32::from_bits(bits.cast_unsigned());
        Self {
            score,
            slot: tag & !REFINED,
            refined: tag & REFINED != 0,
        }
    }
}

/// Candidates, the best on top.
#[derive(Debug, Default)]
pub(super) struct CandidateQueue {
    heap: BinaryHeap<u64>,
}

impl CandidateQueue {
    pub(super) fn clear(&mut self) {
        self.heap.clear();
    }

    pub(super) fn push(&mut self, score: f32, slot: u32) {
        self.heap.push(
            Candidate {
                score,
                slot,
                refined: false,
            }
            .key(),
        );
    }

    pub(super) fn peek(&self) -> Option<Candidate> {
        self.heap.peek().map(|key| Candidate::from_key(*key))
    }

    /// The best candidate first, and others that are likely to come soon after it.
    pub(super) fn likely(&self, count: usize) -> impl Iterator<Item = Candidate> {
        // The upper levels of the heap: the second and the third best are there, the others mostly.
        self.heap
            .as_slice()
            .iter()
            .take(count)
            .map(|key| Candidate::from_key(*key))
    }

    pub(super) fn pop(&mut self) {
        self.heap.pop();
    }

    /// Replaces the score of the best candidate by a more exact one, after which it may no longer be the best.
    pub(super) fn refine_top(&mut self, score: f32) {
        if let Some(mut top) = self.heap.peek_mut() {
            *top = Candidate {
                score,
                refined: true,
                ..Candidate::from_key(*top)
            }
            .key();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn candidates_survive_their_keys_and_sort_by_score(
            a in prop::num::f32::ANY,
            b in prop::num::f32::ANY,
            slot in 0..REFINED,
            refined: bool,
        ) {
            let (left, right) = (Candidate { score: a, slot, refined }, Candidate { score: b, slot, refined });
            let read = Candidate::from_key(left.key());
            prop_assert_eq!(read.score.to_bits(), a.to_bits());
            prop_assert_eq!((read.slot, read.refined), (slot, refined));
            prop_assert_eq!(left.key().cmp(&right.key()), a.total_cmp(&b));
        }
    }

    #[test]
    fn the_likely_candidates_begin_with_the_best_three() {
        let mut candidates = CandidateQueue::default();
        for slot in 0..20_u32 {
            candidates.push(((slot * 7) % 20) as f32, slot);
        }
        let scores: Vec<i32> = candidates.likely(6).map(|candidate| candidate.score as i32).collect();
        assert!(scores.len() == 6 && scores[0] == 19 && [17, 18].iter().all(|score| scores.contains(score)));
    }

    #[test]
    fn a_refined_candidate_takes_its_new_place() {
        let mut candidates = CandidateQueue::default();
        candidates.push(0.5, 1);
        candidates.push(-0.4, 2);
        candidates.refine_top(-0.6);
        assert_eq!(
            candidates.peek(),
            Some(Candidate {
                score: -0.4,
                slot: 2,
                refined: false
            })
        );
        candidates.pop();
        assert_eq!(
            candidates.peek(),
            Some(Candidate {
                score: -0.6,
                slot: 1,
                refined: true
            })
        );
        candidates.pop();
        assert_eq!(candidates.peek(), None);
    }
}
