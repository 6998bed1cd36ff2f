//! Swaps between batches, so that what the plan had to force finds a place where it fits.

use super::pairs::TokenizedPairs;

/// Comparisons of two examples at most in one epoch: data in which one answer is everywhere has no better order to be
/// found.
const COMPARISONS: usize = 20_000_000;

/// An example of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SampledExample {
    pub(super) example: u32,
    /// The place of its positive among the members.
    pub(super) positive: u32,
}

/// Swaps each forced example with one of another batch where both then fit; gives the number of those that stay forced.
/// Batches are tried from the first, so that the outcome is a function of its input.
pub(super) fn repair(pairs: &TokenizedPairs, order: &mut [SampledExample], batch: usize, forced: &[usize]) -> usize {
    let mut left = COMPARISONS;
    let mut stays = 0;
    for &at in forced {
        match partner(pairs, order, batch, at, &mut left) {
            Some(other) => order.swap(at, other),
            None => stays += 1,
        }
    }
    stays
}

/// The first place that the example at `at` can be swapped with.
fn partner(
    pairs: &TokenizedPairs,
    order: &[SampledExample],
    batch: usize,
    at: usize,
    left: &mut usize,
) -> Option<usize> {
    let sampled = *order.get(at)?;
    let own = at / batch * batch..(at / batch * batch + batch).min(order.len());
    for start in (0..order.len()).step_by(batch).filter(|&start| start != own.start) {
        let other = start..(start + batch).min(order.len());
        let clashing = clashes(pairs, order, other.clone(), sampled, None, left)?;
        let candidates = match clashing.as_slice() {
            [] => other,
            [one] => *one..one + 1,
            _ => continue,
        };
        for candidate in candidates {
            let theirs = *order.get(candidate)?;
            if clashes(pairs, order, own.clone(), theirs, Some(at), left)?.is_empty() {
                return Some(candidate);
            }
        }
    }
    None
}

/// Places within `range`, but for `except`, whose examples cannot stand in one batch with `sampled`: two of them at
/// most. `None` once there were too many comparisons.
fn clashes(
    pairs: &TokenizedPairs,
    order: &[SampledExample],
    range: std::ops::Range<usize>,
    sampled: SampledExample,
    except: Option<usize>,
    left: &mut usize,
) -> Option<Vec<usize>> {
    *left = left.checked_sub(range.len())?;
    let places = range.filter(|&place| Some(place) != except);
    Some(
        places
            .filter(|&place| order.get(place).is_some_and(|&other| clash(pairs, sampled, other)))
            .take(2)
            .collect(),
    )
}

/// Whether the answer of one is known to answer the question of the other; equal answers are.
fn clash(pairs: &TokenizedPairs, one: SampledExample, other: SampledExample) -> bool {
    let questions = [one, other].map(|sampled| pairs.question(sampled.example));
    let answers = [one, other].map(|sampled| pairs.answer(sampled.positive));
    pairs.answers(questions[0], answers[1]) || pairs.answers(questions[1], answers[0])
}
