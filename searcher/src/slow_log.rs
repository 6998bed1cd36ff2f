//! The bound of the log of slow requests: which are slow, and how many lines a second may have.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of one second. More slow requests than that say the same, and a log that fills a disk is worse than a slow
/// searcher.
pub(crate) const LINES_PER_S: u32 = 20;
const SECOND: Duration = Duration::from_secs(1);
const OFF: u64 = u64::MAX;

/// Says which requests are logged for their time.
#[derive(Debug)]
pub(crate) struct SlowLog {
    /// Milliseconds from which on a request is slow.
    threshold: AtomicU64,
    lines: Mutex<LinesOfSecond>,
}

#[derive(Debug, Default)]
struct LinesOfSecond {
    began: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Default for SlowLog {
    fn default() -> Self {
        Self {
            threshold: AtomicU64::new(OFF),
            lines: Mutex::default(),
        }
    }
}

impl SlowLog {
    /// From now on requests that take this long are slow; without it none is.
    pub(crate) fn set(&self, threshold: Option<Duration>) {
        let ms = threshold.map_or(OFF, |threshold| threshold.as_millis() as u64);
        self.threshold.store(ms, Ordering::Relaxed);
    }

    /// The time from which on a request is slow, where any is.
    pub(crate) fn threshold(&self) -> Option<Duration> {
        let ms = self.threshold.load(Ordering::Relaxed);
        (ms != OFF).then(|| Duration::from_millis(ms))
    }

    /// Whether a slow request gets a line now. What got none before is told.
    pub(crate) fn admits(&self, now: Instant) -> bool {
        let (is_admitted, left_out) = self.count(now);
        tell(left_out);
        is_admitted
    }

    /// Tells what got no line and was not told yet, where no slow request comes that would.
    pub(crate) fn tell_left_out(&self, now: Instant) {
        tell(self.end_of_second(now));
    }

    fn count(&self, now: Instant) -> (bool, u64) {
        let left_out = self.end_of_second(now);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.began.get_or_insert(now);
        if lines.written < LINES_PER_S {
            lines.written += 1;
            return (true, left_out);
        }
        lines.left_out += 1;
        (false, left_out)
    }

    /// How many got no line in a second that has passed.
    fn end_of_second(&self, now: Instant) -> u64 {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = lines
            .began
            .is_some_and(|began| now.saturating_duration_since(began) >= SECOND);
        if is_over {
            std::mem::take(&mut *lines).left_out
        } else {
            0
        }
    }
}

fn tell(left_out: u64) {
    if left_out > 0 {
        tracing::warn!(
            left_out,
            "slow requests without a line: {LINES_PER_S} a second have one"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_lines_and_the_others_are_counted() {
        let (log, began) = (SlowLog::default(), Instant::now());
        for _ in 0..LINES_PER_S {
            assert_eq!(log.count(began), (true, 0));
        }
        let later = began + SECOND / 2;
        assert_eq!(log.count(later), (false, 0));
        assert_eq!(log.count(later), (false, 0));
        assert_eq!(
            log.count(began + SECOND),
            (true, 2),
            "told once, by the first of the next second"
        );
        assert_eq!(log.count(began + SECOND), (true, 0));
    }

    #[test]
    fn what_was_left_out_is_known_when_the_second_is_over() {
        let (log, began) = (SlowLog::default(), Instant::now());
        assert_eq!(log.end_of_second(began), 0);
        for _ in 0..=LINES_PER_S {
            log.count(began);
        }
        assert_eq!(log.end_of_second(began), 0, "the second has not passed");
        assert_eq!(log.end_of_second(began + SECOND), 1);
        assert_eq!(log.end_of_second(began + 2 * SECOND), 0);
    }

    #[test]
    fn nothing_is_slow_without_a_threshold() {
        let log = SlowLog::default();
        assert_eq!(log.threshold(), None);
        log.set(Some(Duration::ZERO));
        assert_eq!(log.threshold(), Some(Duration::ZERO));
        log.set(None);
        assert_eq!(log.threshold(), None);
    }
}
