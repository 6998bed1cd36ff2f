//! The highest rate that passes: geometric steps until one fails, then bisection.

/// Ratio of two rates while none has failed (or passed) yet.
const STEP: f64 = 1.6;
/// The search ends when the lowest failing rate is at most this many times the highest passing one.
const PRECISION: f64 = 1.06;
/// No rate below is tried, in requests per second.
const LOWEST: f64 = 0.1;

/// Whether most of `repeats` passes meet the goal, as soon as the others cannot change that.
pub(super) fn most(repeats: usize, met: usize, missed: usize) -> Option<bool> {
    let needed = repeats / 2 + 1;
    if met >= needed {
        Some(true)
    } else {
        (missed + needed > repeats).then_some(false)
    }
}

/// Which rates have passed and failed.
#[derive(Debug)]
pub(super) struct RateSearch {
    next: f64,
    passed: Option<f64>,
    failed: Option<f64>,
}

impl RateSearch {
    pub(super) fn new(first: f64) -> Self {
        Self {
            next: first.max(LOWEST),
            passed: None,
            failed: None,
        }
    }

    /// The next rate to try; none when the search is over.
    pub(super) fn next(&self) -> Option<f64> {
        match (self.passed, self.failed) {
            (Some(passed), Some(failed)) if failed <= passed * PRECISION => None,
            (None, Some(failed)) if failed <= LOWEST => None,
            _ => Some(self.next),
        }
    }

    /// Takes in whether that rate has passed.
    pub(super) fn tell(&mut self, has_passed: bool) {
        let place = if has_passed { &mut self.passed } else { &mut self.failed };
        *place = Some(self.next);
        self.next = match (self.passed, self.failed) {
            (Some(passed), Some(failed)) => (passed * failed).sqrt(),
            (Some(passed), None) => passed * STEP,
            (None, Some(failed)) => (failed / STEP).max(LOWEST),
            (None, None) => self.next,
        };
    }

    /// The highest rate that has passed.
    pub(super) fn highest(&self) -> Option<f64> {
        self.passed
    }
}
