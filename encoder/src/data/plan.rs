//! The order of one epoch: batches in which no two answers are equal, and none answers another's question.
//!
//! A shuffled list is filled into batches; an example that does not fit into the one at hand waits for the next. What
//! still does not fit when the list has ended is swapped with an example of another batch; where no swap helps (an
//! answer of more examples than there are batches) it stays, and the batch's mask takes it out of the loss.

use std::collections::{HashSet, VecDeque};

use crate::random::Random;

use super::pairs::TokenizedPairs;
use super::repair::{SampledExample, repair};

/// Examples that wait and are tried for each batch: batch size times this.
const TRIED: usize = 4;

/// Keeps the order apart from other draws of the same seed and epoch.
const ORDER: u64 = 1;

/// One epoch: batch after batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EpochPlan {
    /// Examples and the place of the positive of each.
    pub(super) order: Vec<SampledExample>,
    /// Examples that stand in a batch into which they do not fit.
    pub(super) forced: usize,
}

/// Plans an epoch; `positive` draws the positive of an example.
pub(super) fn plan(
    pairs: &TokenizedPairs,
    batch: usize,
    seed: u64,
    epoch: u64,
    positive: impl Fn(u32) -> u32,
) -> EpochPlan {
    let mut list: Vec<u32> = (0..pairs.len() as u32).collect();
    Random::of(&[seed, epoch, ORDER]).shuffle(&mut list);
    let mut list = list.into_iter();
    let mut waiting: VecDeque<SampledExample> = VecDeque::new();
    let mut planned = EpochPlan {
        order: Vec::with_capacity(pairs.len()),
        forced: 0,
    };
    let mut forced = Vec::new();
    while planned.order.len() < pairs.len() {
        let mut filled = FilledBatch::default();
        let mut still = VecDeque::new();
        for _ in 0..waiting.len().min(batch.saturating_mul(TRIED)) {
            let Some(sampled) = waiting.pop_front() else { break };
            if filled.size < batch && filled.add(pairs, sampled) {
                planned.order.push(sampled);
            } else {
                still.push_back(sampled);
            }
        }
        while let Some(sampled) = still.pop_back() {
            waiting.push_front(sampled);
        }
        while filled.size < batch {
            let Some(example) = list.next() else { break };
            let sampled = SampledExample {
                example,
                positive: positive(example),
            };
            if filled.add(pairs, sampled) {
                planned.order.push(sampled);
            } else {
                waiting.push_back(sampled);
            }
        }
        while filled.size < batch {
            let Some(sampled) = waiting.pop_front() else { break };
            if !filled.add(pairs, sampled) {
                forced.push(planned.order.len());
                filled.size += 1;
            }
            planned.order.push(sampled);
        }
    }
    planned.forced = repair(pairs, &mut planned.order, batch, &forced);
    planned
}

/// The batch so far.
#[derive(Debug, Default)]
struct FilledBatch {
    size: usize,
    /// Classes of its answers.
    answers: HashSet<u32>,
    /// Classes that answer any of its questions.
    known: HashSet<u32>,
}

impl FilledBatch {
    /// Adds an example if it fits.
    fn add(&mut self, pairs: &TokenizedPairs, sampled: SampledExample) -> bool {
        let (class, known) = (
            pairs.class(pairs.answer(sampled.positive)),
            pairs.known(pairs.question(sampled.example)),
        );
        // The class is among those known, so equal answers are met here too.
        let fits = !self.known.contains(&class) && known.iter().all(|class| !self.answers.contains(class));
        if fits {
            self.size += 1;
            self.answers.insert(class);
            self.known.extend(known);
        }
        fits
    }
}
