//! The load of one leaf as a root sees it: calls in flight, and how long the last ones took.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Calls whose times are kept.
const KEPT: usize = 256;
/// Calls before a leaf has times of its own.
const ENOUGH: usize = 32;
/// Between two computations of the 95th percentile, in calls.
const EVERY: u64 = 16;
/// Within this time the mean gives way to calls that are faster, or to none, by a factor e. One that was slower is the
/// mean at once: the peak-sensitive mean of Finagle and `tower`, which leaves a leaf that has become slow after one
/// call, and tries it again after a while.
const DECAY: Duration = Duration::from_secs(5);

/// A call that has failed counts as one that took so many times as long as 95 of 100 take.
const FAILED_TIMES: u32 = 8;
/// What 95 of 100 take, of a leaf without times of its own.
const FAILED: Duration = Duration::from_millis(50);

/// Calls in flight, and times of the last ones.
#[derive(Debug, Default)]
pub(crate) struct LeafLoad {
    in_flight: AtomicUsize,
    calls: AtomicU64,
    /// Microseconds.
    p95: AtomicU64,
    times: Mutex<CallTimes>,
}

#[derive(Debug, Default)]
struct CallTimes {
    /// Microseconds, of which the oldest is replaced.
    last: Vec<u32>,
    /// Microseconds, as of `updated`.
    peak_mean: f64,
    has_failed: bool,
    updated: Option<Instant>,
}

impl CallTimes {
    /// What is left of the mean.
    fn faded(&self, now: Instant) -> f64 {
        let idle = self
            .updated
            .map_or(Duration::ZERO, |updated| now.saturating_duration_since(updated));
        self.peak_mean * (-idle.as_secs_f64() / DECAY.as_secs_f64()).exp()
    }

    /// The mean with a call of this time.
    fn add(&mut self, took: f64, now: Instant) {
        let faded = self.faded(now);
        let kept = if self.peak_mean > 0.0 {
            faded / self.peak_mean
        } else {
            0.0
        };
        self.peak_mean = if took > faded {
            took
        } else {
            took + (faded - took) * kept
        };
        self.updated = Some(now);
    }
}

/// A call in flight. One that is dropped before it was answered counts as one that took as long, where that is longer
/// than the mean: who asked elsewhere meanwhile does not wait for it.
#[derive(Debug)]
pub(crate) struct InFlight {
    load: Arc<LeafLoad>,
    began: Instant,
    is_answered: bool,
}

impl InFlight {
    /// It was answered.
    pub(crate) fn answered(mut self) {
        self.is_answered = true;
        self.load.record(self.began.elapsed(), Instant::now());
    }

    /// It has failed, which counts as a slow call: one that fails at once must not seem to be the fastest.
    pub(crate) fn failed(mut self) {
        self.is_answered = true;
        self.load.record_failure(self.began.elapsed(), Instant::now());
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.load.in_flight.fetch_sub(1, Ordering::AcqRel);
        let took = self.began.elapsed();
        if !self.is_answered && self.load.peak_mean().is_some_and(|mean| took > mean) {
            self.load.record(took, Instant::now());
        }
    }
}

