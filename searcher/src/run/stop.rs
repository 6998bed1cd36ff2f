//! When work ends before its end: the deadline has passed, or nobody waits for the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dyad_index::{Cancel, Hits};

use crate::error::{Error, Result};

/// Asked by the work of one request, now and then.
#[derive(Debug)]
pub(super) struct Stop {
    left: AtomicBool,
    deadline: Instant,
    time: Duration,
}

/// Held by whoever waits; the work stops when it is dropped.
#[derive(Debug)]
pub(super) struct Waiting(Arc<Stop>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.left.store(true, Ordering::Relaxed);
    }
}

impl Cancel for Stop {
    fn is_cancelled(&self) -> bool {
        self.left.load(Ordering::Relaxed) || Instant::now() >= self.deadline
    }
}

impl Stop {
    /// Work that may take `time` from `started`.
    pub(super) fn after(started: Instant, time: Duration) -> (Arc<Self>, Waiting) {
        let stop = Arc::new(Self { left: AtomicBool::new(false), deadline: started + time, time });
        (Arc::clone(&stop), Waiting(stop))
    }

    /// When the time is over.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// What is said of work that was stopped.
    pub(super) fn over(&self) -> Error {
        Error::Deadline(self.time)
    }

    /// Refuses to begin where there is no time left.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(self.over()) } else { Ok(()) }
    }

    /// Hits of a search that came to its end. Those of a cancelled one are never an answer.
    pub(super) fn complete<H>(&self, hits: Hits<H>) -> Result<Hits<H>> {
        if hits.is_cancelled() { Err(self.over()) } else { Ok(hits) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_stops_when_nobody_waits_or_the_time_is_over() {
        let hour = Duration::from_hours(1);
        let (stop, waiting) = Stop::after(Instant::now(), hour);
        assert!(!stop.is_cancelled() && stop.check().is_ok());
        assert_eq!(stop.complete(Hits::<u8>::default()).unwrap(), Hits::default());
        assert!(matches!(stop.complete(Hits::<u8>::cancelled()), Err(Error::Deadline(time)) if time == hour));
        drop(waiting);
        assert!(stop.is_cancelled() && stop.check().is_err());
        let (stop, _waiting) = Stop::after(Instant::now(), Duration::ZERO);
        assert!(stop.is_cancelled());
    }
}
