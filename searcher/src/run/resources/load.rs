//! The load of some threads: what is queued on them, and how long it takes.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

thread_local! {
    /// Time that the current job has spent on other jobs, which its thread stole while it waited for its parts.
    static STOLEN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Jobs that are queued or run, and how their expected costs relate to the time that they take.
#[derive(Debug, Default)]
pub(in crate::run) struct PoolLoad {
    jobs: AtomicUsize,
    /// Sum of their expected costs, in microseconds.
    expected_us: AtomicU64,
    /// Time of a job: a moving average in nanoseconds.
    mean_ns: AtomicU64,
    /// Expected cost of the same jobs: a moving average in nanoseconds.
    mean_expected_ns: AtomicU64,
}

/// Updates a moving average. Of two jobs that end at once one value may be lost, which does not matter for an average.
fn average_in(mean: &AtomicU64, value: u64) {
    let before = mean.load(Ordering::Relaxed);
    mean.store(
        if before == 0 {
            value
        } else {
            before - before / 8 + value / 8
        },
        Ordering::Relaxed,
    );
}

/// At least 1: no job is for nothing.
fn micros(cost: Duration) -> u64 {
    (cost.as_micros() as u64).max(1)
}

impl PoolLoad {
    /// Jobs that are queued or run.
    pub(in crate::run) fn jobs(&self) -> usize {
        self.jobs.load(Ordering::Relaxed)
    }

    /// Time until a new job of this expected cost would be done on `threads` threads; zero where it would start at
    /// once. Before it come the jobs that are queued, and all take as long for their costs as the last ones did.
    pub(in crate::run) fn wait(&self, cost: Duration, threads: usize) -> Duration {
        let threads = threads.max(1);
        if self.jobs() < threads {
            return Duration::ZERO;
        }
        let ahead = self.expected_us.load(Ordering::Relaxed) / threads as u64;
        let expected = u128::from(ahead.saturating_add(micros(cost)));
        let (took, expected_of_it) = (
            self.mean_ns.load(Ordering::Relaxed),
            self.mean_expected_ns.load(Ordering::Relaxed).max(1),
        );
        let wait = expected * u128::from(took) / u128::from(expected_of_it);
        Duration::from_micros(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// Work that counts as a job of this expected cost from now until it is done, and records its time. It returns for
    /// how many requests it was.
    pub(in crate::run) fn counted(
        self: &Arc<Self>,
        cost: Duration,
        work: impl FnOnce() -> u32 + Send + 'static,
    ) -> impl FnOnce() + Send + 'static {
        let counted = CountedJob::new(self, micros(cost));
        move || {
            let counted = counted;
            let (started, before) = (Instant::now(), STOLEN.replace(Duration::ZERO));
            let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(1);
            let took = started.elapsed();
            let own = took.saturating_sub(STOLEN.replace(before + took));
            if served > 0 {
                counted.load.record(own / served, counted.cost_us);
            }
        }
    }

    /// Updates the averages by one job.
    fn record(&self, time: Duration, cost_us: u64) {
        average_in(&self.mean_ns, time.as_nanos() as u64);
        average_in(&self.mean_expected_ns, cost_us.saturating_mul(1_000));
    }
}

/// Counts a job until it is dropped, also where it panics or never starts.
struct CountedJob {
    load: Arc<PoolLoad>,
    cost_us: u64,
}

impl CountedJob {
    fn new(load: &Arc<PoolLoad>, cost_us: u64) -> Self {
        load.jobs.fetch_add(1, Ordering::Relaxed);
        load.expected_us.fetch_add(cost_us, Ordering::Relaxed);
        Self {
            load: Arc::clone(load),
            cost_us,
        }
    }
}

impl Drop for CountedJob {
    fn drop(&mut self) {
        self.load.jobs.fetch_sub(1, Ordering::Relaxed);
        self.load.expected_us.fetch_sub(self.cost_us, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_wait_is_for_the_costs_that_are_ahead_and_not_for_the_number_of_jobs() {
        let load = Arc::new(PoolLoad::default());
        // Jobs take twice their expected cost here.
        load.record(20 * MS, 10_000);
        let dear: Vec<_> = [100, 300].map(|cost| load.counted(cost * MS, || 1)).into();
        assert_eq!(load.wait(MS, 3), Duration::ZERO, "a thread is free");
        assert_eq!(load.wait(10 * MS, 2), 2 * (10 + 400 / 2) * MS);
        drop(dear);
        let cheap: Vec<_> = (0..40).map(|_| load.counted(MS, || 1)).collect();
        assert_eq!(load.wait(10 * MS, 2), 2 * (10 + 40 / 2) * MS);
        drop(cheap);
        assert_eq!(
            (load.wait(MS, 1), load.jobs(), load.expected_us.load(Ordering::Relaxed)),
            (Duration::ZERO, 0, 0)
        );
    }

    #[test]
    fn jobs_of_many_costs_keep_the_rate() {
        let load = PoolLoad::default();
        for round in 0..100 {
            // Three times the expected cost each.
            let cost = if round % 10 == 0 { 50_000 } else { 400 };
            load.record(Duration::from_micros(3 * cost), cost);
        }
        load.jobs.store(1, Ordering::Relaxed);
        let wait = load.wait(100 * MS, 1);
        assert!((290 * MS..310 * MS).contains(&wait), "{wait:?}");
    }

    #[test]
    fn jobs_of_a_few_microseconds_keep_the_rate() {
        let load = PoolLoad::default();
        for _ in 0..100 {
            load.record(Duration::from_micros(6), 3);
        }
        for _ in 0..100 {
            load.record(Duration::from_micros(3), 3);
        }
        load.jobs.store(1, Ordering::Relaxed);
        let wait = load.wait(100 * MS, 1);
        assert!((99 * MS..101 * MS).contains(&wait), "{wait:?}");
    }
}
