//! How fast the model embeds, measured by its batches. Pure data: times are passed in.
//!
//! A batch of one question takes nearly as long as one of ten, so the rate depends on how much waits. It is kept for
//! each power of two of the backlog: the tokens that waited when a batch was cut, the batch's own included. Where so
//! large a backlog has not been met yet nothing is known, and no request is refused for lack of it; the first batch
//! that is cut from it tells.

use std::time::Duration;

/// Share of an average that a batch of usual size leaves to those before it.
const KEPT: f64 = 0.75;

/// Powers of two that are told apart; the last one stands for all above.
const CLASSES: usize = 32;

/// Measured speed of one class of backlog: a moving average, weighted by tokens.
#[derive(Debug, Clone, Copy, Default)]
struct BacklogRate {
    per_second: f64,
    /// Tokens that the average rests on, older ones for less; 0 where nothing was measured.
    weight: f64,
}

/// A measured rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    /// Tokens.
    pub(crate) per_second: f64,
    /// Tokens of a usual batch.
    pub(crate) batch: f64,
}

/// The rates of all backlogs.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    classes: [BacklogRate; CLASSES],
}

impl Rates {
    /// Records a batch: its tokens, the backlog that it was cut from, and the time that it took with that many batches
    /// at once, on average, itself included, which are taken to be as fast.
    pub(crate) fn measure(&mut self, backlog: usize, tokens: usize, at_once: f64, spent: Duration) {
        let measured = tokens as f64 * at_once / spent.as_secs_f64().max(1e-6);
        let at = class(backlog);
        let Some(class) = self.classes.get_mut(at) else { return };
        class.weight = class.weight * KEPT + tokens as f64;
        // An average of rates, not of times: one batch that the machine slept through weighs as one, however long it
        // took.
        class.per_second += (measured - class.per_second) * (tokens as f64 / class.weight.max(1.0));
        let now = class.per_second;
        // A larger backlog makes fuller batches, which are no slower: what was measured long ago gives way to that.
        for (other, class) in self.classes.iter_mut().enumerate() {
            if other < at {
                class.per_second = class.per_second.min(now);
            } else if class.weight > 0.0 {
                class.per_second = class.per_second.max(now);
            }
        }
    }

    /// The rate at a backlog; `None` where none so large has been met.
    pub(crate) fn at(&self, backlog: usize) -> Option<Rate> {
        let known = self
            .classes
            .iter()
            .skip(class(backlog))
            .find(|class| class.weight > 0.0)?;
        Some(Rate {
            per_second: known.per_second,
            batch: known.weight * (1.0 - KEPT),
        })
    }
}

fn class(backlog: usize) -> usize {
    (backlog.max(1).ilog2() as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn per_second(rates: &Rates, backlog: usize) -> Option<u64> {
        rates.at(backlog).map(|rate| rate.per_second.round() as u64)
    }

    #[test]
    fn nothing_is_known_of_a_backlog_that_was_never_met() {
        let mut rates = Rates::default();
        assert_eq!(rates.at(1), None);
        rates.measure(100, 100, 1.0, SECOND);
        assert_eq!(
            (per_second(&rates, 12), per_second(&rates, 127), per_second(&rates, 128)),
            (Some(100), Some(100), None)
        );
        assert_eq!(per_second(&rates, usize::MAX), None);
        rates.measure(usize::MAX, 1000, 1.0, SECOND);
        assert_eq!(per_second(&rates, usize::MAX), Some(1000));
    }

    #[test]
    fn one_slow_batch_counts_as_one_and_is_forgotten() {
        let mut rates = Rates::default();
        for _ in 0..20 {
            rates.measure(1000, 1000, 1.0, SECOND);
        }
        rates.measure(1000, 1000, 1.0, SECOND * 100);
        let slow = per_second(&rates, 1000).unwrap();
        assert!((740..770).contains(&slow), "{slow}");
        // After a slow hour too: one batch at the old speed brings back a quarter of it, four of them two thirds.
        for _ in 0..100 {
            rates.measure(1000, 1000, 1.0, SECOND * 100);
        }
        assert_eq!(per_second(&rates, 1000), Some(10));
        rates.measure(1000, 1000, 1.0, SECOND);
        assert!(per_second(&rates, 1000).unwrap() >= 250);
        for _ in 0..3 {
            rates.measure(1000, 1000, 1.0, SECOND);
        }
        assert!(per_second(&rates, 1000).unwrap() >= 660);
    }

    #[test]
    fn old_measures_give_way_to_new_ones_of_other_backlogs() {
        let mut rates = Rates::default();
        rates.measure(10, 10, 1.0, SECOND / 100);
        rates.measure(100_000, 2000, 1.0, SECOND / 10);
        assert_eq!(
            (per_second(&rates, 10), per_second(&rates, 100_000)),
            (Some(1000), Some(20_000))
        );
        // Slower under load than it ever was when idle: it is slower when idle as well.
        for _ in 0..50 {
            rates.measure(100_000, 2000, 1.0, SECOND * 10);
        }
        assert_eq!(
            (per_second(&rates, 10), per_second(&rates, 100_000)),
            (Some(200), Some(200))
        );
        // Faster when idle than it was under load: it is as fast under load.
        for _ in 0..50 {
            rates.measure(10, 10, 1.0, SECOND / 100);
        }
        assert_eq!(
            (per_second(&rates, 10), per_second(&rates, 100_000)),
            (Some(1000), Some(1000))
        );
    }

    #[test]
    fn a_usual_batch_is_known() {
        let mut rates = Rates::default();
        for _ in 0..50 {
            rates.measure(5000, 1800, 1.0, SECOND);
        }
        assert_eq!(rates.at(5000).map(|rate| rate.batch.round() as u64), Some(1800));
    }
}