impl LeafLoad {
    /// A call begins; it is in flight as long as the guard lives.
    pub(crate) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlight {
            load: Arc::clone(self),
            began: Instant::now(),
            is_answered: false,
        }
    }

    /// Calls that are in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Calls that were answered.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// A call was answered after this time.
    fn record(&self, took: Duration, now: Instant) {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let at = calls as usize % KEPT;
        match times.last.get_mut(at) {
            Some(oldest) => *oldest = took,
            None => times.last.push(took),
        }
        times.add(f64::from(took), now);
        if times.last.len() >= ENOUGH && calls.is_multiple_of(EVERY) {
            let mut ordered = times.last.clone();
            ordered.sort_unstable();
            let p95 = ordered.get(ordered.len() * 95 / 100).copied().unwrap_or(u32::MAX);
            self.p95.store(u64::from(p95), Ordering::Relaxed);
        }
    }

    /// A call has failed after this time.
    fn record_failure(&self, took: Duration, now: Instant) {
        let slow = self.p95().unwrap_or(FAILED) * FAILED_TIMES;
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.has_failed = true;
        times.add(took.max(slow).as_micros() as f64, now);
    }

    /// The time within which 95 of 100 calls were answered; none before there were enough.
    pub(crate) fn p95(&self) -> Option<Duration> {
        let micros = self.p95.load(Ordering::Relaxed);
        (micros > 0).then(|| Duration::from_micros(micros))
    }

    /// The mean time, as long as a slow call at least was a short while ago; none before there were enough calls.
    pub(crate) fn peak_mean(&self) -> Option<Duration> {
        self.peak_mean_at(Instant::now())
    }

    fn peak_mean_at(&self, now: Instant) -> Option<Duration> {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        (times.has_failed || times.last.len() >= ENOUGH).then(|| Duration::from_secs_f64(times.faded(now) / 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_flight_are_counted_until_they_end() {
        let load = Arc::new(LeafLoad::default());
        let (one, two, three) = (load.begin(), load.begin(), load.begin());
        assert_eq!(load.in_flight(), 3);
        drop(one);
        two.failed();
        assert_eq!((load.in_flight(), load.calls()), (1, 0));
        three.answered();
        assert_eq!((load.in_flight(), load.calls()), (0, 1));
    }

    #[test]
    fn a_leaf_that_fails_at_once_is_not_the_fastest() {
        let now = Instant::now();
        let load = recorded(&[(100, 2)], now);
        load.record_failure(Duration::from_micros(10), now);
        assert_eq!(load.peak_mean_at(now), Some(Duration::from_millis(16)));
        assert_eq!(load.p95(), Some(Duration::from_millis(2)), "of answers alone");
        let new = LeafLoad::default();
        new.record_failure(Duration::ZERO, now);
        assert_eq!(new.peak_mean_at(now), Some(Duration::from_millis(400)));
    }

    fn recorded(calls: &[(usize, u64)], now: Instant) -> LeafLoad {
        let load = LeafLoad::default();
        for (count, millis) in calls {
            for _ in 0..*count {
                load.record(Duration::from_millis(*millis), now);
            }
        }
        load
    }

    #[test]
    fn there_are_no_times_before_there_were_enough_calls() {
        let now = Instant::now();
        let few = recorded(&[(ENOUGH - 1, 1)], now);
        assert_eq!((few.p95(), few.peak_mean_at(now)), (None, None));
        let enough = recorded(&[(ENOUGH + EVERY as usize, 1)], now);
        assert_eq!(enough.p95(), Some(Duration::from_millis(1)));
        assert_eq!(enough.peak_mean_at(now), Some(Duration::from_millis(1)));
    }

    #[test]
    fn a_slow_call_counts_at_once_and_fades_with_time() {
        let now = Instant::now();
        let load = recorded(&[(100, 1), (1, 200)], now);
        assert_eq!(load.peak_mean_at(now), Some(Duration::from_millis(200)));
        let after = |times: u32| load.peak_mean_at(now + DECAY * times).unwrap();
        assert!(
            after(1) > Duration::from_millis(70) && after(1) < Duration::from_millis(80),
            "{:?}",
            after(1)
        );
        assert!(after(6) < Duration::from_millis(1), "it is tried again");
        load.record(Duration::from_millis(1), now + DECAY);
        let mean = load.peak_mean_at(now + DECAY).unwrap();
        assert!(mean < Duration::from_millis(40), "{mean:?}");
        assert_eq!(load.calls(), 102);
    }

    #[test]
    fn the_percentile_is_of_the_last_calls() {
        let load = recorded(&[(KEPT, 1), (KEPT * 90 / 100, 1), (KEPT / 8, 50)], Instant::now());
        assert_eq!(load.p95(), Some(Duration::from_millis(50)));
        let load = recorded(&[(KEPT, 50), (KEPT + EVERY as usize, 3)], Instant::now());
        assert_eq!(load.p95(), Some(Duration::from_millis(3)));
    }
}
